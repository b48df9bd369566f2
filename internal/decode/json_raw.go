package decode

// A rawField finds the ends of the values of one field whose type decodes itself, from the bytes of
// the value. The managed fields of one manager are the same bytes in most objects, and long. So a
// rawField keeps the bytes of the last few values: if the input begins with those of the expected
// one, a comparison replaces the search for the end. As in shareField, this is right only for
// objects, arrays and strings.
type rawField struct {
	seen [rawValues]rawValue
	// last is the place in seen of the last value.
	last int
	// replaced counts the values that were put into seen. It chooses the next place, in turn.
	replaced int
}

const (
	// rawValues is how many values a rawField remembers. An object mostly has that many managers,
	// or fewer.
	rawValues = 4
	// A value of fewer bytes than minRaw costs as much to compare as to read. One of more than
	// maxRaw is not worth the memory.
	minRaw = 24
	maxRaw = 16 << 10
)

// A rawValue is the bytes of a valid value. It was found at depth, and may nest too deep at a
// greater one.
type rawValue struct {
	bytes []byte
	depth int
	// successor is the place of the value that followed the last time.
	successor int
}

// raw consumes a value and returns its bytes, as the parser's raw does.
func (f *rawField) raw(p *parser) ([]byte, error) {
	p.next()
	if k := p.known; k.start == p.pos && k.end > k.start {
		p.pos = k.end
		return p.data[k.start:k.end], nil
	}
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

// remember notes that raw came after the last value. If it is not in seen, it takes the place of
// the oldest one, in the memory of that.
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
