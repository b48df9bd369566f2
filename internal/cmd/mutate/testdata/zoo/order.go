package zoo

import (
	"log/slog"
	"slices"
	"strconv"
)

// Sorted copies a list before it changes it.
func Sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// A Queue gives out what was put into it, each once.
type Queue struct {
	first, last int
	items       map[int]string
}

// NewQueue begins at any place: first and last may be set in either order.
func NewQueue(at int) *Queue {
	q := &Queue{items: map[int]string{}}
	q.first = at
	q.last = at
	return q
}

// Put puts an item behind the others.
func (q *Queue) Put(item string) {
	q.items[q.last] = item
	q.last++
}

// Digits asks for two digits, the first one first. It defines what the exchange must declare.
func Digits(next func() int) int {
	tens := next()
	ones := next()
	return tens*10 + ones
}

// Names may return early, and says why.
func Names(bytes []byte, why *string) string {
	if len(bytes) == 0 {
		*why = "empty"
		return "none"
	}
	return string(bytes)
}

// Twice defers two calls.
func Twice(f, g func()) {
	defer f()
	defer g()
}

// A Span has two fields of one type.
type Span struct{ From, To int }

// DeepCopy returns a Span of its own.
func (s *Span) DeepCopy() *Span {
	c := *s
	return &c
}

// Moved leaves s as it is.
func (s *Span) Moved(n int) *Span {
	s = s.DeepCopy()
	s.From += n
	return s
}

// Parse takes what is a number, and logs the rest: only whether it does, and not what, is changed.
func Parse(from, to string, log *slog.Logger) Span {
	s := Span{From: -1, To: -2}
	if n, err := strconv.Atoi(from); err == nil {
		s.From = n
	}
	switch n, err := strconv.Atoi(to); err {
	case nil:
		s.To = n
	default:
		log.Info("not a number", "from", from, "to", to)
	}
	return Span{From: min(s.From, s.To), To: s.To}
}
