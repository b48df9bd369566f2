package source_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

var errBadWidget = errors.New("it is bad")

// picky is src of which a widget of size 7 cannot be used, one of size 8 is left out, and one of
// size 9 is kept as it was.
func picky(src lw.Source[*rig.Widget]) lw.Source[*rig.Widget] {
	return lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
		switch w.Size {
		case 7:
			return nil, errBadWidget
		case 8:
			return nil, nil
		case 9:
			return nil, lw.ErrKeep
		}
		return w, nil
	})
}

// An event of an object that is being read comes together with another one, and an index takes a
// while for that. Meanwhile the read ends, and has found nothing: the event is not lost.
func TestWantedEventDuringEmptyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a"), &lw.KeySet{}
		keys.Set("me", rig.Key("a"))
		inf := lw.NewInformer(lw.Wanted[*rig.Widget](src, keys), &lw.Options{List: lw.ListWhole})
		var slow atomic.Bool
		lw.NewIndex(inf, func(w *rig.Widget) int {
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return w.Size
		})
		rig.Start(t, inf)
		src.set(func() { src.after = 2 * time.Second })
		keys.Set("me", rig.Key("a"), rig.Key("b"))
		rig.Sleep(1500 * time.Millisecond)
		slow.Store(true)
		rig.Must[string](t)(src.Transact(t.Context(), []*rig.Widget{rig.NewWidget("a", 2), rig.NewWidget("b", 5)}))
		rig.Sleep(time.Hour)
		rig.Same(t, "shown", "a:there=2 b:there=5", shown(inf, "a", "b"))
	})
}

// The reported version waits for an object that is set aside, and for no longer than it is wanted.
func TestWantedIsLetGoWhileSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a", "b"), &lw.KeySet{}
		keys.Set("me", rig.Key("a"), rig.Key("b"))
		inf := lw.NewInformer(lw.Wanted(picky(src), keys), &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		rig.Start(t, inf)
		rig.Sleep(time.Minute)
		before := rig.Must[string](t)(src.Transact(t.Context(), []*rig.Widget{rig.NewWidget("b", 7)}))
		rig.Sleep(time.Second)
		mustSay(t, inf, func(s lw.Status) bool { return len(s.SetAside) == 1 && s.ResourceVersion != before })
		keys.Set("me", rig.Key("a"))
		rig.Sleep(time.Second)
		now := rig.Must[string](t)(src.Transact(t.Context(), []*rig.Widget{rig.NewWidget("a", 2)}))
		rig.Sleep(time.Second)
		mustSay(t, inf, func(s lw.Status) bool { return len(s.SetAside) == 0 && s.ResourceVersion == now })
	})
}

