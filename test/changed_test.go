package lw_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// channels are some of Changed: of the keys a, b and c, of any, and of an index by size.
type channels map[string]<-chan struct{}

func newChannels(ctx context.Context, inf *lw.Informer[*Widget], bySize *lw.Index[int, *Widget]) channels {
	c := channels{"any": inf.Changed(ctx)}
	for _, name := range []string{"a", "b", "c"} {
		c[name] = inf.Changed(ctx, key(name))
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
	if diff := cmp.Diff(want, c.closed()); diff != "" {
		t.Errorf("closed channels (-want +got):\n%s", diff)
	}
}

// An event closes the channels of its object, of any object, and of the groups that the object
// leaves, joins or stays in.
func TestChanged(t *testing.T) {
	a, b := stamped("a", 1, "8"), stamped("b", 1, "9")
	resized := func(w *Widget, size int, rv string) *Widget { return stamped(w.Name, size, rv) }
	again := stamped("a", 1, "11")
	again.UID = "another"
	for name, tc := range map[string]struct {
		event lw.WatchEvent[*Widget]
		want  []string
	}{
		"an object comes":     {added("c", "11"), []string{"any", "c", "size 1"}},
		"an update":           {modified(resized(a, 1, "11")), []string{"a", "any", "size 1"}},
		"it joins a group":    {modified(resized(a, 2, "11")), []string{"a", "any", "size 1", "size 2"}},
		"it is created again": {modified(again), []string{"a", "any", "size 1"}},
		"it goes":             {lw.WatchEvent[*Widget]{Type: watch.Deleted, Object: b, ResourceVersion: "11"}, []string{"any", "b", "size 1"}},
		"a bookmark":          {bookmark("11"), nil},
		"what cannot be read": {badEvent("a", "11"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &fed{events: make(chan lw.WatchEvent[*Widget]), version: "10", objs: []*Widget{a, b}}
				inf := run(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
				bySize := lw.NewIndex(inf, func(w *Widget) int { return w.Size })
				ctx, cancel := context.WithCancel(t.Context())
				c := newChannels(ctx, inf, bySize)
				src.send(tc.event)
				c.mustBeClosed(t, tc.want...)
				if want := len(c) - len(tc.want); signals(inf)+indexSignals(bySize) != want {
					t.Errorf("%d and %d channels are left, want %d", signals(inf), indexSignals(bySize), want)
				}
				cancel()
				synctest.Wait()
				if signals(inf) != 0 || indexSignals(bySize) != 0 {
					t.Errorf("%d and %d channels are left after the context", signals(inf), indexSignals(bySize))
				}
				src.send(modified(stamped("a", 1, "50")))
				src.send(modified(stamped("b", 1, "51")))
				c.mustBeClosed(t, tc.want...) // and not those whose context is done
			})
		})
	}
}

// The first list closes the channels of what it has, and that of any object, whatever it has. A
// later one closes those of what differs.
func TestChangedByLists(t *testing.T) {
	a, b, c := stamped("a", 1, "8"), stamped("b", 2, "9"), stamped("c", 3, "10")
	another := stamped("a", 1, "12")
	another.UID = "another"
	for name, tc := range map[string]struct {
		first, second []*Widget
		want, then    []string
	}{
		"nothing at all": {nil, nil, []string{"any"}, nil},
		"no difference":  {[]*Widget{a, b}, []*Widget{b, a}, []string{"a", "any", "b", "size 1", "size 2"}, nil},
		"all is new":     {nil, []*Widget{a, c}, []string{"any"}, []string{"a", "any", "c", "size 1", "size 3"}},
		"all is gone":    {[]*Widget{a, c}, nil, []string{"a", "any", "c", "size 1", "size 3"}, []string{"a", "any", "c", "size 1", "size 3"}},
		"some differ": {[]*Widget{a, b}, []*Widget{a, stamped("b", 0, "12"), c}, []string{"a", "any", "b", "size 1", "size 2"},
			[]string{"any", "b", "c", "size 0", "size 2", "size 3"}},
		"one is another": {[]*Widget{a, b}, []*Widget{another, b}, []string{"a", "any", "b", "size 1", "size 2"}, []string{"a", "any", "size 1"}},
	} {
		for _, mode := range []lw.ListMode{lw.ListWhole, lw.ListPages} {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := &script{
						lists:   []reply{list("11", tc.first...), list("20", tc.second...)},
						watches: []stream{expiredAfter(time.Minute), forever()},
					}
					// The detector of mutations asks for all differences of the first list as well.
					inf := lw.NewInformer[*Widget](src, &lw.Options{List: mode, DetectMutation: mode == lw.ListWhole})
					bySize := lw.NewIndex(inf, func(w *Widget) int { return w.Size })
					early := newChannels(t.Context(), inf, bySize)
					start(t, inf)
					early.mustBeClosed(t, tc.want...)
					late := newChannels(t.Context(), inf, bySize)
					late.mustBeClosed(t)
					sleep(2 * time.Minute)
					if got := inf.Store().ResourceVersion(); got != "20" {
						t.Fatalf("the store is at %s", got)
					}
					late.mustBeClosed(t, tc.then...)
				})
			})
		}
	}
}

