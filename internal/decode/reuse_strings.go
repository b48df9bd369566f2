package decode

import "hash/maphash"

const (
	// internSlots is the number of strings that a pool remembers.
	internSlots = 2048
	// maxIntern is the longest string that is remembered.
	maxIntern = 128
	// After trial tries, what was found less than half of the time is not looked for any more.
	trialLength = 256
)

var seed = maphash.MakeSeed()

// A pool remembers strings, so that equal ones share memory. Each place of the table holds the last string that came its way,
// which bounds it.
type stringPool struct{ table []string }

func (p *stringPool) get(b []byte) (s string, hash uint64, found bool) {
	if p.table == nil {
		p.table = make([]string, internSlots)
	}
	hash = maphash.Bytes(seed, b)
	at := &p.table[hash%internSlots]
	if *at == string(b) {
		return *at, hash, true
	}
	*at = string(b)
	return *at, hash, false
}

// A meter counts how often a memory of values of one field knew a value.
type hitRate struct {
	tries, hits uint32
	gaveUp      bool
}

func (m *hitRate) count(hit bool) {
	m.tries++
	if hit {
		m.hits++
	}
	if m.tries == trialLength {
		m.gaveUp = m.hits < trialLength/2
		m.tries, m.hits = 0, 0
	}
}

// A stringField makes the strings of one field: one that repeats is remembered, a field of names or UIDs gives up. It remembers
// which string followed which, too: what the elements of a list have in a field comes again in the next object, in the same
// order.
type stringField struct {
	seen *[seenStrings]seenString // nil before the first string, and after the field has given up
	last uint8                    // where in seen the last string is
	hitRate
}

// seenStrings is the number of strings that a stringField remembers the order of.
const seenStrings = 16

type seenString struct {
	string
	successor uint8 // where in seen the string is that followed the last time
	plain     bool  // it stands for itself in JSON
}

// expected returns the string that is expected to be next, and where in seen it is.
func (f *stringField) expected() (*seenString, uint8) {
	at := f.seen[f.last%seenStrings].successor
	return &f.seen[at%seenStrings], at
}

// guess consumes the string that is expected to be next, if it is, which takes a comparison.
func (f *stringField) guess(p *parser) (string, bool) {
	if f.seen == nil {
		return "", false
	}
	s, at := f.expected()
	rest, n := p.data[p.pos:], len(s.string)
	if !s.plain || len(rest) < n+2 || rest[0] != '"' || rest[n+1] != '"' || string(rest[1:n+1]) != s.string {
		return "", false
	}
	p.pos += n + 2
	f.last = at
	f.count(true)
	return s.string, true
}

// read consumes a string, which must be next.
func (f *stringField) read(d *Decoder) (string, error) {
	if s, ok := f.guess(&d.p); ok {
		return s, nil
	}
	b, err := d.p.str()
	if err != nil {
		return "", err
	}
	return f.remember(d, b, d.p.plain), nil
}

// make returns b as a string.
func (f *stringField) intern(d *Decoder, b []byte) string {
	if f.seen != nil && len(b) > 0 {
		if s, at := f.expected(); s.string == string(b) {
			f.last = at
			f.count(true)
			return s.string
		}
	}
	return f.remember(d, b, false)
}

func (f *stringField) remember(d *Decoder, b []byte, plain bool) string {
	switch {
	case len(b) == 0:
		return ""
	case f.gaveUp || len(b) > maxIntern:
		return string(b)
	}
	s, hash, found := d.strings.get(b)
	f.count(found)
	if f.gaveUp {
		f.seen = nil
		return s
	}
	if f.seen == nil {
		f.seen = new([seenStrings]seenString)
	}
	at := uint8(hash >> 32 % seenStrings)
	if now := &f.seen[at]; now.string != s {
		*now = seenString{s, at, plain}
	}
	f.seen[f.last%seenStrings].successor = at
	f.last = at
	return s
}

// A boxPool is a pool of strings in interfaces, which are one more piece of memory.
type boxedStrings struct{ table []any }

func (p *boxedStrings) get(b []byte) any {
	if len(b) > maxIntern {
		return string(b)
	}
	if p.table == nil {
		p.table = make([]any, internSlots)
	}
	at := &p.table[maphash.Bytes(seed, b)%internSlots]
	if s, ok := (*at).(string); !ok || s != string(b) {
		*at = string(b)
	}
	return *at
}
