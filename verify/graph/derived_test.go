package graph_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The channels of Changed of a derived collection are closed by what is a change of it, when every
// read shows that, before a handler is called; and by nothing else.
func TestDerivedChanged(t *testing.T) {
	inGraph(t, nil, "a10 b20", "", func(t *testing.T, b *graphBench) {
		tens := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			if w.Size == 0 {
				return nil
			}
			return &rig.Sum{Meta: lw.Meta{Namespace: w.Namespace, Name: w.Name, UID: w.UID}, Sum: w.Size / 10}
		}, "tens")
		bySum := lw.NewIndex(tens, func(s *rig.Sum) int { return s.Sum })
		ctx, cancel := context.WithCancel(t.Context())
		var waiting map[string]<-chan struct{}
		wait := func() {
			waiting = map[string]<-chan struct{}{
				"a": tens.Changed(ctx, rig.Key("a")), "b": tens.Changed(ctx, rig.Key("b")), "c": tens.Changed(ctx, rig.Key("c")), "any": tens.Changed(ctx),
				"ones": bySum.Changed(ctx, 1), "twos": bySum.Changed(ctx, 2),
			}
		}
		mustBe := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			var closed []string
			for _, name := range slices.Sorted(maps.Keys(waiting)) {
				if isDone(waiting[name]) {
					closed = append(closed, name)
				}
			}
			rig.Same(t, what, want, closed)
		}
		late := 0
		tens.AddHandler(lw.Handler[*rig.Sum]{Update: func(_, s *rig.Sum) {
			if !isDone(waiting[s.Name]) || !isDone(waiting["any"]) {
				late++
			}
		}})
		wait()
		mustBe("before Run")
		b.start()
		mustBe("the first content", "a", "any", "b", "ones", "twos")
		wait()
		rig.Update(t, b.left, "a", 11)
		mustBe("an equal result")
		rig.Update(t, b.left, "a", 21)
		mustBe("an update", "a", "any", "ones", "twos")
		wait()
		rig.Update(t, b.left, "b", 0)
		mustBe("one goes", "any", "b", "twos")
		wait()
		rig.Create(t, b.left, "c", 90)
		mustBe("one comes", "any", "c")
		wait()
		rig.Remove(t, b.left, "c")
		rig.Create(t, b.left, "c", 91)
		mustBe("one is created again", "any", "c")
		if late > 0 {
			t.Errorf("%d channels were open when a handler was told", late)
		}
		wait()
		cancel()
		synctest.Wait()
		rig.Update(t, b.left, "a", 50)
		mustBe("after the context")
		ctx = t.Context()
		wait()
		tens.Close()
		synctest.Wait()
		rig.Update(t, b.left, "a", 60)
		mustBe("after Close")
		wait()
		mustBe("of a closed collection")
	})
}

// Whoever takes a channel of a derived collection and then reads misses no change.
func TestDerivedChangedMissesNothing(t *testing.T) {
	const last = 200
	inGraph(t, nil, "a0", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf)
		b.start()
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			for {
				changed := d.Changed(t.Context(), rig.Key("a"))
				if s, _ := d.Store().Get(rig.Key("a")); s.Sum == last {
					return
				}
				<-changed
			}
		}()
		for i := range last {
			rig.Update(t, b.left, "a", i+1)
		}
		<-seen
	})
}

// Results that embed a lw.Meta, and results that only look so.
type (
	like struct {
		lw.Meta
		Size int
	}
	likePointer struct {
		*lw.Meta
		Size int
	}
	likeBase struct {
		rig.Base
		Size int
	}
	// fieldMeta has a field of the name Meta, which it does not embed.
	fieldMeta struct {
		rig.ReadOnly
		Meta lw.Meta
		Size int
	}
	// otherMeta embeds a Meta that is not lw's. It is an object without a pointer to it, too.
	otherMeta struct {
		Meta
		Size int
	}
	Meta struct{ Space, Title, Version string }
	// texts is no struct.
	texts []string
)

func (m Meta) GetNamespace() string       { return m.Space }
func (m Meta) GetName() string            { return m.Title }
func (m Meta) GetUID() types.UID          { return "" }
func (m Meta) GetResourceVersion() string { return m.Version }

func (n *texts) GetNamespace() string       { return (*n)[0] }
func (n *texts) GetName() string            { return (*n)[1] }
func (n *texts) GetUID() types.UID          { return "" }
func (n *texts) GetResourceVersion() string { return (*n)[2] }

// updatesOf derives a collection by f, which reads the tens of a size and the version. It returns
// how many updates a handler is told of when only the version changes, and when the tens change
// too.
func updatesOf[U lw.Object](t *testing.T, f func(*rig.Widget) U) (told []int) {
	inGraph(t, nil, "a11", "", func(t *testing.T, b *graphBench) {
		updates := 0
		lw.Derive(b.g, b.l, f).AddHandler(lw.Handler[U]{Update: func(_, _ U) { updates++ }})
		b.start()
		for _, size := range []int{12, 22} {
			updates = 0
			b.update(b.left, "a", size)
			told = append(told, updates)
		}
	})
	return told
}

