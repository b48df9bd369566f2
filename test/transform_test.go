package lw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// A sticker is what a projection leaves of a widget.
type sticker struct {
	lw.Meta
	Odd bool
}

func stick(w *Widget) (*sticker, error) {
	return &sticker{Meta: lw.MetaOf(w), Odd: w.Size%2 == 1}, nil
}

// A projection's store, handlers and indexes hold what it returns, and old is what it returned before.
func TestTransformProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := lw.NewInformer(lw.Transform(m, stick), &lw.Options{OnError: func(error) {}})
		if got, want := fmt.Sprint(inf.Status().Phase), "idle"; got != want {
			t.Errorf("phase %s", got)
		}
		byOdd := lw.NewIndex(inf, func(s *sticker) bool { return s.Odd })
		var got []string
		inf.AddHandler(lw.Handler[*sticker]{
			Add:    func(s *sticker) { got = append(got, fmt.Sprint("add ", s.Name, s.Odd)) },
			Update: func(old, s *sticker) { got = append(got, fmt.Sprint("update ", s.Name, old.Odd, s.Odd)) },
			Delete: func(s *sticker) { got = append(got, fmt.Sprint("delete ", s.Name, s.Odd)) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		synctest.Wait()
		update(t, m, "a", 2)
		synctest.Wait()
		if byOdd.Len(true) != 0 || byOdd.Len(false) != 1 {
			t.Errorf("index: %d odd, %d even", byOdd.Len(true), byOdd.Len(false))
		}
		remove(t, m, "a")
		synctest.Wait()
		if diff := cmp.Diff([]string{"add atrue", "update atrue false", "delete afalse"}, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		cancel()
		<-ran
	})
}

// What f leaves out is not there: an object that it left out and takes in is an Add, the other way round a Delete.
func TestTransformLeavesOut(t *testing.T) {
	odd := func(w *Widget) (*Widget, error) {
		if w.Size%2 == 0 {
			return nil, nil
		}
		return w, nil
	}
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(widget("in", 1), widget("out", 2))
				errs := &errorLog{}
				inf := run(t, lw.Transform(m, odd), &lw.Options{List: mode, OnError: errs.add})
				got := &calls{}
				inf.AddHandler(got.handler())
				got.mustBe(t, "add in1", "synced")
				update(t, m, "out", 3)
				update(t, m, "in", 2)
				got.mustBe(t, "add out3", "delete in1")
				update(t, m, "in", 4)
				remove(t, m, "in")
				create(t, m, "new", 2)
				remove(t, m, "new")
				got.mustBe(t)
				if rv := inf.Store().ResourceVersion(); rv != m.ResourceVersion() {
					t.Errorf("the store is at %s, want %s: an event that is left out moves the version", rv, m.ResourceVersion())
				}
				if len(errs.all()) != 0 {
					t.Errorf("errors: %v", errs.all())
				}
			})
		})
	}
}

// Where f clears the resource version updates are told all the same, and a relist compares the objects.
func TestTransformStripsVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		strip := func(w *Widget) (*Widget, error) { w.ResourceVersion = ""; return w, nil }
		inf := run(t, lw.Transform(m, strip), &lw.Options{OnError: func(error) {}})
		got := &calls{}
		h := got.handler()
		h.Resync = time.Hour
		inf.AddHandler(h)
		got.sorted(t, "add a1", "add b1", "synced")
		for i := range 5 {
			update(t, m, "a", i+2)
		}
		got.mustBe(t, "update a1 a2", "update a2 a3", "update a3 a4", "update a4 a5", "update a5 a6")
		before, _ := inf.Store().Get(key("b"))
		m.Fail(errors.New("down"))
		update(t, m, "a", 7)
		m.Compact()
		m.Fail(nil)
		sleep(time.Minute)
		got.mustBe(t, "update a6 a7")
		if after, _ := inf.Store().Get(key("b")); after != before {
			t.Error("a relist replaced an object that did not change")
		}
		if rv := inf.Store().ResourceVersion(); rv != m.ResourceVersion() {
			t.Errorf("the store is at %s, want %s", rv, m.ResourceVersion())
		}
	})
}

// An error, and a result with another name or none, set the object aside under its own name; the others are there.
func TestTransformFails(t *testing.T) {
	sick := errors.New("sick")
	for name, f := range map[string]func(*Widget) (*Widget, error){
		"error":             func(*Widget) (*Widget, error) { return nil, sick },
		"no name":           func(w *Widget) (*Widget, error) { w.Name = ""; return w, nil },
		"another name":      func(w *Widget) (*Widget, error) { w.Name = "good"; return w, nil },
		"another namespace": func(w *Widget) (*Widget, error) { w.Namespace = "other"; return w, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(widget("bad", 1), widget("good", 1))
				errs := &errorLog{}
				inf := run(t, lw.Transform(m, func(w *Widget) (*Widget, error) {
					if w.Name == "bad" {
						return f(w)
					}
					return w, nil
				}), &lw.Options{OnError: errs.add})
				mustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"good": 1})
				update(t, m, "bad", 2)
				synctest.Wait()
				remove(t, m, "bad")
				synctest.Wait()
				// The deletion puts it right.
				mustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"good": 1})
				if n := len(inf.Status().SetAside); n != 0 {
					t.Errorf("%d objects are set aside", n)
				}
				if n := len(errs.all()); n != 2 {
					t.Errorf("%d errors, want one for each bad version: %v", n, errs.all())
				}
				for _, err := range errs.all() {
					var e *lw.Error
					if !errors.As(err, &e) || e.Op != "transform" || e.Key != key("bad") || e.Informer != "Widget" {
						t.Errorf("%v", err)
					}
					if name == "error" && !errors.Is(err, sick) {
						t.Errorf("%v does not unwrap to its cause", err)
					}
				}
			})
		})
	}
}

