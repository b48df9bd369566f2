package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// open says that more events of this version follow.
func open(ev lw.WatchEvent[*rig.Widget]) lw.WatchEvent[*rig.Widget] {
	ev.Open = true
	return ev
}

func mustTransact(t interface{ Fatal(...any) }, m memory, puts []*rig.Widget, gone ...lw.Key) string {
	version, err := m.Transact(context.Background(), puts, gone...)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// No read, of whatever sort, shows a part of a transaction, and none goes back to before one.
func TestTransactionsAreShownWhole(t *testing.T) {
	const writes, wide = 3000, 700
	m := lw.NewMemory[*rig.Widget]()
	names := []string{"a", "b", "c"}
	put := func(n int) {
		var objs []*rig.Widget
		for _, name := range names {
			objs = append(objs, rig.NewWidget(name, n))
		}
		if n%1000 == 0 { // a long commit
			for i := range wide {
				objs = append(objs, rig.NewWidget(fmt.Sprint("w", i), n))
			}
		}
		mustTransact(t, m, objs)
	}
	put(1000)
	inf := lw.NewInformer(m, nil)
	all := lw.NewIndex(inf, func(w *rig.Widget) bool { return len(w.Name) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { inf.Run(ctx) })
	rig.OK(t, inf.WaitForSync(ctx))
	var reads atomic.Int64
	for range 2 {
		running.Go(func() {
			store, last := inf.Store(), 0
			same := func(how string, objs []*rig.Widget) {
				n, small := last, 0
				for _, w := range objs {
					if len(w.Name) > 1 {
						continue
					}
					if small++; w.Size < last || small > 1 && w.Size != n {
						t.Errorf("%s shows %s of %d after %d", how, w.Name, w.Size, last)
					}
					n = w.Size
				}
				rig.Same(t, how, len(names), small)
				last = n
			}
			for i := 0; ctx.Err() == nil; i++ {
				reads.Add(1)
				switch i % 4 {
				case 0:
					for _, name := range names {
						w, _ := store.Get(rig.Key(name))
						if w.Size < last {
							t.Errorf("Get shows %s of %d after %d", name, w.Size, last)
						}
						last = w.Size
					}
				case 1:
					same("the index", all.List(true))
				case 2:
					same("the store", store.List())
				default:
					snap := store.Snapshot()
					version := snap.ResourceVersion()
					same("a snapshot", snap.List())
					for w := range snap.All() {
						if w.ResourceVersion > version && len(w.ResourceVersion) >= len(version) {
							t.Errorf("a snapshot at %s has %s of %s", version, w.Name, w.ResourceVersion)
						}
					}
				}
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for n := 1001; n < 1001+writes; n++ {
		put(n)
	}
	rig.OK(t, inf.WaitForResourceVersion(ctx, m.ResourceVersion()))
	cancel()
	running.Wait()
	t.Logf("%d reads", reads.Load())
}

// Whatever is written, together or not, and wherever watches end, the store and what handlers were
// told are the server's state, and each state that readers see is one that the server had.
func TestTransactionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory[*rig.Widget]()
			states := map[string]map[lw.Key]int{"1": {}}
			opts := &lw.Options{DetectMutation: true, OnError: func(error) {}}
			inf := lw.NewInformer[*rig.Widget](tearing{m, rapid.IntRange(0, 3).Draw(rt, "tears")}, opts)
			story := rig.NewStory(t)
			inf.AddHandler(story.Handler())
			bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
			rig.Start(t, inf)
			names := []string{"a", "b", "c", "d", "e", "f"}
			seen := func() {
				snap := inf.Store().Snapshot()
				version := snap.ResourceVersion()
				if diff := cmp.Diff(states[version], rig.Sizes(snap)); diff != "" && version != "" {
					t.Errorf("at %s (-want +got):\n%s", version, diff)
				}
			}
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				switch rapid.IntRange(0, 4).Draw(rt, "what") {
				case 0:
					m.Disconnect()
				case 1:
					m.Bookmark()
				case 2:
					rig.Sleep(time.Second)
				default:
					state := map[lw.Key]int{}
					for w := range m.All() {
						state[lw.KeyOf(w)] = w.Size
					}
					var puts []*rig.Widget
					var gone []lw.Key
					for _, name := range names[:rapid.IntRange(1, len(names)).Draw(rt, "of")] {
						_, exists := state[rig.Key(name)]
						if rapid.Bool().Draw(rt, "put") {
							size := rapid.IntRange(0, 2).Draw(rt, "size")
							puts = append(puts, rig.NewWidget(name, size))
							state[rig.Key(name)] = size
						} else if exists {
							gone = append(gone, rig.Key(name))
							delete(state, rig.Key(name))
						}
					}
					states[mustTransact(rt, m, puts, gone...)] = state
				}
				if rapid.Bool().Draw(rt, "let it come") {
					synctest.Wait()
				}
				seen()
			}
			rig.Sleep(10 * time.Minute)
			seen()
			want := states[m.ResourceVersion()]
			rig.Same(t, "in the end", want, rig.Sizes(inf.Store()))
			rig.MustAddUp(t, story, want)
			indexed := 0
			for size := range 3 {
				for w := range bySize.Lookup(size) {
					indexed++
					if w.Size != size {
						t.Errorf("%s of %d has %d in the index", w.Name, w.Size, size)
					}
				}
			}
			rig.Same(t, "objects in the index", len(want), indexed)
		})
	})
}

