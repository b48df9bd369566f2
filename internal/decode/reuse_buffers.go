package decode

import "io"

const (
	// maxKeptBytes is the most bytes of each sort of working memory that a Decoder keeps after an
	// object. A Decoder lives as long as its source, which may be weeks, and one object of many
	// megabytes must not cost memory for that time.
	maxKeptBytes = 256 << 10
	// maxKeptElements is the same limit for the elements that one field decodes into.
	maxKeptElements = maxKeptBytes / 4
	// maxKeptStack is the limit for the places of a stack. A place takes up to 32 bytes.
	maxKeptStack = maxKeptBytes / 32
)

// releaseScratch is called after each object. It lets go of the object and its last version, and of
// working memory that has grown too large. It leaves the rest for the next object. Stacks of usual
// size are not cleared here: whoever uses places clears them.
func (d *Decoder) releaseScratch() {
	d.last = lastVersion{}
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

// releaseInput makes the parser forget the bytes of the piece that it has parsed. They are part of
// the buffer, and would keep a large buffer alive while the next piece is awaited, maybe for hours.
func (d *Decoder) releaseInput() { d.p.data = nil }

// beginStream begins to read r, with memory for first bytes at first and enough for a busy stream.
func (d *Decoder) beginStream(r io.Reader, first, enough int) {
	d.buf.reset(r, d.opts.Limit, first, enough)
	d.strings.crowd = crowd{}
	d.boxed.crowd = crowd{}
}

// releaseStream lets go of the reader, of a large buffer and of spare memory after a stream.
func (d *Decoder) releaseStream() {
	d.spare = pointer{}
	d.releaseInput()
	d.buf.reset(nil, 0, 0, 0)
}