// A list is compared, which takes an index a while, when a read ends that is newer and has found
// nothing, or when the program is told of the object: what the list has does not come back.
func TestWantedListDuringRead(t *testing.T) {
	for name, told := range map[string]bool{"an empty read": false, "told, and then an empty read": true} {
		rig.Subtest(t, name, func(t *testing.T) {
			src, keys := newDistant("a", "b"), &lw.KeySet{}
			keys.Set("me", rig.Key("a"))
			inf := lw.NewInformer(lw.Wanted[*rig.Widget](src, keys), &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			var slow atomic.Bool
			lw.NewIndex(inf, func(w *rig.Widget) int {
				if slow.Load() {
					time.Sleep(10 * time.Second)
				}
				return w.Size
			})
			rig.Start(t, inf)
			synctest.Wait()
			// The server sees the read of b after 10 s, and answers it after 30. The list sees b, and is
			// answered after 20 s; then the index takes 10 s for b.
			src.set(func() { src.before, src.after = 10*time.Second, 20*time.Second })
			keys.Set("me", rig.Key("a"), rig.Key("b"))
			synctest.Wait()
			src.set(func() { src.before = 0 })
			src.breakWatch(true)
			rig.Sleep(6 * time.Second)
			slow.Store(true)
			if told {
				at := rig.Update(t, src.Memory, "b", 3)
				rig.Sleep(18 * time.Second)
				rig.OK(t, inf.Tell(at))
			}
			rig.Remove(t, src.Memory, "b")
			rig.Sleep(54 * time.Second)
			slow.Store(false)
			rig.Sleep(time.Hour)
			rig.Same(t, "shown", "a:there=1 b:absent", shown(inf, "a", "b"))
		})
	}
}

// TestWantedUnusable: in whatever order an object is wanted and cannot be used, who waits for it
// learns why, and as long as that is so.
func TestWantedUnusable(t *testing.T) {
	type world struct {
		t    *testing.T
		src  *distant
		keys *lw.KeySet
		inf  *lw.Informer[*rig.Widget]
	}
	want := func(w *world, names ...string) {
		var keys []lw.Key
		for _, name := range names {
			keys = append(keys, rig.Key(name))
		}
		w.keys.Set("test", keys...)
		synctest.Wait()
	}
	starts := map[string]func(w *world){
		"before the first list": func(w *world) {
			rig.Update(w.t, w.src.Memory, "a", 7)
			want(w, "a", "b")
			rig.Start(w.t, w.inf)
		},
		"after it": func(w *world) {
			rig.Start(w.t, w.inf)
			rig.Update(w.t, w.src.Memory, "a", 7)
			want(w, "a", "b")
		},
		"by one list of many": func(w *world) {
			rig.Start(w.t, w.inf)
			rig.Update(w.t, w.src.Memory, "a", 7)
			names := strings.Fields("c d e f g h i j k l m n o p q r s t")
			want(w, append(names, "a", "b")...)
		},
		"read before the watch has it": func(w *world) {
			rig.Start(w.t, w.inf)
			synctest.Wait() // the watch is open
			w.src.set(func() { w.src.lag = time.Minute })
			rig.Update(w.t, w.src.Memory, "a", 6)
			rig.Update(w.t, w.src.Memory, "a", 7)
			want(w, "a", "b")
			w.src.set(func() { w.src.lag = 0 })
		},
		"created later": func(w *world) {
			rig.Remove(w.t, w.src.Memory, "a")
			want(w, "a", "b")
			rig.Start(w.t, w.inf)
			rig.Create(w.t, w.src.Memory, "a", 7)
		},
		"created during the read": func(w *world) {
			rig.Remove(w.t, w.src.Memory, "a")
			rig.Start(w.t, w.inf)
			w.src.set(func() { w.src.after = time.Second })
			want(w, "a", "b")
			rig.Create(w.t, w.src.Memory, "a", 7)
			rig.Sleep(2 * time.Second)
			w.src.set(func() { w.src.after = 0 })
		},
		"after a relist": func(w *world) {
			rig.Start(w.t, w.inf)
			rig.Update(w.t, w.src.Memory, "a", 7)
			want(w, "a", "b")
			w.src.breakWatch(true)
			rig.Sleep(time.Minute)
		},
	}
	ends := map[string]struct {
		do   func(w *world)
		want string
	}{
		"deleted":  {func(w *world) { rig.Remove(w.t, w.src.Memory, "a") }, "a:absent b:there=1"},
		"usable":   {func(w *world) { rig.Update(w.t, w.src.Memory, "a", 2) }, "a:there=2 b:there=1"},
		"left out": {func(w *world) { rig.Update(w.t, w.src.Memory, "a", 8) }, "a:absent b:there=1"},
		"kept":     {func(w *world) { rig.Update(w.t, w.src.Memory, "a", 9) }, "a:absent b:there=1"},
		"deleted, as a list shows": {func(w *world) {
			w.src.set(func() { w.src.lag = time.Hour })
			rig.Remove(w.t, w.src.Memory, "a")
			w.src.breakWatch(true)
			rig.Sleep(time.Minute)
		}, "a:absent b:there=1"},
		"told of a deletion": {func(w *world) {
			w.src.set(func() { w.src.lag = time.Hour })
			at := rig.Must[*rig.Widget](w.t)(w.src.Get(w.t.Context(), rig.Key("a")))
			rig.Remove(w.t, w.src.Memory, "a")
			rig.OK(w.t, w.inf.TellDeleted(rig.Key("a"), at.UID, w.src.ResourceVersion()))
		}, "a:absent b:there=1"},
		"let go, and wanted again": {func(w *world) {
			want(w, "b")
			rig.Remove(w.t, w.src.Memory, "a")
			want(w, "a", "b")
		}, "a:absent b:there=1"},
	}
	for start, begin := range starts {
		for end, tt := range ends {
			rig.Subtest(t, start+", "+end, func(t *testing.T) {
				w := &world{t: t, src: newDistant("a", "b"), keys: &lw.KeySet{}}
				w.inf = lw.NewInformer(lw.Wanted(picky(w.src), w.keys), &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
				begin(w)
				rig.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for range 2 {
					mustEnd(t, "WaitForKey of what cannot be used", errBadWidget, w.inf.WaitForKey(ctx, rig.Key("a")))
					rig.OK(t, w.inf.WaitForKey(ctx, rig.Key("b")))
				}
				rig.Same(t, "shown", "a:absent b:there=1", shown(w.inf, "a", "b"))
				tt.do(w)
				rig.Sleep(2 * time.Minute) // what the watch still has comes after one
				rig.Same(t, "in the end", tt.want, shown(w.inf, "a", "b"))
				rig.OK(t, w.inf.WaitForKey(ctx, rig.Key("a")))
			})
		}
	}
}

// An event that cannot be used comes during the read, which is older: what was read stays.
func TestWantedUnusableEventDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a", "b"), &lw.KeySet{}
		inf := rig.Run(t, lw.Wanted(picky(src), keys), &lw.Options{OnError: func(error) {}})
		src.set(func() { src.after = time.Second })
		keys.Set("me", rig.Key("a"))
		synctest.Wait()
		rig.Update(t, src.Memory, "a", 7)
		rig.Sleep(2 * time.Second)
		rig.Same(t, "shown", "a:there=1", shown(inf, "a"))
		rig.OK(t, inf.WaitForKey(t.Context(), rig.Key("a")))
	})
}