// tearing breaks each watch so many times within the events of one version.
type tearing struct {
	*lw.Memory[*rig.Widget]
	tears int
}

func (s tearing) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[*rig.Widget]) error) error {
	n := 0
	return s.Memory.Watch(ctx, opts, func(ev lw.WatchEvent[*rig.Widget]) error {
		if err := yield(ev); err != nil {
			return err
		}
		if ev.Open {
			if n++; n == s.tears {
				return errors.New("torn")
			}
		}
		return nil
	})
}

// What a group may hold, and what it leads to.
func TestGroups(t *testing.T) {
	base := func() rig.Reply { return rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9")) }
	after := func(evs ...lw.WatchEvent[*rig.Widget]) []rig.Stream {
		return []rig.Stream{rig.Events(evs...), rig.Forever()}
	}
	a2, b2 := rig.Modified(rig.Stamped("a", 2, "11")), rig.Modified(rig.Stamped("b", 2, "11"))
	bGone := rig.Deleted(rig.Stamped("b", 1, "11"))
	again := rig.Added("b", "11")
	again.Object.UID, again.Object.Size = "another", 3
	for name, c := range map[string]struct {
		watches []rig.Stream
		lists   []rig.Reply // after the first
		opts    lw.Options
		size    string // an index that panics at this name
		want    map[string]int
		version string
		calls   []string // after the first list
		errors  int
		aside   int
	}{
		"closed by its last event": {watches: after(open(a2), b2),
			want: map[string]int{"a": 2, "b": 2}, version: "11", calls: []string{"update a1 a2", "update b1 b2"}},
		"closed by a bookmark": {watches: after(open(a2), rig.Bookmark("11")),
			want: map[string]int{"a": 2, "b": 1}, version: "11", calls: []string{"update a1 a2"}},
		"of bookmarks alone": {watches: after(open(rig.Bookmark("11")), rig.Bookmark("11")),
			want: map[string]int{"a": 1, "b": 1}, version: "11"},
		"not closed": {watches: after(open(a2), open(b2)),
			want: map[string]int{"a": 1, "b": 1}, version: "10"},
		"dropped at the end, and sent again": {
			watches: []rig.Stream{{Events: []lw.WatchEvent[*rig.Widget]{open(a2)}, After: time.Second},
				rig.Events(open(a2), bGone), rig.Forever()},
			want: map[string]int{"a": 2}, version: "11", calls: []string{"update a1 a2", "delete b1"}, errors: 1},
		"gone and back": {watches: after(open(bGone), open(a2), again),
			want: map[string]int{"a": 2, "b": 3}, version: "11", calls: []string{"delete b1", "add b3", "update a1 a2"}},
		"another version in it": {watches: after(open(a2), rig.Modified(rig.Stamped("b", 2, "12"))),
			lists: []rig.Reply{rig.List("12", rig.Stamped("a", 2, "11"), rig.Stamped("b", 2, "12"))}, errors: 1,
			want: map[string]int{"a": 2, "b": 2}, version: "12", calls: []string{"update a1 a2", "update b1 b2"}},
		"no version in it": {watches: after(open(a2), lw.WatchEvent[*rig.Widget]{Type: watch.Modified,
			Object: rig.Stamped("b", 2, "12")}),
			lists: []rig.Reply{rig.List("12", rig.Stamped("a", 2, "11"), rig.Stamped("b", 2, "12"))}, errors: 1,
			want: map[string]int{"a": 2, "b": 2}, version: "12", calls: []string{"update a1 a2", "update b1 b2"}},
		"a bookmark without a version": {watches: after(open(a2), rig.Bookmark("")),
			lists: []rig.Reply{rig.List("12", rig.Stamped("a", 2, "11"), rig.Stamped("b", 1, "9"))}, errors: 1,
			want: map[string]int{"a": 2, "b": 1}, version: "12", calls: []string{"update a1 a2"}},
		"a gap": {watches: after(open(a2), rig.Modified(rig.Stamped("c", 2, "11"))),
			lists: []rig.Reply{rig.List("11", rig.Stamped("a", 2, "11"), rig.Stamped("c", 2, "11"))}, errors: 1,
			want: map[string]int{"a": 2, "c": 2}, version: "11", calls: []string{"update a1 a2", "add c2", "delete b1"}},
		"added twice": {watches: after(open(b2), rig.Added("a", "11")),
			lists: []rig.Reply{rig.List("11", rig.Stamped("a", 1, "11"), rig.Stamped("b", 2, "11"))}, errors: 1,
			want: map[string]int{"a": 1, "b": 2}, version: "11", calls: []string{"update b1 b2", "update a1 a1"}},
		"an object that cannot be read": {watches: after(open(rig.BadEvent("a", "11")), b2),
			want: map[string]int{"a": 1, "b": 2}, version: "10", calls: []string{"update b1 b2"}, errors: 1, aside: 1},
		"the last one cannot be read": {watches: after(open(b2), rig.BadEvent("a", "11")),
			want: map[string]int{"a": 1, "b": 2}, version: "10", calls: []string{"update b1 b2"}, errors: 1, aside: 1},
		"read again": {watches: after(open(rig.BadEvent("a", "11")), b2,
			open(rig.Modified(rig.Stamped("a", 3, "12"))), rig.Modified(rig.Stamped("b", 3, "12"))),
			want: map[string]int{"a": 3, "b": 3}, version: "12", calls: []string{"update b1 b2", "update a1 a3", "update b2 b3"},
			errors: 1},
		"an index panics": {watches: after(open(a2), b2), size: "a", opts: lw.Options{OnPanic: func(*lw.Panic) {}},
			want: map[string]int{"a": 1, "b": 2}, version: "10", calls: []string{"update b1 b2"}, errors: 1, aside: 1},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := &rig.Script{Lists: append([]rig.Reply{base()}, c.lists...),
				Watches: append([]rig.Stream{{After: time.Second}}, c.watches...)}
			errs := new(rig.Errors)
			opts := c.opts
			opts.List, opts.OnError, opts.DetectMutation = lw.ListWhole, errs.Add, true
			inf := lw.NewInformer[*rig.Widget](src, &opts)
			got := new(rig.Calls)
			inf.AddHandler(got.Handler())
			lw.NewIndex(inf, func(w *rig.Widget) int {
				if w.Name == c.size && w.Size == 2 {
					panic("no")
				}
				return w.Size
			})
			rig.Start(t, inf)
			got.Sorted(t, "add a1", "add b1", "synced")
			waited := make(chan error, 1)
			go func() { waited <- inf.WaitForResourceVersion(t.Context(), "11") }()
			rig.Sleep(8 * time.Second)
			rig.MustHold(t, inf.Store(), c.version, c.want)
			gotCalls := got.Take()
			if c.lists != nil { // the order within a relist is nobody's business
				slices.Sort(c.calls)
				slices.Sort(gotCalls)
			}
			rig.Same(t, "calls", c.calls, gotCalls)
			var real []error
			for _, err := range errs.All() {
				if !errors.Is(err, context.Canceled) {
					real = append(real, err)
				}
			}
			if len(real) != c.errors || len(inf.Status().SetAside) != c.aside {
				t.Errorf("%d errors, want %d: %v; set aside: %v", len(real), c.errors, real, inf.Status().SetAside)
			}
			select {
			case err := <-waited:
				if held := c.aside > 0 || name == "read again"; (err != nil) != held {
					t.Errorf("a wait for 11 ended with %v", err)
				}
			default:
				if name != "not closed" {
					t.Error("a wait for 11 goes on")
				}
			}
		})
	}
}

