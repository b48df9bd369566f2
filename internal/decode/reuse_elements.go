package decode

// A part of an untyped object that has changed has mostly changed in one place: one condition of
// many, or what one manager says of its fields. So each value in it is compared with that of the
// last version as it is decoded, and is that one if they are equal. That needs no notes, and less
// time than the maps and strings that it saves.

// decodeNear consumes a value of any sort and returns it without what keep leaves out. old is the
// value in its place in the last version; nil: there is none, or it is nil. same reports that the
// value equals old in all that it has, whatever the order of its names: then it is old.
func (d *Decoder) decodeNear(old any, keep mask) (v any, same bool, err error) {
	switch c := d.p.next(); c {
	case '{':
		last, _ := old.(map[string]any)
		m, same, _, err := d.decodeAnyMap(keep, last, nil)
		return m, same, err
	case '[':
		last, _ := old.([]any)
		s, same, err := d.decodeAnySlice(keep, last)
		if same {
			return old, true, nil // in the interface that there is
		}
		return s, false, err
	default:
		v, same, err := d.decodeAnyScalar(c, old)
		if err == nil && !keep.value() {
			v = emptyOf(v)
			same = v == old
		}
		return v, same, err
	}
}