// An object of a namespace that cannot be used says nothing of the others.
func TestWantedUnusableOfNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, set := newDistant("a", "b"), &lw.NamespaceSet{}
		rig.Update(t, src.Memory, "a", 7)
		inf := rig.Run(t, lw.Wanted(picky(src), set), &lw.Options{OnError: func(error) {}})
		set.Set("me", "default")
		synctest.Wait()
		mustEnd(t, "the object", errBadWidget, inf.WaitForKey(t.Context(), rig.Key("a")))
		for _, key := range []lw.Key{rig.Key("b"), rig.Key("none"), {Namespace: "default"}} {
			rig.OK(t, inf.WaitForKey(t.Context(), key))
		}
	})
}

// An object that is wanted, and that a Transform keeps as it was, is absent in every order.
func TestWantedKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a", "b"), &lw.KeySet{}
		rig.Update(t, src.Memory, "a", 9)
		rig.Update(t, src.Memory, "b", 9)
		keys.Set("me", rig.Key("a"))
		inf := rig.Run(t, lw.Wanted(picky(src), keys), nil)
		keys.Set("me", rig.Key("a"), rig.Key("b"))
		synctest.Wait()
		rig.Same(t, "shown", "a:absent b:absent", shown(inf, "a", "b"))
		rig.OK(t, errors.Join(inf.WaitForKey(t.Context(), rig.Key("a")), inf.WaitForKey(t.Context(), rig.Key("b"))))
	})
}

// What was read before the watch had it is known as soon as that has passed it, by a bookmark, too:
// a server that is restored meanwhile is noticed.
func TestWantedPassedByBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys, errs := newDistant("b"), &lw.KeySet{}, &rig.Errors{}
		before := src.ResourceVersion()
		rig.Create(t, src.Memory, "a", 1)
		inf := rig.Run(t, lw.Wanted[*rig.Widget](src, keys), &lw.Options{List: lw.ListWhole, OnError: errs.Add})
		src.set(func() { src.lag = time.Second })
		rig.Update(t, src.Memory, "b", 2) // of which the informer sees a bookmark
		keys.Set("me", rig.Key("a"))
		synctest.Wait()
		rig.Sleep(2 * time.Second)
		rig.Same(t, "shown", "a:there=1", shown(inf, "a"))
		rig.OK(t, src.Rewind(before))
		for size := range 5 {
			rig.Update(t, src.Memory, "b", 10+size)
		}
		src.set(func() { src.lag, src.fails = 0, 3 })
		src.breakWatch(false)
		rig.Sleep(5 * time.Minute)
		rig.Same(t, "shown in the end", "a:absent", shown(inf, "a"))
		if !slices.ContainsFunc(errs.All(), func(err error) bool { return errors.Is(err, lw.ErrRewound) }) {
			t.Errorf("no restore is reported: %v", errs.All())
		}
	})
}

