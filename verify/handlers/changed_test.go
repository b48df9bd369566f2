package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// channels are some of Changed: of the keys a, b and c, of any, and of an index by size.
type channels map[string]<-chan struct{}

func newChannels(ctx context.Context, inf *lw.Informer[*rig.Widget], bySize *lw.Index[int, *rig.Widget]) channels {
	c := channels{"any": inf.Changed(ctx)}
	for _, name := range []string{"a", "b", "c"} {
		c[name] = inf.Changed(ctx, rig.Key(name))
	}
	for size := range 4 {
		c[fmt.Sprint("size ", size)] = bySize.Changed(ctx, size)
	}
	return c
}

// closed returns which channels are closed, sorted.
func (c channels) closed() (names []string) {
	for name, changed := range c {
		select {
		case <-changed:
			names = append(names, name)
		default:
		}
	}
	slices.Sort(names)
	return names
}

func (c channels) mustBeClosed(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	rig.Same(t, "closed channels", want, c.closed())
}

// An event closes the channels of its object, of any object, and of the groups that the object
// leaves, joins or stays in.
func TestChanged(t *testing.T) {
	a, b := rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")
	again := rig.Stamped("a", 1, "11")
	again.UID = "another"
	for name, tc := range map[string]struct {
		event lw.WatchEvent[*rig.Widget]
		want  []string
	}{
		"an object comes":     {rig.Added("c", "11"), []string{"any", "c", "size 1"}},
		"an update":           {rig.Modified(rig.Stamped("a", 1, "11")), []string{"a", "any", "size 1"}},
		"it joins a group":    {rig.Modified(rig.Stamped("a", 2, "11")), []string{"a", "any", "size 1", "size 2"}},
		"it is created again": {rig.Modified(again), []string{"a", "any", "size 1"}},
		"it goes": {lw.WatchEvent[*rig.Widget]{Type: watch.Deleted, Object: b, ResourceVersion: "11"},
			[]string{"any", "b", "size 1"}},
		"a bookmark":          {rig.Bookmark("11"), nil},
		"what cannot be read": {rig.BadEvent("a", "11"), nil},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Fed{Events: make(chan lw.WatchEvent[*rig.Widget]), Version: "10", Objs: []*rig.Widget{a, b}}
			inf := rig.Run(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
			ctx, cancel := context.WithCancel(t.Context())
			c := newChannels(ctx, inf, bySize)
			src.Send(tc.event)
			c.mustBeClosed(t, tc.want...)
			rig.Same(t, "the channels that are left", len(c)-len(tc.want), inside.Signals(inf)+inside.IndexSignals(bySize))
			cancel()
			synctest.Wait()
			rig.Same(t, "the channels that are left after the context", 0, inside.Signals(inf)+inside.IndexSignals(bySize))
			src.Send(rig.Modified(rig.Stamped("a", 1, "50")))
			src.Send(rig.Modified(rig.Stamped("b", 1, "51")))
			c.mustBeClosed(t, tc.want...) // and not those whose context is done
		})
	}
}

// The first list closes the channels of what it has, and that of any object, whatever it has. A
// later one closes those of what differs.
func TestChangedByLists(t *testing.T) {
	a, b, c := rig.Stamped("a", 1, "8"), rig.Stamped("b", 2, "9"), rig.Stamped("c", 3, "10")
	another := rig.Stamped("a", 1, "12")
	another.UID = "another"
	for name, tc := range map[string]struct {
		first, second []*rig.Widget
		want, then    []string
	}{
		"nothing at all": {nil, nil, []string{"any"}, nil},
		"no difference":  {[]*rig.Widget{a, b}, []*rig.Widget{b, a}, []string{"a", "any", "b", "size 1", "size 2"}, nil},
		"all is new":     {nil, []*rig.Widget{a, c}, []string{"any"}, []string{"a", "any", "c", "size 1", "size 3"}},
		"all is gone": {[]*rig.Widget{a, c}, nil, []string{"a", "any", "c", "size 1", "size 3"},
			[]string{"a", "any", "c", "size 1", "size 3"}},
		"some differ": {[]*rig.Widget{a, b}, []*rig.Widget{a, rig.Stamped("b", 0, "12"), c},
			[]string{"a", "any", "b", "size 1", "size 2"},
			[]string{"any", "b", "c", "size 0", "size 2", "size 3"}},
		"one is another": {[]*rig.Widget{a, b}, []*rig.Widget{another, b}, []string{"a", "any", "b", "size 1", "size 2"},
			[]string{"a", "any", "size 1"}},
	} {
		for _, mode := range []lw.ListMode{lw.ListWhole, lw.ListPages} {
			rig.Subtest(t, fmt.Sprint(name, " ", mode), func(t *testing.T) {
				src := &rig.Script{
					Lists:   []rig.Reply{rig.List("11", tc.first...), rig.List("20", tc.second...)},
					Watches: []rig.Stream{rig.ExpiredAfter(time.Minute), rig.Forever()},
				}
				// The detector of mutations asks for all differences of the first list as well.
				inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: mode, DetectMutation: mode == lw.ListWhole})
				bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
				early := newChannels(t.Context(), inf, bySize)
				rig.Start(t, inf)
				early.mustBeClosed(t, tc.want...)
				late := newChannels(t.Context(), inf, bySize)
				late.mustBeClosed(t)
				rig.Sleep(2 * time.Minute)
				rig.Same(t, "the version", "20", inf.Store().ResourceVersion())
				late.mustBeClosed(t, tc.then...)
			})
		}
	}
}

