package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A sticker is what a projection leaves of a widget.
type sticker struct {
	lw.Meta
	Odd bool
}

func stick(w *rig.Widget) (*sticker, error) {
	return &sticker{Meta: lw.MetaOf(w), Odd: w.Size%2 == 1}, nil
}

// A projection's store, handlers and indexes have what it returns, also as the old object.
func TestTransformProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := lw.NewInformer(lw.Transform(m, stick), &lw.Options{OnError: func(error) {}})
		rig.Same(t, "phase", "idle", inf.Status().Phase)
		byOdd := lw.NewIndex(inf, func(s *sticker) bool { return s.Odd })
		var got []string
		inf.AddHandler(lw.Handler[*sticker]{
			Add:    func(s *sticker) { got = append(got, fmt.Sprint("add ", s.Name, s.Odd)) },
			Update: func(old, s *sticker) { got = append(got, fmt.Sprint("update ", s.Name, old.Odd, s.Odd)) },
			Delete: func(s *sticker) { got = append(got, fmt.Sprint("delete ", s.Name, s.Odd)) },
		})
		rig.Start(t, inf)
		synctest.Wait()
		rig.Update(t, m, "a", 2)
		synctest.Wait()
		rig.Same(t, "odd and even ones of the index", []int{0, 1}, []int{byOdd.Len(true), byOdd.Len(false)})
		rig.Remove(t, m, "a")
		synctest.Wait()
		rig.Same(t, "calls", []string{"add atrue", "update atrue false", "delete afalse"}, got)
	})
}

// What f leaves out is not there: an object that it left out and takes in is an Add, the other way
// round a Delete.
func TestTransformLeavesOut(t *testing.T) {
	odd := func(w *rig.Widget) (*rig.Widget, error) {
		if w.Size%2 == 0 {
			return nil, nil
		}
		return w, nil
	}
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
		rig.Subtest(t, string(mode), func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("in", 1), rig.NewWidget("out", 2))
			errs := &rig.Errors{}
			inf := rig.Run(t, lw.Transform(m, odd), &lw.Options{List: mode, OnError: errs.Add})
			got := &rig.Calls{}
			inf.AddHandler(got.Handler())
			got.MustBe(t, "add in1", "synced")
			rig.Update(t, m, "out", 3)
			rig.Update(t, m, "in", 2)
			got.MustBe(t, "add out3", "delete in1")
			rig.Update(t, m, "in", 4)
			rig.Remove(t, m, "in")
			rig.Create(t, m, "new", 2)
			rig.Remove(t, m, "new")
			got.MustBe(t)
			rig.Same(t, "version of the store", m.ResourceVersion(), inf.Store().ResourceVersion())
			errs.MustBeNone(t)
		})
	}
}

// Where f clears the version updates are told all the same, and a relist compares the objects.
func TestTransformStripsVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		strip := func(w *rig.Widget) (*rig.Widget, error) { w.ResourceVersion = ""; return w, nil }
		inf := rig.Run(t, lw.Transform(m, strip), &lw.Options{OnError: func(error) {}})
		got := &rig.Calls{}
		h := got.Handler()
		h.Resync = time.Hour
		inf.AddHandler(h)
		got.Sorted(t, "add a1", "add b1", "synced")
		for i := range 5 {
			rig.Update(t, m, "a", i+2)
		}
		got.MustBe(t, "update a1 a2", "update a2 a3", "update a3 a4", "update a4 a5", "update a5 a6")
		before, _ := inf.Store().Get(rig.Key("b"))
		rig.Relist(m, func() { rig.Update(t, m, "a", 7) })
		got.MustBe(t, "update a6 a7")
		if after, _ := inf.Store().Get(rig.Key("b")); after != before {
			t.Error("a relist replaced an object that did not change")
		}
		rig.Same(t, "version of the store", m.ResourceVersion(), inf.Store().ResourceVersion())
	})
}

// An error, and a result with another name or none, set the object aside under its own name.
func TestTransformFails(t *testing.T) {
	sick := errors.New("sick")
	for name, f := range map[string]func(*rig.Widget) (*rig.Widget, error){
		"error":             func(*rig.Widget) (*rig.Widget, error) { return nil, sick },
		"no name":           func(w *rig.Widget) (*rig.Widget, error) { w.Name = ""; return w, nil },
		"another name":      func(w *rig.Widget) (*rig.Widget, error) { w.Name = "good"; return w, nil },
		"another namespace": func(w *rig.Widget) (*rig.Widget, error) { w.Namespace = "other"; return w, nil },
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("bad", 1), rig.NewWidget("good", 1))
			errs := &rig.Errors{}
			inf := rig.Run(t, lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
				if w.Name == "bad" {
					return f(w)
				}
				return w, nil
			}), &lw.Options{OnError: errs.Add})
			rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"good": 1})
			rig.Update(t, m, "bad", 2)
			synctest.Wait()
			rig.Remove(t, m, "bad")
			synctest.Wait()
			// The deletion puts it right.
			rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"good": 1})
			rig.Same(t, "objects set aside", 0, len(inf.Status().SetAside))
			mustCount(t, errs, 2)
			for _, err := range errs.All() {
				var e *lw.Error
				if !errors.As(err, &e) || e.Op != "transform" || e.Key != rig.Key("bad") || e.Informer != "Widget" {
					t.Errorf("%v", err)
				}
				if name == "error" && !errors.Is(err, sick) {
					t.Errorf("%v does not unwrap to its cause", err)
				}
			}
		})
	}
}

