package lz

import "sync"

const (
	// tooSmall is below what is not packed: it would save little, and costs a step.
	tooSmall = 512
	// selfLike is the size from which a text that does not pack by itself is no sample of others.
	selfLike = 4 << 10
	// largestSample is the most of one text that a dictionary gets: another one may be like it.
	largestSample = 16 << 10
	// firstWindow is how many texts the ratio is measured over. It doubles with each new dictionary,
	// so that a collection that no dictionary fits does not make them for ever.
	firstWindow = 256
)

// A Coder packs the texts of one collection. Its dictionary is made of the first ones, and made anew
// when what comes is not like them any more. A text is unpacked by the dictionary that it was packed
// by, which lives as long as such a text does. It is safe for concurrent use. The zero Coder is ready.
type Coder struct {
	mu   sync.Mutex
	dict *Dict // nil: there was none; guarded by mu, as those below
	// samples are texts for the next dictionary, and sampled is their size. full says that there are
	// enough, and that the ratio is measured.
	samples []sample
	sampled int
	full    bool
	// in and out are the bytes of the last texts before and after, since there are count of window.
	in, out, count, window int
	best                   float64 // the best ratio of a window with dict; 0: there was none
}

// A sample is a text as it was packed. It shares its memory with whoever keeps the text.
type sample struct {
	dict   *Dict
	packed string
	size   int
}

var empty = New(nil)

// Pack appends what src is packed to to dst, and returns the dictionary that unpacks it. That is nil
// if src is kept as it is: because it is small, or because not even a tenth would be saved.
func (c *Coder) Pack(dst, src []byte) ([]byte, *Dict) {
	if len(src) < tooSmall {
		return append(dst, src...), nil
	}
	c.mu.Lock()
	d := c.dict
	c.mu.Unlock()
	if d == nil {
		d = empty
	}
	n := len(dst)
	if dst = d.Pack(dst, src); len(dst)-n > len(src)-len(src)/10 {
		return append(dst[:n], src...), nil
	}
	return dst, d
}

// Unpack appends the text to dst that Pack has packed with d, which may be nil.
func Unpack(d *Dict, dst []byte, packed string, size int) ([]byte, error) {
	if d == nil {
		return append(dst, packed...), nil
	}
	return d.Unpack(dst, packed, size)
}

// Note notes a text that Pack has packed, and that is kept now: it may be a sample, and its ratio
// says whether the dictionary still fits.
func (c *Coder) Note(d *Dict, packed string, size int) {
	if size < tooSmall {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		c.measureLocked(len(packed), size)
		return
	}
	if d == nil && size > selfLike || float64(len(packed)) < 1.1*c.best*float64(size) {
		return // nothing is like it, or the dictionary that there is fits
	}
	c.samples = append(c.samples, sample{d, packed, size})
	if c.sampled += min(size, largestSample); c.sampled >= c.wantedLocked() {
		c.dict = c.makeLocked()
		c.samples, c.sampled, c.full = nil, 0, true
		c.window, c.best = max(firstWindow, 2*c.window), 0
		c.in, c.out, c.count = 0, 0, 0
	}
}

// wantedLocked returns how many bytes of samples make a dictionary. A new one keeps half of the last.
func (c *Coder) wantedLocked() int {
	if c.dict != nil {
		return MaxDict / 2
	}
	return MaxDict
}

// makeLocked makes a dictionary of the samples.
func (c *Coder) makeLocked() *Dict {
	var text []byte
	if c.dict != nil {
		text = append(text, c.dict.text[len(c.dict.text)/2:]...)
	}
	for _, s := range c.samples {
		n := len(text)
		text, _ = Unpack(s.dict, text, s.packed, s.size)
		text = text[:min(len(text), n+largestSample)]
	}
	return New(text)
}

// measureLocked counts a text. It begins to take samples if the texts of a window have packed worse
// than those of another by a quarter.
func (c *Coder) measureLocked(packed, size int) {
	c.in, c.out, c.count = c.in+size, c.out+packed, c.count+1
	if c.count < c.window {
		return
	}
	ratio := float64(c.out) / float64(c.in)
	c.in, c.out, c.count = 0, 0, 0
	switch {
	case c.best == 0 || ratio < c.best:
		c.best = ratio
	case ratio > 1.25*c.best && ratio > c.best+0.02:
		c.full = false
	}
}