// A Sink is told of a group when it is whole, with the version that it leads to.
func TestSinkGetsWholeGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{Lists: []rig.Reply{rig.List("10", rig.Stamped("a", 1, "8"), rig.Stamped("b", 1, "9"))},
			Watches: []rig.Stream{
				{Events: []lw.WatchEvent[*rig.Widget]{open(rig.Modified(rig.Stamped("a", 2, "11")))}, After: time.Second},
				rig.Events(open(rig.Modified(rig.Stamped("a", 2, "11"))), open(rig.Deleted(rig.Stamped("b", 1, "11"))),
					rig.Bookmark("11"),
					open(rig.Modified(rig.Stamped("a", 3, "12"))), rig.BadEvent("c", "12"), open(rig.BadEvent("c", "13")),
					rig.Bookmark("13")),
			}}
		x, sink := lw.NewIndexer[*rig.Widget](), new(groupSink)
		sink.sink = x
		r := rig.ReflectInto(t, src, lw.Sink[*rig.Widget](sink), &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		rig.Sleep(time.Minute)
		want := []string{"MODIFIED a at 11, open", "DELETED b at 11", "MODIFIED a at "}
		rig.Same(t, "the sink got", want, sink.got)
		rig.MustHold(t, x, "11", map[string]int{"a": 3})
		rig.Same(t, "what the reflector reports", "11", r.Status().ResourceVersion)
	})
}