// A handler finds the channels of what it is called for closed, and so does a wait for the version.
func TestChangedBeforeHandlers(t *testing.T) {
	inMemory(t, "a0", nil, func(t *testing.T, m memory, inf informer) {
		bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size / 100 })
		taken := make(chan (<-chan struct{}), 2)
		calls := 0
		inf.AddHandler(lw.Handler[*rig.Widget]{Update: func(_, w *rig.Widget) {
			got := channels{"key": <-taken, "group": <-taken}.closed()
			rig.Same(t, "closed when the handler is called", []string{"group", "key"}, got)
			calls++
		}})
		synctest.Wait()
		const updates = 300
		for i := range updates {
			changed := inf.Changed(t.Context(), rig.Key("a"))
			taken <- changed
			taken <- bySize.Changed(t.Context(), (i+1)/100)
			rig.OK(t, inf.WaitForResourceVersion(t.Context(), rig.Update(t, m, "a", i+1).ResourceVersion))
			rig.Same(t, "closed when the version is there", []string{"changed"}, channels{"changed": changed}.closed())
			synctest.Wait()
		}
		rig.Same(t, "calls", updates, calls)
	})
}

// An index of a store that nobody follows tells of each way to write to it.
func TestIndexChangedOfAnIndexer(t *testing.T) {
	x := lw.NewIndexer(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
	bySize := lw.NewIndex(x, func(w *rig.Widget) int { return w.Size })
	byLetter := lw.NewMultiIndex(x, func(w *rig.Widget) iter.Seq[string] {
		return slices.Values(strings.Split(w.Name, "-"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"set", func() { x.Set(rig.NewWidget("a", 1)) }, []string{"a", "size 1"}},
		{"another value", func() { x.Set(rig.NewWidget("a", 3)) }, []string{"a", "size 1", "size 3"}},
		{"several values", func() { x.Set(rig.NewWidget("b-c", 0)) }, []string{"b", "c", "size 0"}},
		{"nothing to delete", func() { x.Delete(rig.Key("nobody")) }, nil},
		{"delete", func() { x.Delete(rig.Key("b")) }, []string{"b", "size 2"}},
		{"apply", func() { x.Apply(rig.Added("c", "5")) }, []string{"c", "size 1"}},
		{"apply a deletion", func() { x.Apply(rig.Deleted(rig.Stamped("c", 1, "6"))) }, []string{"c", "size 1"}},
		{"apply a bookmark", func() { x.Apply(rig.Bookmark("7")) }, nil},
		{"replace by the same", func() { x.Replace(x.List(), "8") }, nil},
		{"replace", func() { x.Replace([]*rig.Widget{rig.NewWidget("a", 2), rig.NewWidget("b-c", 0)}, "9") },
			[]string{"a", "b", "c", "size 0", "size 2", "size 3"}},
	} {
		c := channels{}
		for size := range 4 {
			c[fmt.Sprint("size ", size)] = bySize.Changed(ctx, size)
		}
		for _, letter := range []string{"a", "b", "c"} {
			c[letter] = byLetter.Changed(ctx, letter)
		}
		step.do()
		rig.Same(t, fmt.Sprintf("%s: closed channels", step.name), step.want, c.closed())
	}
}

// A channel of several keys is closed by the first change of one of them, and is then let go of.
func TestChangedOfSeveralKeys(t *testing.T) {
	inMemory(t, "a1 c1", nil, func(t *testing.T, m memory, inf informer) {
		c := channels{"a or b": inf.Changed(t.Context(), rig.Key("a"), rig.Key("b"), rig.Key("b"))}
		rig.Update(t, m, "c", 2)
		c.mustBeClosed(t)
		rig.Create(t, m, "b", 1)
		c.mustBeClosed(t, "a or b")
		mustLeaveNothing(t, inf)
		rig.Update(t, m, "a", 2)
	})
}

// While an informer stops nothing changes, so no channel is closed; they are let go of.
func TestChangedWhenTheInformerStops(t *testing.T) {
	beforeRun(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
		stop := rig.Begin(t, inf)
		changed, any := inf.Changed(t.Context(), rig.Key("a")), inf.Changed(t.Context())
		stop()
		late := inf.Changed(t.Context(), rig.Key("a"))
		channels{"a": changed, "any": any, "late": late}.mustBeClosed(t)
		mustLeaveNothing(t, inf)
	})
}

// WaitFor returns as soon as its condition is met, and the object that meets it.
func TestWaitFor(t *testing.T) {
	gone := func(w *rig.Widget) bool { return w == nil }
	for name, tc := range map[string]struct {
		cond  func(w *rig.Widget) bool
		steps []func(t *testing.T, m memory) // one a minute
		after int                            // minutes
		want  string
	}{
		"at once":      {func(w *rig.Widget) bool { return w != nil }, nil, 0, "a1"},
		"gone at once": {func(w *rig.Widget) bool { return w == nil || w.Size == 1 }, nil, 0, "a1"},
		"an update": {func(w *rig.Widget) bool { return w.Size == 3 }, []func(*testing.T, memory){resize("a", 2),
			resize("a", 3)}, 2, "a3"},
		"others": {func(w *rig.Widget) bool { return w.Size == 3 }, []func(*testing.T, memory){resize("b", 3),
			resize("a", 3)}, 2, "a3"},
		"it is gone": {gone, []func(*testing.T, memory){resize("a", 2), drop("b"), drop("a")}, 3, "-"},
		"it comes back": {func(w *rig.Widget) bool { return w != nil && w.Size == 7 },
			[]func(*testing.T, memory){drop("a"), createSized("a", 7)}, 2, "a7"},
		"it is another one": {func(w *rig.Widget) bool { return w == nil || w.UID != uidOfA },
			[]func(*testing.T, memory){resize("a", 2), recreate("a", 5)}, 2, "a5 or -"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			a := rig.NewWidget("a", 1)
			a.UID = uidOfA
			m := lw.NewMemory(a, rig.NewWidget("b", 1))
			inf := rig.Run(t, m, nil)
			var writes sync.WaitGroup
			defer writes.Wait()
			writes.Go(func() {
				for _, step := range tc.steps {
					time.Sleep(time.Minute)
					step(t, m)
				}
			})
			begin := time.Now()
			got, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), tc.cond)
			rig.OK(t, err)
			if !tc.cond(got) || !strings.Contains(tc.want, sized(got)) {
				t.Errorf("it returned %s, want %s", sized(got), tc.want)
			}
			rig.Same(t, "how long it took", time.Duration(tc.after)*time.Minute, time.Since(begin))
			mustLeaveNothing(t, inf)
		})
	}
}

