package lw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// calls writes down what handlers are told: "add a1", "update a1 a2", "delete a2", "synced".
type calls struct {
	mu  sync.Mutex
	got []string
}

func (c *calls) handler() lw.Handler[*Widget] {
	return lw.Handler[*Widget]{
		Add:    func(w *Widget) { c.note("add", w) },
		Update: func(old, w *Widget) { c.note("update", old, w) },
		Delete: func(w *Widget) { c.note("delete", w) },
		Synced: func() { c.note("synced") },
	}
}

func (c *calls) note(what string, objs ...*Widget) {
	for _, w := range objs {
		what += fmt.Sprintf(" %s%d", w.Name, w.Size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, what)
}

func (c *calls) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// mustBe compares the calls since the last mustBe.
func (c *calls) mustBe(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, c.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// take returns the calls since the last one.
func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// sorted does the same where the order of the calls is nobody's business.
func (c *calls) sorted(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	got := c.take()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestHandlerWithoutSomeFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := run(t, m, nil)
		only := &calls{}
		all := only.handler()
		inf.AddHandler(lw.Handler[*Widget]{Add: all.Add})
		inf.AddHandler(lw.Handler[*Widget]{Update: all.Update})
		inf.AddHandler(lw.Handler[*Widget]{Delete: all.Delete})
		inf.AddHandler(lw.Handler[*Widget]{Synced: all.Synced})
		only.sorted(t, "add a1", "synced")
		update(t, m, "a", 2)
		only.mustBe(t, "update a1 a2")
		remove(t, m, "a")
		only.mustBe(t, "delete a2")
	})
}

func TestHandlerWithoutFunctions(t *testing.T) {
	inf := lw.NewInformer(lw.NewMemory[*Widget](), nil)
	for name, h := range map[string]lw.Handler[*Widget]{
		"nothing":         {},
		"filter only":     {Filter: func(*Widget) bool { return true }},
		"negative resync": {Add: func(*Widget) {}, Resync: -1},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "lw: AddHandler: ") {
					t.Errorf("AddHandler panicked with %q", p)
				}
			}()
			inf.AddHandler(h)
		})
	}
}

// What a filter makes of a change, for each way that the objects before and after can stand to it.
func TestFilterMatrix(t *testing.T) {
	odd := func(w *Widget) bool { return w.Size%2 == 1 }
	for name, tc := range map[string]struct {
		sizes []int // 0 deletes
		want  []string
	}{
		"add in":                    {[]int{1}, []string{"add a1"}},
		"add out":                   {[]int{2}, nil},
		"in to in":                  {[]int{1, 3}, []string{"add a1", "update a1 a3"}},
		"in to out":                 {[]int{1, 2}, []string{"add a1", "delete a1"}},
		"out to in":                 {[]int{2, 1}, []string{"add a1"}},
		"out to out":                {[]int{2, 4}, nil},
		"delete in":                 {[]int{1, 0}, []string{"add a1", "delete a1"}},
		"delete out":                {[]int{2, 0}, nil},
		"delete after leaving":      {[]int{1, 2, 0}, []string{"add a1", "delete a1"}},
		"again in after the border": {[]int{1, 2, 3, 0}, []string{"add a1", "delete a1", "add a3", "delete a3"}},
	} {
		for _, when := range []string{"listed", "watched"} {
			t.Run(name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := lw.NewMemory[*Widget]()
					sizes := tc.sizes
					if when == "listed" {
						create(t, m, "a", sizes[0])
						sizes = sizes[1:]
					}
					inf := run(t, m, nil)
					got := &calls{}
					h := got.handler()
					h.Filter, h.Synced = odd, nil
					inf.AddHandler(h)
					synctest.Wait()
					for _, size := range sizes {
						if _, there := m.Get(key("a")); size == 0 {
							remove(t, m, "a")
						} else if there {
							update(t, m, "a", size)
						} else {
							create(t, m, "a", size)
						}
						synctest.Wait()
					}
					got.mustBe(t, tc.want...)
				})
			})
		}
	}
}

// A handler that removes itself in the call of the last object is not synced: the call that says so does not come.
func TestRemoveInTheLastAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := run(t, lw.NewMemory(widget("a", 1)), nil)
		got := &calls{}
		h := got.handler()
		regs := make(chan *lw.Registration, 1)
		add := h.Add
		h.Add = func(w *Widget) { add(w); (<-regs).Remove() }
		reg := inf.AddHandler(h)
		regs <- reg
		<-reg.Done()
		got.mustBe(t, "add a1")
		if err := reg.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
			t.Errorf("WaitForSync: %v", err)
		}
	})
}