type groupSink struct {
	sink *lw.Indexer[*rig.Widget]
	got  []string
}

func (s *groupSink) Replace(objs []*rig.Widget, version string) { s.sink.Replace(objs, version) }

func (s *groupSink) Apply(ev lw.WatchEvent[*rig.Widget]) {
	text := fmt.Sprintf("%s %s at %s", ev.Type, ev.Key().Name, ev.ResourceVersion)
	if ev.Open {
		text += ", open"
	}
	s.got = append(s.got, text)
	s.sink.Apply(ev)
}

// What wraps a source keeps its groups, also where it leaves objects out.
func TestWrappersKeepGroups(t *testing.T) {
	for name, wrap := range map[string]func(m memory) lw.Source[*rig.Widget]{
		"Transform": func(m memory) lw.Source[*rig.Widget] {
			return lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
				if w.Name == "c" {
					return nil, nil
				}
				return w, nil
			})
		},
		"Shard": func(m memory) lw.Source[*rig.Widget] { return lw.Shard(m, 0, 2) },
		"Shard of a server that does not select": func(m memory) lw.Source[*rig.Widget] {
			return lw.Shard(lw.WithListOptions(m, func(o *metav1.ListOptions) { o.ShardSelector = "" }), 0, 2)
		},
		"WithListOptions": func(m memory) lw.Source[*rig.Widget] {
			return lw.WithListOptions(m, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name!=c" })
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			m := lw.NewMemory[*rig.Widget]()
			src := wrap(m)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			shown, held := map[lw.Key]int{}, map[lw.Key]int{}
			version, groups := "", 0
			go func() {
				_ = src.Watch(ctx, metav1.ListOptions{ResourceVersion: m.ResourceVersion()},
					func(ev lw.WatchEvent[*rig.Widget]) error {
						if version != "" && ev.ResourceVersion != version {
							t.Errorf("an event of %s amid those of %s", ev.ResourceVersion, version)
						}
						if ev.Type == watch.Deleted {
							delete(held, ev.Key())
						} else {
							held[ev.Key()] = ev.Object.Size
						}
						if version = ev.ResourceVersion; !ev.Open {
							version, shown = "", maps.Clone(held)
							groups++
							for k, n := range shown {
								if n != groups {
									t.Errorf("after %d transactions %s is of %d", groups, k, n)
								}
							}
						}
						return nil
					})
			}()
			synctest.Wait()
			for n := 1; n <= 20; n++ {
				var puts []*rig.Widget
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					puts = append(puts, rig.NewWidget(name, n))
				}
				mustTransact(t, m, puts)
				synctest.Wait()
				if groups != n || version != "" {
					t.Errorf("after %d transactions %d were told, and %q is open", n, groups, version)
				}
			}
			if len(shown) == 0 {
				t.Error("nothing is shown")
			}
		})
	}
}

// A streamed list must not end amid the events of one version.
func TestStreamEndsAmidAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		src := &rig.Script{OnStream: func() rig.Stream {
			if first {
				first = false
				return rig.Events(rig.Added("a", "8"), rig.Added("b", "9"), open(rig.Modified(rig.Stamped("a", 2, "10"))),
					rig.End("10"))
			}
			return rig.Events(rig.Added("a", "10"), rig.Added("b", "10"), rig.End("10"))
		}}
		errs := new(rig.Errors)
		inf := rig.RunFor[*rig.Widget](t, src, &lw.Options{OnError: errs.Add, List: lw.ListStream}, time.Minute)
		errs.MustHave(t, "amid the events of one version")
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1, "b": 1})
	})
}