const uidOfA types.UID = "first"

func sized(w *rig.Widget) string {
	if w == nil {
		return "-"
	}
	return fmt.Sprint(w.Name, w.Size)
}

func resize(name string, size int) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Update(t, m, name, size) }
}

func drop(name string) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Remove(t, m, name) }
}

func createSized(name string, size int) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Create(t, m, name, size) }
}

func recreate(name string, size int) func(*testing.T, memory) {
	return func(t *testing.T, m memory) { rig.Remove(t, m, name); rig.Create(t, m, name, size) }
}

// Before the first list nobody knows that there is no object, so a wait for its end waits for that.
func TestWaitForBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{{Err: errors.New("connection refused")}, rig.List("10", rig.Stamped("a", 1, "9")),
				rig.List("20")},
			Watches: []rig.Stream{rig.ExpiredAfter(time.Minute), rig.Forever()},
		}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {},
			Backoff: func(int) time.Duration { return time.Hour }})
		rig.Start(t, inf)
		begin := time.Now()
		var seen []string
		_, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), func(w *rig.Widget) bool {
			seen = append(seen, sized(w))
			return w == nil
		})
		rig.OK(t, err)
		if took := time.Since(begin); took < time.Hour+time.Minute || took > 2*time.Hour+2*time.Minute {
			t.Errorf("it took %v", took)
		}
		rig.Same(t, "states", []string{"a1", "-"}, seen) // also: a relist is a change
	})
}

