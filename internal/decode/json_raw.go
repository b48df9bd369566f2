package decode

// A rawField finds the ends of the values of one field. Those that are the same bytes as one of the last, as managed fields of one
// manager mostly are, need only a comparison: an object, an array or a string ends where its bytes say, whatever follows.
type rawField struct {
	seen     [rawValues]rawValue
	last     int // the value in seen that was last
	replaced int
}

const (
	// rawValues is the number of values that a rawField remembers.
	rawValues = 4
	// Values of fewer bytes than minRaw cost as much to compare as to read, those of more than maxRaw are not worth the memory.
	minRaw = 24
	maxRaw = 16 << 10
)

// A rawValue is a valid value, which has been found at some depth. It may nest too deep at a greater one.
type rawValue struct {
	bytes     []byte
	depth     int
	successor int // the value that followed the last time
}

// raw is the parser's raw.
func (f *rawField) raw(p *parser) ([]byte, error) {
	p.next()
	rest := p.data[p.pos:]
	guess := f.seen[f.last].successor
	if v := &f.seen[guess]; len(v.bytes) > 0 && len(rest) >= len(v.bytes) && p.depth <= v.depth &&
		string(rest[:len(v.bytes)]) == string(v.bytes) {
		f.last = guess
		p.pos += len(v.bytes)
		return rest[:len(v.bytes)], nil
	}
	raw, err := p.raw()
	if err != nil || len(raw) < minRaw || len(raw) > maxRaw {
		return raw, err
	}
	if raw[0] == '{' || raw[0] == '[' || raw[0] == '"' {
		f.remember(raw, p.depth)
	}
	return raw, nil
}

// remember puts raw behind the last value.
func (f *rawField) remember(raw []byte, depth int) {
	at := -1
	for i := range f.seen {
		if string(f.seen[i].bytes) == string(raw) {
			at = i
		}
	}
	if at < 0 {
		f.replaced++
		at = f.replaced % rawValues
		v := &f.seen[at]
		v.bytes, v.depth, v.successor = append(v.bytes[:0], raw...), 0, at
	}
	f.seen[at].depth = max(f.seen[at].depth, depth)
	f.seen[f.last].successor = at
	f.last = at
}
