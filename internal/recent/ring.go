package recent

import "sync"

// A Ring keeps the objects that were given to it last, up to a number of bytes. The collector alone
// would let go of them too soon: the smaller a heap is, the more often it is collected. It is safe
// for concurrent use.
type Ring struct {
	most int

	mu    sync.Mutex
	kept  []held // a ring: the oldest is at first; guarded by mu, as those below
	first int
	count int
	bytes int
}

type held struct {
	obj   any
	bytes int
}

// NewRing returns a ring that keeps at most so many bytes.
func NewRing(most int) *Ring { return &Ring{most: most} }

// Keep keeps obj, which has about so many bytes, for as long as there is room. An object that would
// take a quarter of it is not kept.
func (r *Ring) Keep(obj any, bytes int) {
	if bytes > r.most/4 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.count > 0 && r.bytes+bytes > r.most {
		oldest := &r.kept[r.first]
		r.bytes -= oldest.bytes
		*oldest = held{}
		r.first = (r.first + 1) % len(r.kept)
		r.count--
	}
	if r.count == len(r.kept) {
		more := make([]held, max(16, 2*len(r.kept)))
		n := copy(more, r.kept[r.first:])
		copy(more[n:], r.kept[:r.first])
		r.kept, r.first = more, 0
	}
	r.kept[(r.first+r.count)%len(r.kept)] = held{obj, bytes}
	r.count++
	r.bytes += bytes
}
