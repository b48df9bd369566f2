package decode

const (
	// keepWork is the most bytes of each kind of working memory that a Decoder holds on to: it lives as long as its source, and
	// the largest object that ever came is mostly gone.
	keepWork = 256 << 10
	// keepElements is that for the elements of one field.
	keepElements = keepWork / 4
	// keepStack is the most places of a stack, of which each has up to 32 bytes.
	keepStack = keepWork / 32
)

// settle gives back what a large object needed, when it has been decoded.
func (d *Decoder) settle() {
	if cap(d.pairs) > keepStack {
		d.pairs = nil
	}
	if cap(d.words) > keepStack {
		d.words = nil
	}
	if cap(d.p.scratch) > keepWork {
		d.p.scratch = nil
	}
	if len(d.wires.all) > keepStack && d.wires.used == 0 {
		d.wires.all = nil
	}
}

// passed gives back the bytes of a large piece of a stream, before the next one is awaited.
func (d *Decoder) passed() {
	if len(d.p.data) > keepWork {
		d.p.data = nil
	}
}

// done gives back what is of no use after a stream.
func (d *Decoder) done() {
	d.p.data = nil
	d.buf.reset(nil, 0, 0)
}
