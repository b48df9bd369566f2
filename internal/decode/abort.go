package decode

// An abort ends the decoding of an object because the caller has stopped it. No value of the object
// is to blame, so it gets no path and is not the object's Err.
type abort struct{ error }

// Unwrap returns the error that the function of StopWhen returned.
func (a abort) Unwrap() error { return a.error }

// tickEvery is the number of ticks after which a parser asks whether to go on. They take some tens
// of microseconds, so that an object of many megabytes ends within a millisecond, and the calls
// cost nothing.
const tickEvery = 1024

// tick is called once for everything that one object may have any number of: brackets, elements,
// members. An error ends the object.
func (p *parser) tick() error {
	if p.ticks++; p.ticks%tickEvery != 0 {
		return nil
	}
	return p.checkStop()
}

// checkStop asks the function of StopWhen whether to go on.
func (p *parser) checkStop() error {
	if p.stop == nil {
		return nil
	}
	if err := p.stop(); err != nil {
		return abort{err}
	}
	return nil
}

// StopWhen makes the decoding end with the error that stopped returns, within less than a
// millisecond even in a large object. stopped is called now and then, by any goroutine that
// decodes, so it must be safe for concurrent use. It applies to all streams until the next call of
// StopWhen; nil means never.
func (d *Decoder) StopWhen(stopped func() error) { d.p.stop = stopped }
