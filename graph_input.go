package lw

import (
	"iter"

	"github.com/go-lw/lw/internal/settle"
)

// An input is a collection that a node reads in a step: one outside the graph, through a leaf, or
// another node. Its methods are called in the goroutine of Run, after the input's part of the step.
type input[T Identified] interface {
	anyInput
	// joining reports whether it has had none before this step. Then changes returns nothing.
	joining() bool
	// changes returns the net change of each object in this step.
	changes() []settle.Change[T]
	// contents yields all objects, as they are at the end of this step. A leaf has them only in a
	// step in which a node joins.
	contents() iter.Seq[T]
}

// inputOf returns the input of g that reads c, for one more node. It makes a leaf if c is not of g
// and has none yet. operation is for the panic if c is nil.
func inputOf[T Identified](g *Graph, c Collection[T], operation string) input[T] {
	if isNil(c) {
		panic("lw: " + operation + ": nil collection")
	}
	if d := c.derived(); d != nil && d.graph == g {
		return d
	}
	h := c.collection()
	g.life.Lock()
	defer g.life.Unlock()
	for _, l := range g.leaves {
		if l.core() == h.hubCore {
			l.use(1)
			return l.(*leaf[T])
		}
	}
	l := &leaf[T]{graph: g, hub: h, users: 1}
	g.leaves = append(g.leaves[:len(g.leaves):len(g.leaves)], l)
	return l
}

// A leaf reads a collection outside the graph: an informer's, or one of another graph. In each step
// it reads up to a cut, which is one point of the collection. It has a cursor as a handler has, so
// that it delays nobody, and what waits is bounded by the number of objects.
type leaf[T Identified] struct {
	graph *Graph
	hub   *hub[T]
	users int              // the nodes that read it; guarded by Graph.life
	sub   *subscription[T] // nil before the first step; written under Graph.life
	open  bool             // the collection had content when this step began
	begun bool             // a step has read it
	first bool             // this step is the first that reads it
	ended bool             // the collection has stopped: nothing will come any more

	// What the step has read.
	net     settle.Net[T]
	version string       // of the collection, at the cut
	content *Snapshot[T] // at the cut; nil unless poll was asked for it
}

// anyLeaf is a leaf without the type of its objects. All methods but pending are called in the
// goroutine of Run.
type anyLeaf interface {
	anyInput
	// begin looks whether the collection has content.
	begin()
	// poll reads what waits, up to the present point of the collection. whole says that the content
	// is wanted too.
	poll(whole bool)
	// shown returns the version up to which poll has read. ok is false if there is no content yet.
	shown() (version string, ok bool)
	// finish forgets what the step has read.
	finish()
	// wait has the goroutine of Run woken when there is more to read.
	wait()
	release()
	// pending returns the number of changes that wait.
	pending() int
}

func (l *leaf[T]) core() *hubCore { return l.hub.hubCore }

func (l *leaf[T]) use(n int) int {
	l.users += n
	return l.users
}

func (l *leaf[T]) begin() {
	if l.sub == nil {
		l.subscribe()
	}
	l.open = isClosed(l.sub.started)
}

func (l *leaf[T]) poll(whole bool) {
	if !l.open {
		return
	}
	l.first, l.begun = !l.begun, true
	// The first step takes the content at its cut instead.
	l.sub.snapshot = nil
	whole = whole || l.first
	for {
		var position uint64
		if whole {
			at := l.hub.cut()
			position, l.version, l.content = at.position, at.snapshot.ResourceVersion(), at.snapshot
		} else {
			position, l.version = l.hub.point()
		}
		// The appender may have folded changes from before and after the cut together. Then only a
		// newer cut has all that was read.
		if l.read(position) == position || l.ended {
			return
		}
	}
}

func (l *leaf[T]) subscribe() {
	sub := &subscription[T]{opts: cursorOptions{wake: l.graph.wake}}
	l.hub.subscribe(sub)
	l.graph.life.Lock()
	l.sub = sub
	l.graph.life.Unlock()
}

// read adds what waits up to position to net. It returns the position that it has reached, which is
// later if changes were folded.
func (l *leaf[T]) read(position uint64) (reached uint64) {
	for {
		part, delivered, err := l.sub.cursor.pollTo(position, true)
		for i := range part {
			if d := &part[i]; !l.first {
				l.net.Set(d.Key(), d.Old, d.New)
			}
		}
		if err != nil {
			l.ended = true
			return delivered
		}
		if delivered >= position {
			return delivered
		}
	}
}

func (l *leaf[T]) shown() (version string, ok bool) { return l.version, l.begun }

func (l *leaf[T]) ready() bool { return l.begun }

func (l *leaf[T]) opens() bool { return l.open }

func (l *leaf[T]) joining() bool { return l.first }

func (l *leaf[T]) changes() []settle.Change[T] { return l.net.Changes() }

func (l *leaf[T]) contents() iter.Seq[T] { return l.content.All() }

func (l *leaf[T]) finish() {
	l.net.Reset()
	l.content = nil
	l.first = false
}

func (l *leaf[T]) wait() {
	if l.begun && !l.ended {
		l.sub.cursor.wait()
	}
}

func (l *leaf[T]) release() {
	if l.sub != nil {
		l.hub.unsubscribe(l.sub)
	}
}

func (l *leaf[T]) pending() int {
	l.graph.life.Lock()
	sub := l.sub
	l.graph.life.Unlock()
	if sub == nil || !isClosed(sub.started) {
		return 0
	}
	return sub.cursor.Pending()
}

func (l *leaf[T]) unsynced(yield func(*hubCore) bool) bool {
	return isClosed(l.hub.synced) || yield(l.hub.hubCore)
}