// Objects are told apart by their UID, not by what was there before them: one in the place of another, without a deletion in
// between, is two calls; one that went out of the collection and comes back is added.
func TestStoryFollowsTheUID(t *testing.T) {
	other := stamped("a", 2, "12")
	other.UID = "another"
	modified := func(w *Widget) lw.WatchEvent[*Widget] {
		return lw.WatchEvent[*Widget]{Type: watch.Modified, Object: w, ResourceVersion: w.ResourceVersion}
	}
	for name, tc := range map[string]struct {
		events []lw.WatchEvent[*Widget]
		want   []string
	}{
		"another object in its place": {[]lw.WatchEvent[*Widget]{modified(other)}, []string{"add a1", "synced", "delete a1", "add a2"}},
		"out and in": {[]lw.WatchEvent[*Widget]{modified(stamped("a", -1, "12")), modified(stamped("a", 3, "13")), modified(stamped("a", 4, "14"))},
			[]string{"add a1", "synced", "delete a1", "add a3", "update a3 a4"}},
		"never in": {[]lw.WatchEvent[*Widget]{modified(stamped("a", -1, "12")), modified(stamped("a", -2, "13"))},
			[]string{"add a1", "synced", "delete a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{
					lists:   []reply{list("10", stamped("a", 1, "9"))},
					watches: []stream{{after: time.Second}, {events: tc.events, open: true}},
				}
				positive := lw.Transform(src, func(w *Widget) (*Widget, error) {
					if w.Size < 0 {
						return nil, nil
					}
					return w, nil
				})
				inf := lw.NewInformer(positive, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
				got := &calls{}
				inf.AddHandler(got.handler())
				start(t, inf)
				sleep(time.Minute)
				got.mustBe(t, tc.want...)
			})
		})
	}
}

// A resync that is due while changes wait tells these first, and is of what they have led to; then the story goes on.
func TestResyncAfterWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := run(t, m, nil)
		got := &calls{}
		h := got.handler()
		h.Resync = time.Minute
		block := make(chan struct{})
		told := h.Update
		h.Update = func(old, w *Widget) {
			told(old, w)
			if w.Size == 2 {
				<-block
			}
		}
		inf.AddHandler(h)
		got.mustBe(t, "add a1", "synced")
		update(t, m, "a", 2)
		got.mustBe(t, "update a1 a2")
		sleep(90 * time.Second)
		update(t, m, "a", 3)
		create(t, m, "b", 1)
		synctest.Wait()
		close(block)
		synctest.Wait()
		calls := got.take()
		if len(calls) != 4 {
			t.Fatalf("calls: %v", calls)
		}
		slices.Sort(calls[2:]) // a resync has no order
		if diff := cmp.Diff([]string{"update a2 a3", "add b1", "update a3 a3", "update b1 b1"}, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		update(t, m, "a", 4)
		got.mustBe(t, "update a3 a4")
	})
}

// Each handler is told again in its own period, however busy it is in between, and nobody else with it.
func TestResyncPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := lw.NewInformer(m, nil)
		begin := time.Now()
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		handler := func(name string, period, busy time.Duration) lw.Handler[*Widget] {
			return lw.Handler[*Widget]{Resync: period, Update: func(old, new *Widget) {
				if old != new {
					time.Sleep(busy)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				at[name] = append(at[name], time.Since(begin))
			}}
		}
		inf.AddHandler(handler("2s", 2*time.Second, 0))
		inf.AddHandler(handler("3s", 3*time.Second, 0))
		inf.AddHandler(handler("busy", 2*time.Second, 700*time.Millisecond))
		inf.AddHandler(handler("never", 0, 0))
		start(t, inf)
		sleep(3500 * time.Millisecond)
		update(t, m, "a", 2) // keeps the busy one busy at 4 s
		sleep(5 * time.Second)
		synctest.Wait()
		want := map[string][]time.Duration{
			"2s":   {2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second},
			"3s":   {3 * time.Second, 6 * time.Second},
			"busy": {2 * time.Second, 4200 * time.Millisecond, 6 * time.Second, 8 * time.Second},
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("resyncs (-want +got):\n%s", diff)
		}
	})
}

// A resync tells of what is there: of no object that the handler's filter keeps out, has been deleted, or was never told.
func TestResyncTellsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 2), widget("c", 3))
		inf := run(t, m, nil)
		got := &calls{}
		h := got.handler()
		h.Resync = time.Minute
		h.Filter = func(w *Widget) bool { return w.Size%2 == 1 }
		inf.AddHandler(h)
		got.sorted(t, "add a1", "add c3", "synced")
		remove(t, m, "a")
		got.mustBe(t, "delete a1")
		sleep(time.Minute)
		got.mustBe(t, "update c3 c3")
		remove(t, m, "c")
		got.mustBe(t, "delete c3")
		sleep(time.Hour)
		got.mustBe(t)
	})
}

