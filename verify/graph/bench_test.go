package graph_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// costs is how often functions of collections were called since the last look.
type costs map[string]int

func (c costs) take() costs {
	defer clear(c)
	return maps.Clone(c)
}

// graphBench is a graph of two Memories of widgets, for tests that make one change after the other.
type graphBench struct {
	t           *testing.T
	left, right *lw.Memory[*rig.Widget]
	l, r        *lw.Informer[*rig.Widget]
	g           *lw.Graph
	calls       costs
}

// newGraphBench makes a bench. An error of its graph fails the test, unless opts has an OnError.
func newGraphBench(t *testing.T, opts *lw.GraphOptions) *graphBench {
	if opts == nil {
		opts = &lw.GraphOptions{}
	}
	if opts.OnError == nil {
		opts.OnError = func(err error) { t.Error(err) }
	}
	b := &graphBench{t: t, left: lw.NewMemory[*rig.Widget](), right: lw.NewMemory[*rig.Widget](), g: lw.NewGraph(opts),
		calls: costs{}}
	b.l = lw.NewInformer(b.left, &lw.Options{Name: "left", OnError: func(error) {}})
	b.r = lw.NewInformer(b.right, &lw.Options{Name: "right", OnError: func(error) {}})
	return b
}

// inGraph runs a test with a bench in a bubble. Left and right have widgets of such names and sizes
// as "a1 b2".
func inGraph(t *testing.T, opts *lw.GraphOptions, left, right string, test func(t *testing.T, b *graphBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, opts)
		b.have(left, right)
		test(t, b)
	})
}

// A panicLog is an OnPanic.
type panicLog struct {
	mu  sync.Mutex
	all []*lw.Panic
}

func (l *panicLog) add(p *lw.Panic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p)
}

// take returns what say says of the panics since the last time.
func (l *panicLog) take(say func(p *lw.Panic) string) (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		texts = append(texts, say(p))
	}
	l.all = nil
	return texts
}

// run runs all until the test ends. start also waits until the graph has synced.
func (b *graphBench) run() {
	rig.Start(b.t, b.l)
	rig.Start(b.t, b.r)
	rig.Start(b.t, b.g)
	synctest.Wait()
}

func (b *graphBench) start() {
	b.t.Helper()
	b.run()
	rig.OK(b.t, b.g.WaitForSync(b.t.Context()))
	synctest.Wait()
}

// create, update and remove change a Memory, and wait for all that this brings about.
func (b *graphBench) create(m *lw.Memory[*rig.Widget], name string, size int) *rig.Widget {
	b.t.Helper()
	defer synctest.Wait()
	return rig.Create(b.t, m, name, size)
}

func (b *graphBench) update(m *lw.Memory[*rig.Widget], name string, size int) *rig.Widget {
	b.t.Helper()
	defer synctest.Wait()
	return rig.Update(b.t, m, name, size)
}

func (b *graphBench) remove(m *lw.Memory[*rig.Widget], name string) {
	b.t.Helper()
	defer synctest.Wait()
	rig.Remove(b.t, m, name)
}

// set makes the size of a widget n, and creates the widget if there is none.
func (b *graphBench) set(m *lw.Memory[*rig.Widget], name string, n int) {
	b.t.Helper()
	if _, err := m.Get(context.Background(), rig.Key(name)); err != nil {
		rig.Create(b.t, m, name, n)
		return
	}
	rig.Update(b.t, m, name, n)
}

// have creates widgets of such names and sizes as "a1 b2".
func (b *graphBench) have(left, right string) {
	b.t.Helper()
	for m, widgets := range map[*lw.Memory[*rig.Widget]]string{b.left: left, b.right: right} {
		for _, w := range rig.Widgets(widgets) {
			rig.Create(b.t, m, w.Name, w.Size)
		}
	}
}

// fill creates widgets l0, l1 and so on at the left, of the sizes 0, 1 and so on, and such at the
// right.
func (b *graphBench) fill(n int) {
	b.t.Helper()
	for i := range n {
		rig.Create(b.t, b.left, fmt.Sprint("l", i), i)
		rig.Create(b.t, b.right, fmt.Sprint("r", i), i)
	}
}

// mustBeRead expects that the informer on the left has so many readers.
func (b *graphBench) mustBeRead(readers int, when string) {
	b.t.Helper()
	synctest.Wait()
	if all, _ := inside.Followers(b.l); all != readers {
		b.t.Errorf("%s: %d readers of the informer, want %d", when, all, readers)
	}
}

// mustSetAside expects that each collection has set aside the objects of these names.
func (b *graphBench) mustSetAside(what string, names ...string) {
	b.t.Helper()
	synctest.Wait()
	for _, c := range b.g.Status().Collections {
		var got []string
		for key := range c.SetAside {
			got = append(got, key.Name)
		}
		if slices.Sort(got); !slices.Equal(got, names) || len(names) == 0 && c.SetAside != nil {
			b.t.Errorf("%s: %s has set aside %v, want %q", what, c.Name, c.SetAside, names)
		}
	}
}

// shown begins a wait until the graph shows the left at version, and returns how it ends.
func (b *graphBench) shown(version string) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- b.g.WaitForResourceVersion(b.t.Context(), b.l, version) }()
	synctest.Wait()
	return ended
}

// slow is the size of the widgets at which a step waits, if a collection holds it.
const slow = 1000

// hold makes a collection of in that is empty. A step waits in its function at each slow widget,
// until something is sent to held, or held is closed.
func (b *graphBench) hold(in lw.Collection[*rig.Widget]) (d *lw.Derived[*rig.Sum], held chan struct{}) {
	held = make(chan struct{})
	return lw.Derive(b.g, in, func(w *rig.Widget) *rig.Sum {
		if w.Size >= slow {
			<-held
		}
		return nil
	}, "held"), held
}

