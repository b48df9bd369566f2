package decode

// An abort ends the decoding of an object, of which no value is to blame.
type abort struct{ error }

// Unwrap returns why.
func (a abort) Unwrap() error { return a.error }

// tickEvery is after how many ticks a parser asks whether it shall go on: some tens of microseconds of work.
const tickEvery = 1024

// tick is called for what there may be any number of in one object: brackets, elements and members. An error ends the object.
func (p *parser) tick() error {
	if p.ticks++; p.ticks%tickEvery != 0 {
		return nil
	}
	return p.checkStop()
}

func (p *parser) checkStop() error {
	if p.stop == nil {
		return nil
	}
	if err := p.stop(); err != nil {
		return abort{err}
	}
	return nil
}

// StopWhen lets what is decoded end with the error that stopped returns, within less than a millisecond even in a large object.
// It is called now and then, by any goroutine that decodes. It holds until the next call; nil is for never.
func (d *Decoder) StopWhen(stopped func() error) { d.p.stop = stopped }