// A handler that is blocked through several of its periods is told once when it comes back, after all that waited.
func TestResyncOfABlockedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := run(t, m, nil)
		got := &calls{}
		h := got.handler()
		block := make(chan struct{})
		h.Synced = func() { <-block }
		h.Resync = time.Minute
		inf.AddHandler(h)
		got.mustBe(t, "add a1")
		update(t, m, "a", 2)
		sleep(10 * time.Minute)
		close(block)
		got.mustBe(t, "update a1 a2")
		sleep(time.Minute)
		got.mustBe(t, "update a2 a2")
	})
}

// A callback may call everything that an informer has.
func TestNestedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := lw.NewInformer(m, nil)
		inner, outer := &calls{}, &calls{}
		h := outer.handler()
		h.Add = func(w *Widget) {
			outer.note("add", w)
			reg := inf.AddHandler(inner.handler())
			if err := lw.WaitForSync(t.Context(), inf, reg); err != nil {
				t.Error(err)
			}
			if err := inf.WaitForResourceVersion(t.Context(), inf.Store().ResourceVersion()); err != nil {
				t.Error(err)
			}
			if n := lw.NewIndex(inf, lw.Namespace[*Widget]).Len("default"); n != 1 {
				t.Errorf("an index made in a callback holds %d objects", n)
			}
			for ev := range inf.Events(t.Context()) {
				outer.note("event", ev.Object())
				break
			}
			if n := len(inf.Store().List()); n != 1 {
				t.Errorf("List in a callback has %d objects", n)
			}
			reg.Remove()
			<-reg.Done()
			if s := inf.Status(); !s.Synced || s.Objects != 1 {
				t.Errorf("Status in a callback: %+v", s)
			}
			if w, err := m.Update(widget(w.Name, 2)); err != nil {
				t.Error(err)
			} else if err := inf.WaitForResourceVersion(t.Context(), w.ResourceVersion); err != nil {
				t.Error(err)
			}
		}
		inf.AddHandler(h)
		start(t, inf)
		outer.mustBe(t, "add a1", "event a1", "synced", "update a1 a2")
		inner.mustBe(t, "add a1", "synced")
	})
}

// A filter, an index and a transform may read the store; a handler may end the informer and remove itself at that.
func TestCallbackStopsTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		inf := lw.NewInformer(m, nil)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		var reg *lw.Registration
		reg = inf.AddHandler(lw.Handler[*Widget]{
			Filter: func(w *Widget) bool { _, ok := inf.Store().Get(lw.KeyOf(w)); return ok },
			Add: func(*Widget) {
				n++
				cancel()
				time.Sleep(time.Second) // Run waits for this call, and reg.Remove for nothing
				reg.Remove()
			},
		})
		before := time.Now()
		if err := inf.Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); n != 1 || took != time.Second {
			t.Errorf("%d calls in %v, want the one that was running", n, took)
		}
		<-reg.Done()
	})
}

// The functions that run in the goroutine that reads from the server may read the informer, too: an index's, a transform's and
// OnError.
func TestCallsFromTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		var inf *lw.Informer[*Widget]
		got := &calls{}
		look := func(what string) {
			s := inf.Status()
			if n := len(inf.Store().List()); n != s.Objects || n != inf.Store().Len() {
				t.Errorf("in %s: %d objects, Status counts %d, Len %d", what, n, s.Objects, inf.Store().Len())
			}
			got.note(what)
		}
		src := lw.Transform(m, func(w *Widget) (*Widget, error) { look("transform"); return w, nil })
		inf = lw.NewInformer(src, &lw.Options{OnError: func(error) {
			look("error")
			inf.AddHandler(lw.Handler[*Widget]{Synced: func() { got.note("synced") }})
		}})
		byName := lw.NewIndex(inf, func(w *Widget) string { look("index"); return w.Name })
		start(t, inf)
		got.mustBe(t, "transform", "index")
		update(t, m, "a", 2)
		got.mustBe(t, "transform", "index")
		m.Fail(errors.New("down"))
		got.mustBe(t, "error", "synced")
		m.Fail(nil)
		if byName.Len("a") != 1 {
			t.Errorf("the index holds %d", byName.Len("a"))
		}
	})
}

