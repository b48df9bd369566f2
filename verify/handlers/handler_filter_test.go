package handlers_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What a filter makes of a change, for each way that the objects before and after can stand to it.
func TestFilterMatrix(t *testing.T) {
	odd := func(w *rig.Widget) bool { return w.Size%2 == 1 }
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
			rig.Subtest(t, name+", "+when, func(t *testing.T) {
				m := lw.NewMemory[*rig.Widget]()
				sizes := tc.sizes
				if when == "listed" {
					rig.Create(t, m, "a", sizes[0])
					sizes = sizes[1:]
				}
				inf := rig.Run(t, m, nil)
				got, changes := &rig.Calls{}, &rig.Calls{}
				h, one := got.Handler(), changes.OfChanges()
				h.Filter, h.Synced, one.Filter = odd, nil, odd
				inf.AddHandler(h)
				inf.AddHandler(one)
				synctest.Wait()
				for _, size := range sizes {
					if _, err := m.Get(t.Context(), rig.Key("a")); size == 0 {
						rig.Remove(t, m, "a")
					} else if err == nil {
						rig.Update(t, m, "a", size)
					} else {
						rig.Create(t, m, "a", size)
					}
					synctest.Wait()
				}
				got.MustBe(t, tc.want...)
				changes.MustBe(t, tc.want...)
			})
		}
	}
}

// No call starts after Remove: what a Filter that has removed its handler returns is of no
// consequence, nor is what one that is slow returns after somebody else has.
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
			rig.Subtest(t, fmt.Sprintf("%d %s %s", i, call, how), func(t *testing.T) {
				m := lw.NewMemory(rig.NewWidget("a", 1))
				opts := &lw.Options{}
				if how == "with OnPanic" {
					opts.OnPanic = func(p *lw.Panic) { t.Error(p) }
				}
				inf := lw.NewInformer(m, opts)
				stop := sync.OnceFunc(rig.Begin(t, inf))
				got := &rig.Calls{}
				regs := make(chan *lw.Registration, 1)
				h := got.Handler()
				h.Resync = time.Minute
				h.Filter = func(w *rig.Widget) bool {
					if got.Note("filter", w); got.Len() != i+1 {
						return true
					}
					switch how {
					case "by another":
						removed := make(chan struct{})
						go func() { (<-regs).Remove(); close(removed) }()
						<-removed
					case "by the stop":
						go stop() // Run waits for this call
						time.Sleep(time.Second)
					default:
						(<-regs).Remove()
					}
					return true
				}
				reg := inf.AddHandler(h)
				regs <- reg
				synctest.Wait()
				rig.Update(t, m, "a", 2)
				rig.Sleep(time.Minute + time.Second)
				rig.Remove(t, m, "a")
				rig.Create(t, m, "b", 1)
				<-reg.Done()
				if err := reg.WaitForSync(t.Context()); (err == nil) != (i > 2) {
					t.Errorf("WaitForSync: %v", err)
				}
				rig.Same(t, "calls", all[:i+1], got.Take())
				stop()
			})
		}
	}
}

// With OnPanic a panic costs the one call in which it happened: neither the handler nor its sync
// waits for it.
func TestOnPanic(t *testing.T) {
	cause := errors.New("no good")
	var panics []*lw.Panic
	opts := &lw.Options{Name: "widgets", OnPanic: func(p *lw.Panic) { panics = append(panics, p) }}
	beforeRun(t, "a1 b1", opts, func(t *testing.T, m memory, inf informer) {
		got := &rig.Calls{}
		h := got.Handler()
		h.Name = "fragile"
		failing := func(f func(*rig.Widget)) func(*rig.Widget) {
			return func(w *rig.Widget) {
				if w.Name == "a" {
					panic(cause)
				}
				f(w)
			}
		}
		h.Add, h.Delete = failing(h.Add), failing(h.Delete)
		told := h.Update
		h.Update = func(old, w *rig.Widget) { told(old, w); panic("after " + w.Name) }
		h.Synced = func() { got.Note("synced"); panic("synced") }
		reg := inf.AddHandler(h)
		rig.Start(t, inf)
		got.MustBe(t, "add b1", "synced")
		rig.OK(t, reg.WaitForSync(t.Context()))
		rig.Update(t, m, "a", 2)
		rig.Remove(t, m, "a")
		rig.Remove(t, m, "b")
		got.MustBe(t, "update a1 a2", "delete b1")
		type seen struct {
			Informer, Handler, Value string
			Key                      lw.Key
		}
		var values []seen
		for _, p := range panics {
			if len(p.Stack) == 0 || !strings.Contains(p.Error(), "fragile") {
				t.Errorf("%v has stack %q", p, p.Stack)
			}
			values = append(values, seen{p.Informer, p.Handler, fmt.Sprint(p.Value), p.Key})
		}
		want := []seen{
			{"widgets", "fragile", "no good", rig.Key("a")},
			{"widgets", "fragile", "synced", lw.Key{}},
			{"widgets", "fragile", "after a", rig.Key("a")},
			{"widgets", "fragile", "no good", rig.Key("a")},
		}
		rig.Same(t, "panics", want, values)
		if len(panics) == 0 || !errors.Is(panics[0], cause) {
			t.Error("a Panic does not unwrap to the error that it was made of")
		}
	})
}

// The same of a Filter, whose object the handler then is not told of.
func TestOnPanicInFilter(t *testing.T) {
	panics := 0
	inMemory(t, "a1 b1", &lw.Options{OnPanic: func(*lw.Panic) { panics++ }}, func(t *testing.T, _ memory, inf informer) {
		got := &rig.Calls{}
		h := got.Handler()
		h.Filter = func(w *rig.Widget) bool {
			if w.Name == "a" {
				panic("a")
			}
			return true
		}
		inf.AddHandler(h)
		got.MustBe(t, "add b1", "synced")
		rig.Same(t, "panics", 1, panics)
	})
}

// A Handler without a name is called "handler".
func TestPanicOfNamelessHandler(t *testing.T) {
	var panics []string
	opts := &lw.Options{Name: "widgets", OnPanic: func(p *lw.Panic) { panics = append(panics, p.Error()) }}
	inMemory(t, "a1", opts, func(t *testing.T, _ memory, inf informer) {
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { panic("no good") }})
		synctest.Wait()
		rig.Same(t, "panics", []string{"lw: widgets: handler panicked at default/a: no good"}, panics)
	})
}
