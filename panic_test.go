package lw_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// With OnPanic a panic costs the one call in which it happened: neither the handler nor its sync waits for it.
func TestOnPanic(t *testing.T) {
	cause := errors.New("no good")
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		var panics []*lw.Panic
		inf := lw.NewInformer(m, &lw.Options{Name: "widgets", OnPanic: func(p *lw.Panic) { panics = append(panics, p) }})
		got := &calls{}
		h := got.handler()
		h.Name = "fragile"
		failing := func(f func(*Widget)) func(*Widget) {
			return func(w *Widget) {
				if w.Name == "a" {
					panic(cause)
				}
				f(w)
			}
		}
		h.Add, h.Delete = failing(h.Add), failing(h.Delete)
		told := h.Update
		h.Update = func(old, w *Widget) { told(old, w); panic("after " + w.Name) }
		h.Synced = func() { got.note("synced"); panic("synced") }
		reg := inf.AddHandler(h)
		start(t, inf)
		got.mustBe(t, "add b1", "synced")
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		update(t, m, "a", 2)
		remove(t, m, "a")
		remove(t, m, "b")
		got.mustBe(t, "update a1 a2", "delete b1")
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
			{"widgets", "fragile", "no good", key("a")},
			{"widgets", "fragile", "synced", lw.Key{}},
			{"widgets", "fragile", "after a", key("a")},
			{"widgets", "fragile", "no good", key("a")},
		}
		if diff := cmp.Diff(want, values); diff != "" {
			t.Fatalf("panics (-want +got):\n%s", diff)
		}
		if !errors.Is(panics[0], cause) {
			t.Error("a Panic does not unwrap to the error that it was made of")
		}
	})
}

// The same of a Filter, whose object the handler then is not told of.
func TestOnPanicInFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		panics := 0
		inf := run(t, m, &lw.Options{OnPanic: func(*lw.Panic) { panics++ }})
		got := &calls{}
		h := got.handler()
		h.Filter = func(w *Widget) bool {
			if w.Name == "a" {
				panic("a")
			}
			return true
		}
		inf.AddHandler(h)
		got.mustBe(t, "add b1", "synced")
		if panics != 1 {
			t.Errorf("%d panics, want 1", panics)
		}
	})
}

// With OnPanic an object that an index panics at is set aside, by a list and by an event; store and indexes stay consistent.
func TestOnPanicInIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("bad", -1))
		var panics []lw.Key
		errs := &errorLog{}
		inf := lw.NewInformer(m, &lw.Options{OnError: errs.add, OnPanic: func(p *lw.Panic) { panics = append(panics, p.Key) }})
		bySize := lw.NewIndex(inf, func(w *Widget) int {
			if w.Size < 0 {
				panic("negative")
			}
			return w.Size
		})
		got := &calls{}
		inf.AddHandler(got.handler())
		start(t, inf)
		got.mustBe(t, "add a1", "synced")
		if diff := cmp.Diff([]lw.Key{key("bad")}, panics); diff != "" {
			t.Errorf("panicked at (-want +got):\n%s", diff)
		}
		var e *lw.Error
		if err := inf.Status().SetAside[key("bad")]; !errors.As(err, &e) || e.Op != "index" {
			t.Errorf("set aside: %v", err)
		}
		update(t, m, "a", -1)
		got.mustBe(t)
		if w, ok := inf.Store().Get(key("a")); !ok || w.Size != 1 || !slices.Contains(bySize.List(1), w) {
			t.Errorf("the store holds %v, the index %v", w, bySize.List(1))
		}
		update(t, m, "a", 2)
		update(t, m, "bad", 3)
		got.mustBe(t, "update a1 a2", "add bad3")
		if n := len(inf.Status().SetAside); n != 0 || bySize.Len(1) != 0 || bySize.Len(2) != 1 || bySize.Len(3) != 1 {
			t.Errorf("%d objects are set aside, index: %d, %d, %d", n, bySize.Len(1), bySize.Len(2), bySize.Len(3))
		}
		if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); err != nil {
			t.Error(err)
		}
	})
}
