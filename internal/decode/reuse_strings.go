package decode

import "hash/maphash"

const (
	// maxIntern is the length of the longest string that is remembered. Longer ones seldom repeat.
	maxIntern = 128
	// trialLength is the number of lookups, or of objects, after which something that is remembered
	// is judged. What was found for less than half of the lookups is not looked up any more.
	trialLength = 256
)

// seed is one for all pools. It is random, so that no server can choose strings that displace each
// other.
var seed = maphash.MakeSeed()

// nameSeed is for what is combined with a hash by seed: of two hashes by one seed, those of equal
// bytes would cancel each other out.
var nameSeed = maphash.MakeSeed()

// A stringPool remembers strings, so that equal ones share memory: the objects of a cluster have
// the same namespaces, labels, images and nodes. It is a table without chains. A slot holds the
// last string with its hash, so the memory is bounded and nothing has to be evicted. Two strings
// that meet in a slot displace each other; then they are allocated again, and nothing else is
// wrong.
type stringPool struct {
	table []string
	crowd crowd
}

// get returns b as a string, its hash, and whether the pool had it. It does not remember a long b,
// since a server may send names of megabytes, and a table of these would live as long as the watch.
func (p *stringPool) get(b []byte) (s string, hash uint64, found bool) {
	if len(b) > maxIntern {
		return string(b), 0, false
	}
	hash = maphash.Bytes(seed, b)
	if len(p.table) == 0 {
		p.table = make([]string, firstSlots)
	}
	at := &p.table[hash%uint64(len(p.table))]
	if *at == string(b) {
		return *at, hash, true
	}
	if *at != "" && p.crowd.displace(len(p.table)) {
		p.table = enlarged(p.table, func(s string) uint64 { return maphash.String(seed, s) })
		at = &p.table[hash%uint64(len(p.table))]
	}
	*at = string(b)
	return *at, hash, false
}

const (
	// firstSlots and mostSlots are the size of a pool's table at first and at most. A program may
	// have hundreds of decoders, each for a few objects.
	firstSlots = 64
	mostSlots  = 2048
	// crowded is how many times its slots a pool may displace in one stream before it is doubled.
	crowded = 2
)

// A crowd says when a pool is too small. It counts for one stream at a time, which is some minutes
// of a watch. So the versions and times of events that come now and then, each of which displaces
// another string and never comes again, do not fill the memory in the course of days.
type crowd struct{ displaced int }

// displace notes that a string takes the place of another one, and reports whether the table with
// so many slots is to be doubled.
func (c *crowd) displace(slots int) bool {
	if c.displaced++; c.displaced <= crowded*slots || slots >= mostSlots {
		return false
	}
	c.displaced = 0
	return true
}

// enlarged returns a table of twice the size with what table has.
func enlarged[E comparable](table []E, hashOf func(E) uint64) []E {
	var none E
	larger := make([]E, 2*len(table))
	for _, e := range table {
		if e != none {
			larger[hashOf(e)%uint64(len(larger))] = e
		}
	}
	return larger
}

// A hitRate counts how often what one field remembers was of use. It turns a memory off that costs
// more than it saves, such as one for names or UIDs, which never repeat.
type hitRate struct {
	tries, hits uint32
	gaveUp      bool
}

// count adds a lookup. After trialLength lookups it decides whether to give up, for good.
func (h *hitRate) count(hit bool) {
	h.tries++
	if hit {
		h.hits++
	}
	if h.tries == trialLength {
		h.gaveUp = h.hits < trialLength/2
		h.tries, h.hits = 0, 0
	}
}

// A stringField makes the strings of one field, by two guesses.
//
// The first guess is the order. What a field says in the elements of a list, such as the names of
// containers and their variables, comes again in the next object in the same order. So a small
// table remembers which string followed which. A right guess costs one comparison of bytes: no
// hash, and no search for the end of the string.
//
// The second guess is that the string is one of all that the Decoder has seen: a lookup in the
// stringPool. A field of names or UIDs gives up both, and copies its bytes.
type stringField struct {
	// seen has the last strings, each at a place by its hash. It is nil before the first string and
	// after the field has given up.
	seen *[seenStrings]seenString
	// last is where in seen the last string is.
	last uint8
	hitRate
}

// seenStrings is the number of strings whose order a stringField remembers. As a constant power of
// two it needs no bounds check, and the modulo is a mask.
const seenStrings = 16

// A seenString is a string and where its successor is.
type seenString struct {
	string
	// successor is the place in seen of the string that came after this one the last time.
	successor uint8
	// plain says that JSON has the string as its own bytes, without an escape. Only then can the
	// bytes of the input be compared with it.
	plain bool
}

// expected returns the string that is expected next, and its place in seen.
func (f *stringField) expected() (*seenString, uint8) {
	at := f.seen[f.last%seenStrings].successor
	return &f.seen[at%seenStrings], at
}

// guess consumes the string that is expected next, if the input has it. The quote behind it is
// compared as well: the input may have a longer string that begins like it.
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

// read consumes a JSON string, which must be next.
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

// intern returns b as a string. It is read for protobuf, where the bytes are the string.
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

// remember returns b as a string from the pool, and notes it as the successor of the last one.
// plain says whether the string stood in JSON without escapes.
func (f *stringField) remember(d *Decoder, b []byte, plain bool) string {
	switch {
	case len(b) == 0:
		return ""
	case f.gaveUp || len(b) > maxIntern:
		return string(b)
	}
	s, hash, found := d.strings.get(b)
	f.count(found)
	// The field has just given up, so its table is garbage.
	if f.gaveUp {
		f.seen = nil
		return s
	}
	if f.seen == nil {
		f.seen = new([seenStrings]seenString)
	}
	// Other bits of the hash than those that choose the slot in the pool.
	at := uint8(hash >> 32 % seenStrings)
	if now := &f.seen[at]; now.string != s {
		*now = seenString{s, at, plain}
	}
	f.seen[f.last%seenStrings].successor = at
	f.last = at
	return s
}

// boxedStrings is a stringPool for strings in interfaces, as unstructured objects have them. A
// string in an interface is a second allocation: the box with pointer and length. So the boxes are
// what is remembered.
type boxedStrings struct {
	table []any
	crowd crowd
}

// get returns b as a string in an interface, and remembers it if it is short.
func (bs *boxedStrings) get(b []byte) any {
	if len(b) > maxIntern {
		return string(b)
	}
	if len(bs.table) == 0 {
		bs.table = make([]any, firstSlots)
	}
	hash := maphash.Bytes(seed, b)
	at := &bs.table[hash%uint64(len(bs.table))]
	s, taken := (*at).(string)
	if taken && s == string(b) {
		return *at
	}
	if taken && bs.crowd.displace(len(bs.table)) {
		bs.table = enlarged(bs.table, func(s any) uint64 { return maphash.String(seed, s.(string)) })
		at = &bs.table[hash%uint64(len(bs.table))]
	}
	*at = string(b)
	return *at
}
