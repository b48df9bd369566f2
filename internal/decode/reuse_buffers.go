package decode

import "io"

// releaseScratch is called after each object. It lets go of the object and its last version, and of
// working memory that has grown too large. It leaves the rest for the next object. Stacks of usual
// size are not cleared here: whoever uses places clears them.
func (d *Decoder) releaseScratch() {
	d.noteSibling()
	d.last = lastVersion{}
	if cap(d.pairStack) > maxKeptStack {
		d.pairStack = nil
	}
	if cap(d.stringStack) > maxKeptStack {
		d.stringStack = nil
	}
	if cap(d.spans) > maxKeptStack {
		d.spans = nil
	}
	if cap(d.changes) > maxKeptStack {
		d.changes = nil
	}
	if cap(d.grown) > maxKeptStack {
		d.grown = nil
	}
	if cap(d.p.scratch) > maxKeptBytes {
		d.p.scratch = nil
	}
	if len(d.wires.all) > maxKeptStack && d.wires.used == 0 {
		d.wires.all = nil
	}
}

// await lets go of what the next events soon make again. It is called when the wait for the first
// of them begins, since a program may have hundreds of watches on which hardly anything comes.
// Strings of many objects stay.
func (d *Decoder) await() {
	if len(d.strings.table) <= firstSlots {
		d.strings.table = nil
	}
	if len(d.boxed.table) <= firstSlots {
		d.boxed.table = nil
	}
	d.kinds[0].seen, d.kinds[1].seen, d.eventTypes.seen = nil, nil, nil
	for i := range d.ahead {
		d.patternBytes -= d.ahead[i].size
		d.ahead[i] = skipPattern{}
	}
	d.maps.seen = nil
	d.generateName = ""
	d.templates, d.templateBytes, d.changes, d.grown = nil, 0, nil, nil
	d.pairStack, d.stringStack, d.p.scratch = nil, nil, nil
}

// releaseInput makes the parser forget the bytes of the piece that it has parsed. They are part of
// the buffer, and would keep a large buffer alive while the next piece is awaited, maybe for hours.
func (d *Decoder) releaseInput() { d.p.data, d.p.src = nil, nil }

// beginStream begins to read r, with memory for first bytes at first and enough for a busy stream.
func (d *Decoder) beginStream(r io.Reader, first, enough int) {
	d.buf.reset(r, d.opts.Limit, first, enough)
	d.strings.crowd = crowd{}
	d.boxed.crowd = crowd{}
	d.expected, d.lastKind, d.lastVersion = d.opts.Kinds, "", ""
}

// releaseStream lets go of the reader, of a large buffer and of spare memory after a stream.
func (d *Decoder) releaseStream() {
	d.spare = pointer{}
	d.releaseInput()
	d.buf.reset(nil, 0, 0, 0)
}