// Transforms of transforms: each runs once.
func TestTransformTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		n := 0
		double := func(w *Widget) (*Widget, error) { n++; w.Size *= 2; return w, nil }
		inf := run(t, lw.Transform(lw.Transform(m, double), double), nil)
		update(t, m, "a", 3)
		synctest.Wait()
		mustHold(t, inf.Store(), m.ResourceVersion(), map[string]int{"a": 12})
		if n != 4 {
			t.Errorf("%d calls, want 4", n)
		}
		if w, _ := m.Get(key("a")); w.Size != 3 {
			t.Errorf("the source's own object was changed to %d", w.Size)
		}
	})
}

// What is kept is forgotten at the end of a whole list only: not at a bookmark in the middle of a stream that breaks later.
func TestTransformRemembersThroughABrokenStream(t *testing.T) {
	inner := &script{
		lists:  []reply{list("10", stamped("a", 1, "9"), stamped("b", 2, "8"))},
		stream: func() stream { return stream{events: []lw.WatchEvent[*Widget]{added("b", "8"), bookmark("10")}} },
	}
	src := lw.Transform[*Widget](hasAll{inner}, func(w *Widget) (*Widget, error) {
		if w.Name == "a" {
			return nil, lw.ErrKeep
		}
		return w, nil
	})
	if _, err := src.List(t.Context(), metav1.ListOptions{}, func(*Widget, error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	initial := metav1.ListOptions{SendInitialEvents: new(bool)}
	*initial.SendInitialEvents = true
	if err := src.Watch(t.Context(), initial, func(lw.WatchEvent[*Widget]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := lw.HintsOf(src).Had(t.Context(), lw.MetaOf(widget("a", 1)), "10"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("what is kept is a witness: %v", err)
	}
}

// A hasAll is a source whose server had whatever it is asked about.
type hasAll struct{ lw.Source[*Widget] }

func (hasAll) Hints() lw.SourceHints {
	return lw.SourceHints{Had: func(context.Context, lw.Meta, string) (bool, error) { return true, nil }}
}

// A beforeProbe calls do before it answers a probe. It is no witness, so it is probed.
type beforeProbe struct {
	lw.Source[*Widget]
	do func()
}

func (b beforeProbe) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	if opts.Limit == 1 {
		b.do()
	}
	return b.Source.List(ctx, opts, yield)
}

// A probe is no list of the collection: nothing is forgotten, though it may look whole, and nothing is transformed.
func TestTransformOfAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		created := false
		src := beforeProbe{m, func() {
			remove(t, m, "a")
			create(t, m, "b", 1)
			created = true
		}}
		transformed := map[string]int{}
		inf := lw.NewInformer(lw.Transform(src, func(w *Widget) (*Widget, error) {
			transformed[w.Name]++
			return w, nil
		}), &lw.Options{OnError: func(err error) { t.Error(err) }})
		start(t, inf)
		sleep(20 * time.Second)
		m.Disconnect()
		sleep(10 * time.Minute)
		if !created {
			t.Fatal("there was no probe")
		}
		if diff := cmp.Diff(map[lw.Key]int{key("b"): 1}, sizes(inf.Store())); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, transformed); diff != "" {
			t.Errorf("transformed (-want +got):\n%s", diff)
		}
	})
}

// A Transform passes the question of a witness on as far as its objects keep the identity that the source knows.
func TestTransformOfAWitness(t *testing.T) {
	m := lw.NewMemory(widget("a", 1))
	w := update(t, m, "a", 2)
	for name, tc := range map[string]struct {
		f    func(*Widget)
		ask  func(id *lw.Meta)
		want string
	}{
		"the same":             {func(*Widget) {}, func(*lw.Meta) {}, "true <nil>"},
		"another version":      {func(*Widget) {}, func(id *lw.Meta) { id.ResourceVersion = "2" }, "false <nil>"},
		"another UID":          {func(*Widget) {}, func(id *lw.Meta) { id.UID = "x" }, "false <nil>"},
		"another name":         {func(*Widget) {}, func(id *lw.Meta) { id.Name = "b" }, "false <nil>"},
		"a UID of its own":     {func(w *Widget) { w.UID = "own" }, func(*lw.Meta) {}, "true <nil>"},
		"a version of its own": {func(w *Widget) { w.ResourceVersion = "1" }, func(*lw.Meta) {}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			src := lw.Transform(m, func(w *Widget) (*Widget, error) { tc.f(w); return w, nil })
			var id lw.Meta
			meta, err := src.List(t.Context(), metav1.ListOptions{}, func(w *Widget, err error) error { id = lw.MetaOf(w); return err })
			if err != nil {
				t.Fatal(err)
			}
			tc.ask(&id)
			got := "none"
			if ask := lw.HintsOf(src).Had; ask != nil {
				had, err := ask(t.Context(), id, meta.ResourceVersion)
				got = fmt.Sprint(had, " ", err)
			}
			if got != tc.want {
				t.Errorf("had %+v, as %+v: %s, want %s", id, w, got, tc.want)
			}
		})
	}
}