// Transforms of transforms: each runs once.
func TestTransformTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		n := 0
		double := func(w *rig.Widget) (*rig.Widget, error) { n++; w.Size *= 2; return w, nil }
		inf := rig.Run(t, lw.Transform(lw.Transform(m, double), double), nil)
		rig.Update(t, m, "a", 3)
		synctest.Wait()
		rig.MustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 12})
		rig.Same(t, "calls", 4, n)
		rig.Same(t, "size of the source's own object", 3, rig.Must[*rig.Widget](t)(m.Get(t.Context(), rig.Key("a"))).Size)
	})
}

// What is kept is forgotten at the end of a whole list only: not at a bookmark in the middle of a
// stream that breaks later.
func TestTransformRemembersThroughABrokenStream(t *testing.T) {
	inner := &rig.Script{
		Lists: []rig.Reply{listed("10", "a1@9 b2@8")},
		OnStream: func() rig.Stream {
			return rig.Stream{Events: []widgetEvent{rig.Added("b", "8"), rig.Bookmark("10")}}
		},
	}
	hasAll := lw.SourceHints{StillHas: func(context.Context, lw.Meta, string) (bool, error) { return true, nil }}
	src := lw.Transform(&hinted{inner, hasAll}, func(w *rig.Widget) (*rig.Widget, error) {
		if w.Name == "a" {
			return nil, lw.ErrKeep
		}
		return w, nil
	})
	read(t, src)
	initial := metav1.ListOptions{SendInitialEvents: new(true)}
	rig.OK(t, src.Watch(t.Context(), initial, func(widgetEvent) error { return nil }))
	mustWitness(t, src, rig.NewWidget("a", 1), "10", errors.ErrUnsupported)
}

// A beforeProbe calls do before it answers a probe. It is no witness, so it is probed.
type beforeProbe struct {
	lw.Source[*rig.Widget]
	do func()
}

func (b beforeProbe) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	if opts.Limit == 1 {
		b.do()
	}
	return b.Source.List(ctx, opts, yield)
}

// A probe is no list: nothing is forgotten, though it may look whole, and nothing is transformed.
func TestTransformOfAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		created := false
		src := beforeProbe{m, func() {
			rig.Remove(t, m, "a")
			rig.Create(t, m, "b", 1)
			created = true
		}}
		transformed := map[string]int{}
		inf := lw.NewInformer(lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
			transformed[w.Name]++
			return w, nil
		}), &lw.Options{OnError: func(err error) { t.Error(err) }})
		rig.Start(t, inf)
		rig.Sleep(20 * time.Second)
		m.Disconnect()
		rig.Sleep(10 * time.Minute)
		if !created {
			t.Fatal("there was no probe")
		}
		rig.Same(t, "store", map[lw.Key]int{rig.Key("b"): 1}, rig.Sizes(inf.Store()))
		rig.Same(t, "transformed", map[string]int{"a": 1, "b": 1}, transformed)
	})
}

// A Transform passes a witness's question on if its objects keep the source's identity.
func TestTransformOfAWitness(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 1))
	rig.Update(t, m, "a", 2)
	for name, tc := range map[string]struct {
		f    func(*rig.Widget)
		ask  func(id *lw.Meta)
		want string
	}{
		"the same":             {func(*rig.Widget) {}, func(*lw.Meta) {}, "true <nil>"},
		"another version":      {func(*rig.Widget) {}, func(id *lw.Meta) { id.ResourceVersion = "2" }, "false <nil>"},
		"another UID":          {func(*rig.Widget) {}, func(id *lw.Meta) { id.UID = "x" }, "false <nil>"},
		"another name":         {func(*rig.Widget) {}, func(id *lw.Meta) { id.Name = "b" }, "false <nil>"},
		"a UID of its own":     {func(w *rig.Widget) { w.UID = "own" }, func(*lw.Meta) {}, "true <nil>"},
		"a version of its own": {func(w *rig.Widget) { w.ResourceVersion = "1" }, func(*lw.Meta) {}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			src := lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) { tc.f(w); return w, nil })
			var id lw.Meta
			meta, err := src.List(t.Context(), metav1.ListOptions{},
				func(w *rig.Widget, err error) error { id = lw.MetaOf(w); return err })
			rig.OK(t, err)
			tc.ask(&id)
			got := "none"
			if ask := lw.HintsOf(src).StillHas; ask != nil {
				had, err := ask(t.Context(), id, meta.ResourceVersion)
				got = fmt.Sprint(had, " ", err)
			}
			rig.Same(t, "had", tc.want, got)
		})
	}
}
