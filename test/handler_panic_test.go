package lw_test

import (
	"errors"
	"fmt"
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

// A Handler without a name is called "handler".
func TestPanicOfNamelessHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics []string
		inf := lw.NewInformer(lw.NewMemory(widget("a", 1)), &lw.Options{Name: "widgets", OnPanic: func(p *lw.Panic) { panics = append(panics, p.Error()) }})
		inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { panic("no good") }})
		start(t, inf)
		synctest.Wait()
		if diff := cmp.Diff([]string{"lw: widgets: handler panicked at default/a: no good"}, panics); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