// A server is restored to before what was read of a quiet collection, and nobody can see it: what
// was read is shown for ten minutes, and not for ever.
func TestWantedAfterQuietRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a", "b"), &lw.KeySet{}
		inf := rig.Run(t, lw.Wanted[*rig.Widget](src, keys), &lw.Options{OnError: func(error) {}})
		before := src.ResourceVersion()
		src.set(func() { src.lag = time.Hour })
		rig.Update(t, src.Memory, "a", 2)
		keys.Set("me", rig.Key("a"))
		synctest.Wait()
		rig.Same(t, "shown", "a:there=2", shown(inf, "a"))
		rig.OK(t, src.Rewind(before))
		src.set(func() { src.lag = 0 })
		rig.Sleep(11 * time.Minute)
		rig.Same(t, "shown after the restore", "a:there=1", shown(inf, "a"))
	})
}

// Options around a source select, as well as those within it: no selector is replaced.
func TestWithListOptionsJoinsSelectors(t *testing.T) {
	tweak := func(text string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) {
			if add, ok := strings.CutPrefix(text, "+"); ok {
				o.LabelSelector, o.FieldSelector = strings.TrimPrefix(o.LabelSelector+","+add, ","),
					strings.TrimPrefix(o.FieldSelector+",x."+add, ",")
			} else if text != "" {
				o.LabelSelector, o.FieldSelector = text, "x."+text
			}
		}
	}
	for _, tt := range [][4]string{ // outer, inner, the labels, the fields
		{"", "", "", ""},
		{"a=1", "", "a=1", "x.a=1"},
		{"", "b=1", "b=1", "x.b=1"},
		{"a=1", "b=1", "a=1,b=1", "x.a=1,x.b=1"},
		{"a=1", "a=1", "a=1", "x.a=1"},
		{"a=1", "a=12", "a=1,a=12", "x.a=1,x.a=12"},
		{"a=1", "+b=1", "a=1,b=1", "x.a=1,x.b=1"},
		{"a=1", "b=1,a=1", "b=1,a=1", "x.a=1,x.b=1,a=1"},
	} {
		asked := &asking{}
		src := lw.WithListOptions(lw.WithListOptions[*rig.Widget](asked, tweak(tt[1])), tweak(tt[0]))
		_, _ = src.List(t.Context(), metav1.ListOptions{}, nil)
		rig.Same(t, "list", [4]string{tt[0], tt[1], asked.opts.LabelSelector, asked.opts.FieldSelector}, tt)
		asked.opts = metav1.ListOptions{}
		_ = src.Watch(t.Context(), metav1.ListOptions{}, nil)
		rig.Same(t, "watch", [4]string{tt[0], tt[1], asked.opts.LabelSelector, asked.opts.FieldSelector}, tt)
	}
}

// asking is a source that notes what it is asked for.
type asking struct{ opts metav1.ListOptions }

func (a *asking) List(_ context.Context, opts metav1.ListOptions, _ func(*rig.Widget, error) error) (metav1.ListMeta,
	error) {
	a.opts = opts
	return metav1.ListMeta{}, nil
}

func (a *asking) Watch(_ context.Context, opts metav1.ListOptions, _ func(widgetEvent) error) error {
	a.opts = opts
	return nil
}

// A read of one key keeps to one object where the source has selectors of its own.
func TestWantedOfSelectedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a", "b"), &lw.KeySet{}
		selected := lw.WithListOptions[*rig.Widget](src,
			func(o *metav1.ListOptions) { o.FieldSelector = "metadata.namespace!=other" })
		inf := rig.Run(t, lw.Wanted(selected, keys), nil)
		keys.Set("me", rig.Key("a"))
		synctest.Wait()
		rig.Same(t, "shown", "a:there=1 b:unwanted", shown(inf, "a", "b"))
		src.set(func() {
			rig.Same(t, "reads", []string{"metadata.name=a,metadata.namespace=default,metadata.namespace!=other"}, src.parts)
		})
	})
}