// An Indexer reports a version when it has all of it.
func TestIndexerApplyOfAGroup(t *testing.T) {
	x := lw.NewIndexer[*rig.Widget]()
	x.Replace([]*rig.Widget{rig.Stamped("a", 1, "1"), rig.Stamped("b", 1, "1")}, "1")
	x.Apply(open(rig.Modified(rig.Stamped("a", 2, "2"))))
	x.Apply(open(rig.Deleted(rig.Stamped("b", 1, "2"))))
	rig.MustHold(t, x, "1", map[string]int{"a": 2})
	x.Apply(rig.Bookmark("2"))
	rig.MustHold(t, x, "2", map[string]int{"a": 2})
}

// A wait for a version that the collection does not show asks the source, where it can be asked: it
// takes a twentieth of a second, ends no watch, and many waits ask no more often than ten times in
// a second.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		var asked atomic.Int32
		inf := rig.Run(t, &hintedSource{but(m, "other"), lw.SourceHints{Progress: func() { asked.Add(1); m.Bookmark() }}},
			nil)
		other := rig.Create(t, m, "other", 1)
		began := time.Now()
		rig.OK(t, inf.WaitForResourceVersion(t.Context(), other.ResourceVersion))
		if took := time.Since(began); took != 50*time.Millisecond || rig.Watches(inf.Status()) != 1 {
			t.Errorf("it took %v and %d watches", took, rig.Watches(inf.Status()))
		}
		rig.Update(t, m, "other", 2)
		began = time.Now()
		if _, err := inf.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 100*time.Millisecond || rig.Watches(inf.Status()) != 1 {
			t.Errorf("CatchUp took %v and %d watches", took, rig.Watches(inf.Status()))
		}
		// The version never comes.
		asked.Store(0)
		ctx := within(t, 10*time.Second)
		var waits sync.WaitGroup
		for range 1000 {
			waits.Go(func() {
				if err := inf.WaitForResourceVersion(ctx, "1000"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a wait for what never comes: %v", err)
				}
			})
		}
		waits.Wait()
		if n := asked.Load(); n < 4 || n > 101 {
			t.Errorf("the source was asked %d times in ten seconds", n)
		}
	})
}

// Of a key that comes several times in one version, the last is told, once, however many come.
func TestTogetherAKeyComesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group, want := []lw.WatchEvent[*rig.Widget]{}, []string{}
		for i := range 40 {
			name := fmt.Sprintf("k%02d", i)
			group, want = append(group, open(rig.Added(name, "10"))), append(want, fmt.Sprintf("add %s1", name))
		}
		group, want[30] = append(group, rig.Modified(rig.Stamped("k30", 2, "10"))), "add k302"
		src := &rig.Script{Lists: []rig.Reply{rig.List("5")}, Watches: []rig.Stream{{Events: group, After: time.Hour}}}
		inf, got := lw.NewInformer[*rig.Widget](src, &lw.Options{List: lw.ListPages}), new(rig.Calls)
		inf.AddHandler(got.Handler())
		rig.Start(t, inf)
		rig.Sleep(time.Minute)
		got.Sorted(t, append(want, "synced")...)
	})
}

// A transaction that mends an object that was set aside is no gap: nothing is listed again.
func TestTogetherMendsWhatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mended := rig.Modified(rig.Stamped("b", 2, "10"))
		src := &rig.Script{
			Lists:   []rig.Reply{badList("5", rig.Stamped("c", 1, "4"))},
			Watches: []rig.Stream{rig.Events(open(mended), rig.Added("a", "10"))},
		}
		inf, _ := rig.Paged(t, src, time.Minute)
		rig.MustLog(t, src, "list limit 500", "watch 5")
		rig.MustHold(t, inf.Store(), "10", map[string]int{"a": 1, "b": 2, "c": 1})
	})
}

// A change amid a streamed list whose version is not wanted leaves the object that came before.
func TestKeptAmidAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{OnStream: func() rig.Stream {
			return rig.Events(rig.Added("a", "5"), rig.Added("b", "6"), rig.Modified(rig.Stamped("a", 3, "7")), rig.End("8"))
		}}
		inf := rig.Run(t, lw.Transform[*rig.Widget, *rig.Widget](src, func(w *rig.Widget) (*rig.Widget, error) {
			if w.Size == 3 {
				return nil, lw.ErrKeep
			}
			return w, nil
		}), nil)
		rig.MustHold(t, inf.Store(), "8", map[string]int{"a": 1, "b": 1})
	})
}
