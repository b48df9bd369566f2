package decode

const (
	// keepWork is the most bytes of each kind of working memory that a Decoder holds on to: it lives as long as its source, and
	// the largest object that ever came is mostly gone.
	maxKeptBytes = 256 << 10
	// keepElements is that for the elements of one field.
	maxKeptElements = maxKeptBytes / 4
	// keepStack is the most places of a stack, of which each has up to 32 bytes.
	maxKeptStack = maxKeptBytes / 32
)

// settle gives back what a large object needed, when it has been decoded.
func (d *Decoder) releaseScratch() {
	if cap(d.pairStack) > maxKeptStack {
		d.pairStack = nil
	}
	if cap(d.stringStack) > maxKeptStack {
		d.stringStack = nil
	}
	if cap(d.p.scratch) > maxKeptBytes {
		d.p.scratch = nil
	}
	if len(d.wires.all) > maxKeptStack && d.wires.used == 0 {
		d.wires.all = nil
	}
}

// passed lets go of the bytes of a piece of a stream before the next one is awaited: they may be a part of many more.
func (d *Decoder) releaseInput() { d.p.data = nil }

// done gives back what is of no use after a stream.
func (d *Decoder) releaseStream() {
	d.releaseInput()
	d.buf.reset(nil, 0, 0)
}