// heldAt is SumOf, and waits for held at the widgets of one size.
func heldAt(size int, held <-chan struct{}) func(*rig.Widget) *rig.Sum {
	return func(w *rig.Widget) *rig.Sum {
		if w.Size == size {
			<-held
		}
		return rig.SumOf(w)
	}
}

// byName joins objects of one name.
func byName[L, R lw.Object]() lw.On[string, L, R] {
	return lw.On[string, L, R]{
		Left:  lw.SingleKey(func(l L) string { return l.GetName() }),
		Right: lw.SingleKey(func(r R) string { return r.GetName() }),
	}
}

// by joins widgets of one number. All joins by numbers have this type of a key, since each further
// type makes the compiler translate the library once more.
func by(left, right func(*rig.Widget) int) lw.On[float64, *rig.Widget, *rig.Widget] {
	number := func(of func(*rig.Widget) int) func(*rig.Widget) float64 {
		return func(w *rig.Widget) float64 { return float64(of(w)) }
	}
	return lw.On[float64, *rig.Widget, *rig.Widget]{Left: lw.SingleKey(number(left)), Right: lw.SingleKey(number(right))}
}

func tensOf(w *rig.Widget) int { return w.Size / 10 }

// allPairs joins each widget with each one.
func allPairs() lw.On[float64, *rig.Widget, *rig.Widget] {
	all := func(*rig.Widget) int { return 0 }
	return by(all, all)
}

// byEachOperator makes a collection with each operator. It shows f of each widget of the left.
func byEachOperator[U lw.Object](b *graphBench, f func(*rig.Widget) U) []*lw.Derived[U] {
	newest := lw.Aggregate[*rig.Widget, *rig.Widget]{
		Add:    func(_, w *rig.Widget) *rig.Widget { return w },
		Remove: func(_, _ *rig.Widget) *rig.Widget { return nil },
	}
	on := byName[*rig.Widget, *rig.Widget]()
	return []*lw.Derived[U]{
		lw.Derive(b.g, b.l, f),
		lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[U] { return slices.Values([]U{f(w)}) }),
		lw.GroupAll(b.g, b.l, lw.KeyOf, func(_ lw.Key, all []*rig.Widget) U { return f(all[0]) }),
		lw.GroupBy(b.g, b.l, lw.KeyOf, newest, func(_ lw.Key, w *rig.Widget) U { return f(w) }),
		lw.Join(b.g, b.l, b.r, on, func(l, _ *rig.Widget) U { return f(l) }),
		lw.LeftJoin(b.g, b.l, b.r, on, func(l *rig.Widget, _ []*rig.Widget) U { return f(l) }),
	}
}

func allInOne(*rig.Sum) lw.Key { return lw.Key{Name: "total"} }

// same is a function of a collection that has what another one has.
func same(s *rig.Sum) *rig.Sum { return s }

// pairOf is the function of a join: the sum of both, under both names.
func pairOf(l, r *rig.Widget) *rig.Sum {
	return &rig.Sum{Meta: lw.Meta{Name: l.Name + r.Name}, Sum: l.Size + r.Size}
}

// countOf is the function of a LeftJoin: how many rights a left has.
func countOf[R lw.Object](l *rig.Widget, rights []R) *rig.Sum {
	return &rig.Sum{Meta: lw.Meta{Name: l.Name}, Sum: len(rights)}
}

// leftOf is the function of a join that is of the left alone.
func leftOf[R lw.Object](l *rig.Widget, _ R) *rig.Sum { return rig.SumOf(l) }

// counted is the Aggregate of the number of widgets in a group, and summedUp that of their sizes.
var (
	counted = lw.Aggregate[*rig.Widget, int]{
		Add:    func(n int, _ *rig.Widget) int { return n + 1 },
		Remove: func(n int, _ *rig.Widget) int { return n - 1 },
	}
	summedUp = lw.Aggregate[*rig.Widget, int]{
		Add:    func(n int, w *rig.Widget) int { return n + w.Size },
		Remove: func(n int, w *rig.Widget) int { return n - w.Size },
	}
	// most is no good Aggregate: its Remove does not undo its Add.
	most = lw.Aggregate[*rig.Widget, int]{
		Add:    func(n int, w *rig.Widget) int { return max(n, w.Size) },
		Remove: func(n int, _ *rig.Widget) int { return n },
	}
)

// contents returns the sums of a collection by their names.
func contents(r lw.Reader[*rig.Sum]) map[string]int {
	all := map[string]int{}
	for s := range r.All() {
		all[s.Name] = s.Sum
	}
	return all
}

// sizes returns the sizes of widgets by their names.
func sizes(r lw.Reader[*rig.Widget]) map[string]int {
	all := map[string]int{}
	for w := range r.All() {
		all[w.Name] = w.Size
	}
	return all
}

// mustShow expects that c shows the sums want, when all is calm.
func mustShow(t *testing.T, c lw.Collection[*rig.Sum], what string, want map[string]int) {
	t.Helper()
	synctest.Wait()
	rig.Same(t, what, want, contents(c.Store()))
}

// refused is the error of a server that lists nothing.
var refused = apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("not for you"))

// within returns a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// mustFail expects an error that is target, unless that is nil, and says all of texts.
func mustFail(t testing.TB, what string, err, target error, texts ...string) {
	t.Helper()
	if err == nil || target != nil && !errors.Is(err, target) || !containsAll(err.Error(), texts...) {
		t.Errorf("%s: %v, want %v with %q", what, err, target, texts)
	}
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func isOver(d *lw.Derived[*rig.Sum]) bool { return isDone(d.Stopped()) }