// A wait ends with ErrStopped when the informer stops, or has stopped. A state that meets the
// condition counts all the same.
func TestWaitForWhenTheInformerStops(t *testing.T) {
	beforeRun(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
		stop := rig.Begin(t, inf)
		never := func(*rig.Widget) bool { return false }
		ended := make(chan error)
		go func() { _, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), never); ended <- err }()
		synctest.Wait()
		stop()
		const want = "lw: Widget: waiting for a condition of default/a, which does not meet it at 2 (stopped): stopped"
		if err := <-ended; !errors.Is(err, lw.ErrStopped) || err.Error() != want {
			t.Errorf("it said\n%v\nwant\n%s", err, want)
		}
		if _, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), never); !errors.Is(err, lw.ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
		if w, err := lw.WaitFor(rig.Canceled(t), inf, rig.Key("a"),
			func(w *rig.Widget) bool { return w.Size == 1 }); err != nil || w == nil {
			t.Errorf("what is met: %v, %v", w, err)
		}
		if _, err := lw.WaitFor(rig.Canceled(t), inf, rig.Key("b"),
			func(w *rig.Widget) bool { return w == nil }); err != nil {
			t.Errorf("what is gone: %v", err)
		}
	})
}

// A change that comes while the condition looks at the state before is not missed.
func TestWaitForSeesWhatComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := fed(t)
		begin := time.Now()
		w, err := lw.WaitFor(within(t, time.Minute), inf, rig.Key("a"), func(w *rig.Widget) bool {
			if w.Size < 5 {
				src.Send(rig.Modified(rig.Stamped("a", w.Size+1, fmt.Sprint(10+w.Size))))
			}
			return w.Size == 5
		})
		if err != nil || w.Size != 5 || time.Since(begin) != 0 {
			t.Errorf("it returned %s and %v after %v", sized(w), err, time.Since(begin))
		}
	})
}

// A state that has come when the context ends counts, whichever of the two is noticed first.
func TestWaitForAtTheEndOfTheContext(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			src, inf := fed(t)
			ctx, cancel := context.WithCancel(t.Context())
			// The condition itself makes both happen, before the wait looks at either.
			looked := 0
			w, err := lw.WaitFor(ctx, inf, rig.Key("a"), func(w *rig.Widget) bool {
				if looked++; looked == 1 {
					src.Send(rig.Modified(rig.Stamped("a", 2, "11")))
					cancel()
				}
				return w.Size == 2
			})
			if err != nil || w.Size != 2 || looked != 2 {
				t.Errorf("it returned %s and %v after %d looks", sized(w), err, looked)
			}
		})
	}
}

// A condition that panics leaves nothing behind, and one that is nil is told at once.
func TestWaitForPanics(t *testing.T) {
	inMemory(t, "a1", nil, func(t *testing.T, _ memory, inf informer) {
		for want, cond := range map[string]func(*rig.Widget) bool{
			"oh no":                      func(*rig.Widget) bool { panic("oh no") },
			"lw: WaitFor: nil condition": nil,
		} {
			rig.MustPanic(t, want, func() { lw.WaitFor(t.Context(), inf, rig.Key("a"), cond) })
		}
		mustLeaveNothing(t, inf)
	})
}

// However fast the changes come, a wait does not miss the last one.
func TestWaitForNeverMissesTheLast(t *testing.T) {
	inMemory(t, "a0", nil, func(t *testing.T, m memory, inf informer) {
		const rounds, changes = 100, 7
		ended := make(chan error, 4)
		for round := range rounds {
			last := (round + 1) * changes
			for i := range 4 {
				go func() {
					w, err := lw.WaitFor(t.Context(), inf, rig.Key("a"), func(w *rig.Widget) bool {
						return w != nil && w.Size == last || i == 3 && w == nil
					})
					if err == nil && w != nil && w.Size != last {
						err = fmt.Errorf("it returned %s, want size %d", sized(w), last)
					}
					ended <- err
				}()
			}
			for i := range changes {
				rig.Update(t, m, "a", round*changes+i+1)
			}
			for range 4 { // a wait that misses it hangs, which ends the bubble with an error
				rig.OK(t, <-ended)
			}
		}
		mustLeaveNothing(t, inf)
	})
}
