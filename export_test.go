package lw

import "github.com/go-lw/lw/internal/board"

// Followers returns how many consumers inf has, and how many of them wait for its first list.
func Followers[T Object](inf *Informer[T]) (all, waiting int) {
	inf.hub.mu.Lock()
	defer inf.hub.mu.Unlock()
	return int(inf.hub.log.live.Load()) + len(inf.hub.waiting), len(inf.hub.waiting)
}

// Copies returns how many copies the search for mutations has.
func Copies[T Object](inf *Informer[T]) int {
	inf.check.mu.Lock()
	defer inf.check.mu.Unlock()
	return len(inf.check.copies)
}

// Waits returns how many waits for a version there are, and how many the writer of the store knows of.
func Waits[T Object](inf *Informer[T]) (n, noted int) {
	inf.hub.waits.mu.Lock()
	defer inf.hub.waits.mu.Unlock()
	return len(inf.hub.waits.waits), int(inf.hub.waits.n.Load())
}

// Renamed returns how many names the result of a Transform remembers.
func Renamed[T Object](src Source[T]) int { return src.(interface{ names() int }).names() }

func (t *transformed[T, U]) names() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.renamed)
}

// Kept returns how many informers g has, and how many keys of Share.
func (g *Group) Kept() (members, keys int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members), len(g.shared)
}

// AfterStep has the goroutine of g's Run call f after each step. It must be called before Run.
func AfterStep(g *Graph, f func()) { g.afterStep = f }

// Signals returns how many channels of Changed and ChangedAny inf has, including those of WaitFor.
func Signals[T Object](inf *Informer[T]) int { return inf.hub.changes.Len() }

// IndexSignals returns how many channels of Changed ix has.
func IndexSignals[K comparable, T Object](ix *Index[K, T]) int { return ix.groups.Waiting() }

// ReportOf returns what b shows at this moment.
func ReportOf(b *Board) *board.Report { return b.report() }

// Register puts n informers of one name on b, which do not run, and returns what takes them off.
func (b *Board) Register(n int, name string) (remove func()) {
	var removes []func()
	for range n {
		removes = append(removes, b.informers.add(&rosterEntry{base: name, status: func() Status { return Status{} }}))
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// Claim does what the making of a collection of inf does first, and returns what that does at its end.
func Claim[T Object](g *Graph, inf *Informer[T]) (done func()) {
	in := inputOf(g, Collection[T](inf), "Claim").(anyLeaf)
	return func() {
		g.life.Lock()
		defer g.life.Unlock()
		in.claim(-1)
	}
}

// Visits returns how often an input was looked at to find out what depends on it.
func Visits(g *Graph) int {
	g.life.Lock()
	defer g.life.Unlock()
	return g.visits
}

// VisitsOfWait returns how many collections a wait for the sync of d looks at.
func VisitsOfWait[T Object](d *Derived[T]) (n int) {
	d.hub.eachUnsynced(func(*hubCore) bool { n++; return true })
	return n
}

// ListsOf and EventsOf are the words of a board for what is counted.
func ListsOf(c ListCauses) map[string]uint64  { return listsOf(c) }
func EventsOf(e EventTypes) map[string]uint64 { return eventsOf(e) }
