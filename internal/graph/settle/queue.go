package settle

import "container/heap"

// A claim is an object that an origin has for a key, and that is not shown.
type claim[O comparable, T any] struct {
	origin O
	obj    T
	place  int // in queue.claims
}

// A queue is the claims of one key that wait to be shown: a heap, with the smallest origin first.
// Thousands of objects may make one result by mistake, so no operation looks at all claims. A nil
// queue has none.
type queue[O comparable, T any] struct {
	compare func(a, b O) int
	claims  []*claim[O, T]
	// of has the claim of each origin. It is made when there are few claims: a short slice is
	// searched faster than a map.
	of map[O]*claim[O, T]
}

// find returns the claim of origin, or nil.
func (q *queue[O, T]) find(origin O) *claim[O, T] {
	switch {
	case q == nil:
	case q.of != nil:
		return q.of[origin]
	default:
		for _, c := range q.claims {
			if c.origin == origin {
				return c
			}
		}
	}
	return nil
}

// first returns the claim of the smallest origin.
func (q *queue[O, T]) first() *claim[O, T] { return q.claims[0] }

// add adds a claim of an origin that has none.
func (q *queue[O, T]) add(origin O, obj T) {
	c := &claim[O, T]{origin: origin, obj: obj}
	heap.Push(q, c)
	switch {
	case q.of != nil:
		q.of[origin] = c
	case len(q.claims) == few:
		q.of = make(map[O]*claim[O, T], 2*few)
		for _, c := range q.claims {
			q.of[c.origin] = c
		}
	}
}

// remove removes c.
func (q *queue[O, T]) remove(c *claim[O, T]) {
	heap.Remove(q, c.place)
	delete(q.of, c.origin)
}

// The methods below are those that package heap calls.

func (q *queue[O, T]) Len() int { return len(q.claims) }
func (q *queue[O, T]) Less(i, j int) bool {
	return q.compare(q.claims[i].origin, q.claims[j].origin) < 0
}

func (q *queue[O, T]) Swap(i, j int) {
	c := q.claims
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i, j
}

func (q *queue[O, T]) Push(c any) {
	last := c.(*claim[O, T])
	last.place = len(q.claims)
	q.claims = append(q.claims, last)
}

func (q *queue[O, T]) Pop() any {
	n := len(q.claims) - 1
	last := q.claims[n]
	q.claims[n] = nil
	q.claims = q.claims[:n]
	return last
}
