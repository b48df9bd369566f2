package handlers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// With OnPanic a panic costs the one call in which it happened: neither the handler nor its sync waits for it.
func TestOnPanic(t *testing.T) {
	cause := errors.New("no good")
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		var panics []*lw.Panic
		inf := lw.NewInformer(m, &lw.Options{Name: "widgets", OnPanic: func(p *lw.Panic) { panics = append(panics, p) }})
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
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
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
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		panics := 0
		inf := rig.Run(t, m, &lw.Options{OnPanic: func(*lw.Panic) { panics++ }})
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
		if panics != 1 {
			t.Errorf("%d panics, want 1", panics)
		}
	})
}

// A Handler without a name is called "handler".
func TestPanicOfNamelessHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics []string
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{Name: "widgets", OnPanic: func(p *lw.Panic) { panics = append(panics, p.Error()) }})
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { panic("no good") }})
		rig.Start(t, inf)
		synctest.Wait()
		if diff := cmp.Diff([]string{"lw: widgets: handler panicked at default/a: no good"}, panics); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
