package decode

import "hash/maphash"

const (
	// internSlots is the number of strings that a pool remembers.
	internSlots = 2048
	// maxIntern is the longest string that is remembered.
	maxIntern = 128
	// After trial tries, what was found less than half of the time is not looked for any more.
	trial = 256
)

var seed = maphash.MakeSeed()

// A pool remembers strings, so that equal ones share memory. Each place of the table holds the last string that came its way,
// which bounds it.
type pool struct{ table []string }

func (p *pool) get(b []byte) (s string, found bool) {
	if p.table == nil {
		p.table = make([]string, internSlots)
	}
	at := &p.table[maphash.Bytes(seed, b)%internSlots]
	if *at == string(b) {
		return *at, true
	}
	*at = string(b)
	return *at, false
}

// A meter counts how often a memory of values of one field knew a value.
type meter struct {
	tries, hits uint32
	off         bool
}

func (m *meter) count(hit bool) {
	m.tries++
	if hit {
		m.hits++
	}
	if m.tries == trial {
		m.off = m.hits < trial/2
		m.tries, m.hits = 0, 0
	}
}

// A stringField makes the strings of one field: one that repeats is remembered, a field of names or UIDs gives up.
type stringField struct {
	last string
	meter
}

func (f *stringField) make(d *Decoder, b []byte) string {
	switch {
	case len(b) == 0:
		return ""
	case f.last == string(b):
		return f.last
	case f.off || len(b) > maxIntern:
		return string(b)
	}
	s, found := d.strings.get(b)
	f.count(found)
	f.last = s
	return s
}