// A result that has no Equal differs if anything in it does, but for the version of a Meta that it
// embeds itself.
func TestResultsWithoutEqual(t *testing.T) {
	meta := lw.MetaOf[*rig.Widget]
	at := func(w *rig.Widget) *lw.Meta { m := meta(w); return &m }
	unlike := []int{1, 1}
	for name, c := range map[string]struct{ got, want []int }{
		"an embedded Meta": {updatesOf(t, func(w *rig.Widget) *like { return &like{meta(w), w.Size / 10} }), []int{0, 1}},
		"no version": {updatesOf(t, func(w *rig.Widget) *like {
			return &like{lw.Meta{Namespace: w.Namespace, Name: w.Name}, w.Size / 10}
		}), []int{0, 1}},
		"a pointer to a Meta":      {updatesOf(t, func(w *rig.Widget) *likePointer { return &likePointer{at(w), w.Size / 10} }), unlike},
		"a Meta of what it embeds": {updatesOf(t, func(w *rig.Widget) *likeBase { return &likeBase{rig.Base{Meta: meta(w)}, w.Size / 10} }), unlike},
		"a field that is called Meta": {updatesOf(t, func(w *rig.Widget) *fieldMeta {
			return &fieldMeta{rig.ReadOnly{Meta: at(w)}, meta(w), w.Size / 10}
		}), unlike},
		"a Meta of another package": {updatesOf(t, func(w *rig.Widget) *otherMeta {
			return &otherMeta{Meta{w.Namespace, w.Name, w.ResourceVersion}, w.Size / 10}
		}), unlike},
		"no Meta": {updatesOf(t, func(w *rig.Widget) *rig.ReadOnly { return &rig.ReadOnly{Meta: at(w)} }), unlike},
		"a value": {updatesOf(t, func(w *rig.Widget) otherMeta {
			return otherMeta{Meta{w.Namespace, w.Name, w.ResourceVersion}, w.Size / 10}
		}), unlike},
		"a value without a version": {updatesOf(t, func(w *rig.Widget) otherMeta {
			return otherMeta{Meta{w.Namespace, w.Name, ""}, w.Size / 10}
		}), []int{0, 1}},
		"no struct": {updatesOf(t, func(w *rig.Widget) *texts {
			return &texts{w.Namespace, w.Name, w.ResourceVersion, fmt.Sprint(w.Size / 10)}
		}), unlike},
	} {
		rig.Same(t, name+": updates", c.want, c.got)
	}
}

// A shy result panics when one of its methods is called.
type shy struct {
	lw.Meta
	hides string
}

func (s *shy) or(what, value string) string {
	if s.hides == what {
		panic("no " + what)
	}
	return value
}

func (s *shy) GetNamespace() string       { return s.or("namespace", s.Namespace) }
func (s *shy) GetName() string            { return s.or("name", s.Name) }
func (s *shy) GetUID() types.UID          { return types.UID(s.or("uid", string(s.UID))) }
func (s *shy) GetResourceVersion() string { return s.or("version", s.ResourceVersion) }

// A result with a method that panics, whichever it is, is set aside as if its function had
// panicked. The goroutine of Run goes on.
func TestResultsWithoutIdentity(t *testing.T) {
	hidden := []string{"", "namespace", "name", "uid", "version", ""}
	var panics panicLog
	inGraph(t, &lw.GraphOptions{OnPanic: panics.add}, "a0", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, func(w *rig.Widget) *shy { return &shy{lw.MetaOf(w), hidden[w.Size]} })
		b.start()
		for size, what := range hidden {
			b.update(b.left, "a", size)
			var want []string
			if what != "" {
				want = []string{"function: no " + what}
			}
			got := panics.take(func(p *lw.Panic) string { return fmt.Sprint(p.Handler, ": ", p.Value) })
			rig.Same(t, fmt.Sprintf("a result without its %q", what), want, got)
			if got, ok := d.Store().Get(rig.Key("a")); !ok || got.hides != "" {
				t.Errorf("a result without its %q is shown: %+v", what, got)
			}
		}
	})
}

// A handler that was behind, and need not be told of what has become as it was, has nothing
// pending.
func TestGraphPendingOfNothing(t *testing.T) {
	inGraph(t, nil, "a0 b0", "", func(t *testing.T, b *graphBench) {
		sums := lw.Derive(b.g, b.l, rig.SumOf)
		gate := make(chan struct{})
		told := 0
		h := sums.AddHandler(lw.Handler[*rig.Sum]{Update: func(_, _ *rig.Sum) { told++; <-gate }})
		b.start()
		b.update(b.left, "b", 1)
		for n := range 4001 {
			b.update(b.left, "a", 4000-n)
		}
		close(gate)
		synctest.Wait()
		if told != 1 || h.Pending() != 0 {
			t.Errorf("the handler was told of %d updates, and has %d pending, want 1 and 0", told, h.Pending())
		}
	})
}
