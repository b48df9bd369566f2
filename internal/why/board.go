package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lw/lw/internal/why/names"
)

// mostPaths is how many paths are counted of one cause.
const mostPaths = 32

// A cause is what the reasons of one row of the board have in common.
type cause struct {
	collection string
	typ, cause uint8
	requeue    Requeue
}

// A count says how often there was a cause.
type count struct {
	runs  uint64
	paths map[string]int // of those changes that were compared
}

// countLocked counts the causes of p. sample says that the fields of one would be of use.
func (q *Queue[K]) countLocked(p *pending) (sample bool) {
	var counted [4]cause
	n := 0
	add := func(c cause) {
		if slices.Contains(counted[:n], c) {
			return
		}
		if n < len(counted) {
			counted[n] = c
			n++
		}
		of := q.counts[c]
		if of == nil {
			of = &count{}
			q.counts[c] = of
		}
		of.runs++
	}
	for i := range p.changes {
		c := &p.changes[i]
		add(c.row())
		sample = sample || c.typ() == Updated && c.kept
	}
	for _, r := range p.additions {
		add(cause{requeue: r.why})
	}
	return sample
}

func (c *change) row() cause { return cause{collection: c.collection, typ: c.typ(), cause: c.cause} }

// mostParts is how many changes of a run are compared.
const mostParts = 4

// parts returns what differs, of the first changes of p, whose reasons were made. whole says that
// it is known of these.
func (p *pending) parts() (parts []part, whole bool) {
	whole = true
	for _, reason := range p.reasons[:min(len(p.changes), mostParts)] {
		of := part{
			cause: cause{collection: reason.Collection, typ: reason.Type, cause: reason.Cause},
			ref:   ref{reason.Collection, reason.Key},
		}
		if reason.Type != Updated {
			parts = append(parts, of)
			continue
		}
		fields, _ := reason.Fields()
		if reason.fields == nil {
			whole = false
		} else if len(fields) == 0 {
			of.Path = skipped[0]
			parts = append(parts, of)
		}
		for _, f := range fields {
			of.Field = f
			parts = append(parts, of)
		}
	}
	return parts, whole
}

// sampledLocked counts the paths of parts.
func (q *Queue[K]) sampledLocked(parts []part) {
	for _, p := range parts {
		c := q.counts[p.cause]
		if c == nil || p.Path == "" || p.Path == skipped[0] {
			continue
		}
		if c.paths == nil {
			c.paths = map[string]int{}
		}
		if _, known := c.paths[p.Path]; known || len(c.paths) < mostPaths {
			c.paths[p.Path]++
		}
	}
}

// A Status is what a board shows of a Queue.
type Status struct {
	Name          string
	Runs          uint64
	Waiting, Busy int
	Counts        []Count // the most frequent first
	Loops         []Loop  // those of now, the longest first
}

// A Count says how many runs had a reason.
type Count struct {
	Collection  string
	Type, Cause uint8
	Requeue     Requeue
	Runs        uint64
	Fields      []string // that differed most often, of the changes that were compared
}

// mostCounts is how many counts a Status has, and commonFields how many fields each.
const mostCounts, commonFields = 20, 3

// Status returns what the queue's keys ran for so far.
func (q *Queue[K]) Status() Status {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Status{Runs: q.runs, Waiting: q.waiting, Busy: q.busy}
	for c, n := range q.counts {
		fields := slices.SortedFunc(maps.Keys(n.paths), func(a, b string) int { return cmp.Or(n.paths[b]-n.paths[a], strings.Compare(a, b)) })
		s.Counts = append(s.Counts, Count{
			Collection: c.collection, Type: c.typ, Cause: c.cause, Requeue: c.requeue, Runs: n.runs, Fields: fields[:min(len(fields), commonFields)],
		})
	}
	slices.SortFunc(s.Counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), strings.Compare(a.Collection, b.Collection), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Requeue, b.Requeue))
	})
	s.Counts = s.Counts[:min(len(s.Counts), mostCounts)]
	for key, loop := range q.loops.found {
		if now.Sub(loop.Last) > forgetAfter {
			delete(q.loops.found, key)
			continue
		}
		s.Loops = append(s.Loops, *loop)
	}
	slices.SortFunc(s.Loops, func(a, b Loop) int { return cmp.Or(cmp.Compare(b.Rounds, a.Rounds), strings.Compare(a.Key, b.Key)) })
	return s
}

func keyText[K comparable](key K) string { return strings.TrimPrefix(fmt.Sprint(key), "/") }

// A shown is the queues of a board.
type shown struct {
	names  names.Set
	status map[string]func() Status
}

// boards has those of each board, which is an *lw.Board.
var boards = struct {
	mu sync.Mutex
	of map[any]*shown // guarded by mu, and what it leads to
}{of: map[any]*shown{}}

// Show puts a queue called name on board, until remove is called.
func Show(board any, name string, status func() Status) (remove func()) {
	boards.mu.Lock()
	defer boards.mu.Unlock()
	on := boards.of[board]
	if on == nil {
		on = &shown{status: map[string]func() Status{}}
		boards.of[board] = on
	}
	unique, number := on.names.Take(name)
	on.status[unique] = status
	return sync.OnceFunc(func() {
		boards.mu.Lock()
		defer boards.mu.Unlock()
		on.names.Release(name, number)
		if delete(on.status, unique); len(on.status) == 0 {
			delete(boards.of, board)
		}
	})
}

// On returns the status of each queue on board, sorted by name.
func On(board any) (all []Status) {
	queues := map[string]func() Status{}
	boards.mu.Lock()
	if on := boards.of[board]; on != nil {
		maps.Copy(queues, on.status)
	}
	boards.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		s := queues[name]()
		s.Name = name
		all = append(all, s)
	}
	return all
}