// A handler finds the channels of what it is called for closed, and so does a wait for the version.
func TestChangedBeforeHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 0))
		inf := run(t, m, nil)
		bySize := lw.NewIndex(inf, func(w *Widget) int { return w.Size / 100 })
		taken := make(chan (<-chan struct{}), 2)
		calls := 0
		inf.AddHandler(lw.Handler[*Widget]{Update: func(_, w *Widget) {
			for range 2 {
				select {
				case <-<-taken:
				default:
					t.Error("the channel is open")
				}
			}
			calls++
		}})
		synctest.Wait()
		const updates = 300
		for i := range updates {
			changed := inf.Changed(t.Context(), key("a"))
			taken <- changed
			taken <- bySize.Changed(t.Context(), (i+1)/100)
			if err := inf.WaitForResourceVersion(t.Context(), update(t, m, "a", i+1).ResourceVersion); err != nil {
				t.Fatal(err)
			}
			select {
			case <-changed:
			default:
				t.Fatal("the version is there, and the channel is open")
			}
			synctest.Wait()
		}
		if calls != updates {
			t.Errorf("%d calls, want %d", calls, updates)
		}
	})
}

// An index of a store that nobody follows tells of each way to write to it.
func TestIndexChangedOfAnIndexer(t *testing.T) {
	x := lw.NewIndexer(widget("a", 1), widget("b", 2))
	bySize := lw.NewIndex(x, func(w *Widget) int { return w.Size })
	byLetter := lw.NewMultiIndex(x, func(w *Widget) iter.Seq[string] {
		return slices.Values(strings.Split(w.Name, "-"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"set", func() { x.Set(widget("a", 1)) }, []string{"a", "size 1"}},
		{"another value", func() { x.Set(widget("a", 3)) }, []string{"a", "size 1", "size 3"}},
		{"several values", func() { x.Set(widget("b-c", 0)) }, []string{"b", "c", "size 0"}},
		{"nothing to delete", func() { x.Delete(key("nobody")) }, nil},
		{"delete", func() { x.Delete(key("b")) }, []string{"b", "size 2"}},
		{"apply", func() { x.Apply(added("c", "5")) }, []string{"c", "size 1"}},
		{"apply a deletion", func() { x.Apply(deleted(stamped("c", 1, "6"))) }, []string{"c", "size 1"}},
		{"apply a bookmark", func() { x.Apply(bookmark("7")) }, nil},
		{"replace by the same", func() { x.Replace(x.List(), "8") }, nil},
		{"replace", func() { x.Replace([]*Widget{widget("a", 2), widget("b-c", 0)}, "9") }, []string{"a", "b", "c", "size 0", "size 2", "size 3"}},
	} {
		c := channels{}
		for size := range 4 {
			c[fmt.Sprint("size ", size)] = bySize.Changed(ctx, size)
		}
		for _, letter := range []string{"a", "b", "c"} {
			c[letter] = byLetter.Changed(ctx, letter)
		}
		step.do()
		if diff := cmp.Diff(step.want, c.closed()); diff != "" {
			t.Errorf("%s: closed channels (-want +got):\n%s", step.name, diff)
		}
	}
}

// A channel of several keys is closed by the first change of one of them, and is then let go of.
func TestChangedOfSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("c", 1))
		inf := run(t, m, nil)
		c := channels{"a or b": inf.Changed(t.Context(), key("a"), key("b"), key("b"))}
		update(t, m, "c", 2)
		c.mustBeClosed(t)
		create(t, m, "b", 1)
		c.mustBeClosed(t, "a or b")
		if n := signals(inf); n != 0 {
			t.Errorf("%d channels are left", n)
		}
		update(t, m, "a", 2)
	})
}

// While an informer stops nothing changes, so no channel is closed; they are let go of.
func TestChangedWhenTheInformerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := lw.NewInformer(lw.NewMemory(widget("a", 1)), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- inf.Run(ctx) }()
		synctest.Wait()
		changed, any := inf.Changed(t.Context(), key("a")), inf.Changed(t.Context())
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		late := inf.Changed(t.Context(), key("a"))
		channels{"a": changed, "any": any, "late": late}.mustBeClosed(t)
		if n := signals(inf); n != 0 {
			t.Errorf("%d channels are left", n)
		}
	})
}