// No call starts after Remove: what a Filter that has removed its handler returns is of no consequence, nor is what one that is
// slow returns after somebody else has.
func TestRemoveInAFilter(t *testing.T) {
	all := []string{
		"filter a1", "add a1", "synced",
		"filter a1", "filter a2", "update a1 a2",
		"filter a2", "filter a2", "update a2 a2", // a resync
		"filter a2", "delete a2",
		"filter b1", "add b1",
	}
	for i, call := range all {
		if !strings.HasPrefix(call, "filter") {
			continue
		}
		for _, how := range []string{"by itself", "with OnPanic", "by another", "by the stop"} {
			t.Run(fmt.Sprintf("%d %s %s", i, call, how), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := lw.NewMemory(widget("a", 1))
					opts := &lw.Options{}
					if how == "with OnPanic" {
						opts.OnPanic = func(p *lw.Panic) { t.Error(p) }
					}
					inf := lw.NewInformer(m, opts)
					ctx, cancel := context.WithCancel(t.Context())
					ran := make(chan error, 1)
					go func() { ran <- inf.Run(ctx) }()
					synctest.Wait()

					got := &calls{}
					regs := make(chan *lw.Registration, 1)
					h := got.handler()
					h.Resync = time.Minute
					h.Filter = func(w *Widget) bool {
						if got.note("filter", w); got.len() != i+1 {
							return true
						}
						switch how {
						case "by another":
							removed := make(chan struct{})
							go func() { (<-regs).Remove(); close(removed) }()
							<-removed
						case "by the stop":
							cancel()
							time.Sleep(time.Second)
						default:
							(<-regs).Remove()
						}
						return true
					}
					reg := inf.AddHandler(h)
					regs <- reg
					synctest.Wait()
					update(t, m, "a", 2)
					sleep(time.Minute + time.Second)
					remove(t, m, "a")
					create(t, m, "b", 1)
					<-reg.Done()
					if err := reg.WaitForSync(t.Context()); (err == nil) != (i > 2) {
						t.Errorf("WaitForSync: %v", err)
					}
					if diff := cmp.Diff(all[:i+1], got.take()); diff != "" {
						t.Errorf("calls (-want +got):\n%s", diff)
					}
					cancel()
					<-ran
				})
			})
		}
	}
}

// EveryUpdate and a handler in time are told the same; the net effect of what a blocked one missed is told otherwise.
func TestEveryUpdate(t *testing.T) {
	for every, want := range map[bool]int{true: 3000, false: 0} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory[*Widget]()
				inf := run(t, m, nil)
				block := make(chan struct{})
				adds, deletes := 0, 0
				reg := inf.AddHandler(lw.Handler[*Widget]{
					EveryUpdate: every,
					Synced:      func() { <-block },
					Add:         func(*Widget) { adds++ },
					Delete:      func(*Widget) { deletes++ },
				})
				synctest.Wait()
				for i := range 3000 {
					create(t, m, "a", i)
					remove(t, m, "a")
					synctest.Wait()
				}
				close(block)
				synctest.Wait()
				// What has not been folded yet is told one by one: at most 1024 changes and a chunk.
				if adds != deletes || adds < want || adds > max(want, 640) {
					t.Errorf("%d Adds and %d Deletes of an object that came and went 3000 times, want about %d", adds, deletes, want)
				}
				if n := reg.Pending(); n != 0 {
					t.Errorf("%d changes pending", n)
				}
			})
		})
	}
}

// Pending counts what a handler has yet to be told, of its first list too.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1), widget("c", 1))
		inf := lw.NewInformer(m, nil)
		next := make(chan struct{})
		reg := inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { <-next }, Update: func(_, _ *Widget) { <-next }})
		if n := reg.Pending(); n != 0 {
			t.Errorf("%d changes pending before Run", n)
		}
		start(t, inf)
		synctest.Wait()
		update(t, m, "a", 2)
		for want := 4; want > 0; want-- {
			synctest.Wait()
			// A call that runs may count as told or not: an Add of the snapshot does not.
			if n := reg.Pending(); n != want && n != want-1 {
				t.Errorf("%d changes pending, want %d", n, want)
			}
			if n := inf.Status().Pending; n != reg.Pending() {
				t.Errorf("Status counts %d", n)
			}
			next <- struct{}{}
		}
		synctest.Wait()
		if n := reg.Pending(); n != 0 {
			t.Errorf("%d changes pending at the end", n)
		}

		// What comes while a call runs is handed over together, and none of it is forgotten before it is told.
		for size := range 4 {
			update(t, m, "b", 10+size)
		}
		for left := 4; left > 0; left-- {
			synctest.Wait()
			if n := reg.Pending(); n < left || n > 4 {
				t.Errorf("%d changes pending, want %d to 4", n, left)
			}
			next <- struct{}{}
		}
		synctest.Wait()
		if n := reg.Pending(); n != 0 {
			t.Errorf("%d changes pending at the end", n)
		}

		var leaves *lw.Registration
		leaves = inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { <-next; leaves.Remove() }})
		next <- struct{}{}
		<-leaves.Done()
		if n := leaves.Pending(); n != 0 {
			t.Errorf("%d changes pending for a handler that was removed", n)
		}
	})
}
