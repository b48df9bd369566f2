package lwtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// A Widget is what the sources of these tests hold.
type Widget struct {
	lw.Meta
	Labels map[string]string
	Size   int
}

func (w *Widget) GetLabels() map[string]string { return w.Labels }

func newWidget(key lw.Key, n int) *Widget {
	return &Widget{
		Meta:   lw.Meta{Namespace: key.Namespace, Name: key.Name},
		Labels: map[string]string{"even": map[bool]string{true: "yes", false: "no"}[n%2 == 0]},
		Size:   n,
	}
}

// subject is a Memory, as which others go wrong.
func subject(wrap func(lw.Source[*Widget]) lw.Source[*Widget]) lwtest.Subject[*Widget] {
	m := rig.Plain[*Widget]{Memory: lw.NewMemory(newWidget(lw.Key{Namespace: "old", Name: "one"}, 0))}
	return lwtest.Subject[*Widget]{
		Source:     func() lw.Source[*Widget] { return wrap(m) },
		Object:     newWidget,
		Create:     m.Create,
		Update:     m.Update,
		Delete:     m.Delete,
		Transact:   transactOf(m.Memory),
		Compact:    m.Compact,
		Disconnect: m.Disconnect,
		Bookmark:   m.Bookmark,
		Selectors: []lwtest.Selector[*Widget]{
			{Labels: "even=yes", Matches: func(w *Widget) bool { return w.Size%2 == 0 }},
			{Fields: "metadata.namespace=lwtest-a", Matches: func(w *Widget) bool { return w.Namespace == "lwtest-a" }},
		},
	}
}

// itself wraps nothing.
func itself(src lw.Source[*Widget]) lw.Source[*Widget] { return src }

// transactOf is the Transact of a Subject over m.
func transactOf(m *lw.Memory[*Widget]) func(puts []*Widget, gone []lw.Key) ([]*Widget, string, error) {
	return func(puts []*Widget, gone []lw.Key) (stored []*Widget, version string, err error) {
		version, err = m.Transact(context.Background(), puts, gone...)
		for _, obj := range puts {
			if obj, err := m.Get(context.Background(), lw.KeyOf(obj)); err == nil {
				stored = append(stored, obj)
			}
		}
		return stored, version, err
	}
}

// wrapper is a source as somebody else may write one: it makes each event anew, of what can be seen
// from outside.
type wrapper struct{ src lw.Source[*Widget] }

func (w *wrapper) Hints() lw.SourceHints { return lw.HintsOf(w.src) }

func (w *wrapper) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta,
	error) {
	return w.src.List(ctx, opts, yield)
}

func (w *wrapper) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	return w.src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
		var out lw.WatchEvent[*Widget]
		from, to := reflect.ValueOf(ev), reflect.ValueOf(&out).Elem()
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				to.Field(i).Set(from.Field(i))
			}
		}
		return yield(out)
	})
}

func TestWrapper(t *testing.T) {
	same := func(w *Widget) (*Widget, error) { return w, nil }
	lwtest.Source(t, func() lwtest.Subject[*Widget] {
		return subject(func(src lw.Source[*Widget]) lw.Source[*Widget] { return &wrapper{lw.Transform(src, same)} })
	})
}

// Watches that break off now and then, also amid the initial events of a streamed list, are no fault of
// a source: they are resumed, and the initial events begin again.
func TestWatchesThatBreakOff(t *testing.T) {
	lwtest.Source(t, func() lwtest.Subject[*Widget] {
		var watches atomic.Int64
		return subject(func(src lw.Source[*Widget]) lw.Source[*Widget] {
			return broken{Source: src, watch: func(src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent) error {
				left := int(watches.Add(1)) % 3 // 0: it goes on
				return src.Watch(ctx, opts, func(ev lw.WatchEvent[*Widget]) error {
					if left--; left == 0 && !ev.Open {
						return errors.Join(yield(ev), io.ErrUnexpectedEOF)
					}
					return yield(ev)
				})
			}}
		})
	})
}

// An informer of a wrapped Transform, which leaves objects out, goes on as without the wrapper: no
// error, no second list.
func TestInformerOfWrapper(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListPages, lw.ListStream} {
		rig.Subtest(t, string(mode), func(t *testing.T) {
			name := func(n string) lw.Key { return lw.Key{Namespace: "n", Name: n} }
			m := lw.NewMemory(newWidget(name("a"), 0), newWidget(name("b"), 1))
			even := func(w *Widget) (*Widget, error) {
				if w.Size%2 != 0 {
					return nil, nil
				}
				return w, nil
			}
			var errs []error
			inf := lw.NewInformer[*Widget](&wrapper{lw.Transform(m, even)},
				&lw.Options{List: mode, OnError: func(err error) { errs = append(errs, err) }})
			var told []string
			inf.AddHandler(lw.Handler[*Widget]{
				Add:    func(w *Widget) { told = append(told, "add "+w.Name) },
				Update: func(_, w *Widget) { told = append(told, "update "+w.Name) },
				Delete: func(w *Widget) { told = append(told, "delete "+w.Name) },
			})
			defer rig.Begin(t, inf)()
			put := func(write func(context.Context, *Widget) (*Widget, error), n string, size int) {
				t.Helper()
				w := newWidget(name(n), size)
				if old, err := m.Get(t.Context(), name(n)); err == nil {
					w.Meta = old.Meta
				}
				rig.Must[*Widget](t)(write(t.Context(), w))
				synctest.Wait()
			}
			put(m.Create, "c", 3) // is left out
			put(m.Update, "b", 2) // comes in
			put(m.Update, "a", 1) // goes out
			put(m.Update, "c", 5) // stays out
			for _, n := range []string{"a", "b", "c"} {
				rig.Must[string](t)(m.Delete(t.Context(), name(n), ""))
			}
			synctest.Wait()
			rig.Same(t, "told", []string{"add a", "add b", "delete a", "delete b"}, told)
			s := inf.Status()
			if len(errs) > 0 || s.Requests["list"].Started+rig.Watches(s) != map[lw.ListMode]uint64{lw.ListPages: 2,
				lw.ListStream: 1}[mode] {
				t.Errorf("%d lists, %d watches, errors %v", s.Requests["list"].Started, rig.Watches(s), errs)
			}
			rig.Same(t, "the version", m.ResourceVersion(), s.ResourceVersion)
		})
	}
}

func TestMemory(t *testing.T) {
	lwtest.Source(t, func() lwtest.Subject[*Widget] {
		s, last := subject(itself), 0
		s.Object = func(key lw.Key, n int) *Widget {
			if n <= last {
				t.Errorf("content %d is asked for after content %d", n, last)
			}
			last = n
			return newWidget(key, n)
		}
		return s
	})
}

// The collection is written while the first object of a list is yielded, and after each of the first
// three pages: at most two times, and nowhere else amid a list.
func TestSourceWritesMeanwhile(t *testing.T) {
	want := map[string]int{"object 1 of a list": 2, "after page 1": 2, "after page 2": 2, "after page 3": 2}
	got := map[string]int{} // the most writes by where they were made
	run := func() {
		passes(t, func(tb testing.TB) {
			lwtest.Source(tb, func() lwtest.Subject[*Widget] {
				where, n, page := "", 0, 0
				list := func(
					src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldObject,
				) (metav1.ListMeta, error) {
					if opts.Limit > 0 {
						if page++; opts.Continue == "" {
							page = 1
						}
						meta, err := src.List(ctx, opts, yield)
						if where, n = "", 0; meta.Continue != "" {
							where = fmt.Sprintf("after page %d", page)
						}
						return meta, err
					}
					objs, outer, before := 0, where, n
					defer func() { where, n = outer, before }()
					return src.List(ctx, opts, func(w *Widget, err error) error {
						objs++
						where, n = fmt.Sprintf("object %d of a list", objs), 0
						return yield(w, err)
					})
				}
				s := subject(func(src lw.Source[*Widget]) lw.Source[*Widget] { return broken{Source: src, list: list} })
				note := func() {
					if n++; where != "" {
						got[where] = max(got[where], n)
					}
				}
				create, update, remove := s.Create, s.Update, s.Delete
				s.Create = func(w *Widget) (*Widget, error) { note(); return create(w) }
				s.Update = func(w *Widget) (*Widget, error) { note(); return update(w) }
				s.Delete = func(key lw.Key) error { note(); return remove(key) }
				return s
			})
		})
	}
	for n := 0; n < 100 && !reflect.DeepEqual(got, want); n++ {
		run()
	}
	rig.Same(t, "the most writes", want, got)
}

// A source may refuse to stream, in one of these ways; the check says so, and passes.
func TestRefusedStreams(t *testing.T) {
	widgets := schema.GroupResource{Resource: "widgets"}
	for _, refusal := range []error{
		apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil),
		apierrors.NewBadRequest("sendInitialEvents is forbidden"),
		apierrors.NewMethodNotSupported(widgets, "watch"),
		apierrors.NewForbidden(widgets, "", nil),
	} {
		synctest.Test(t, func(t *testing.T) {
			tb := &fakeTB{TB: t}
			tb.run(func() {
				lwtest.Source(tb, func() lwtest.Subject[*Widget] {
					return subject(func(src lw.Source[*Widget]) lw.Source[*Widget] {
						return broken{Source: src, watch: func(
							src lw.Source[*Widget], ctx context.Context, opts metav1.ListOptions, yield yieldEvent,
						) error {
							if streams(opts) {
								return refusal
							}
							return src.Watch(ctx, opts, yield)
						}}
					})
				})
			})
			if out := tb.out.String(); tb.failed || !strings.Contains(out, "lwtest: the source refuses to stream lists") {
				t.Errorf("%v: failed %v:\n%s", refusal, tb.failed, out)
			}
		})
	}
}

// world is a collection that has neither versions nor watches.
type world struct {
	mu      sync.Mutex
	objs    map[lw.Key]*Widget
	changes chan func(*lw.Feeder[*Widget]) error // what a feed has to tell
}

func (w *world) list(context.Context) ([]*Widget, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	objs := []*Widget{}
	for _, obj := range w.objs {
		one := *obj
		objs = append(objs, &one)
	}
	return objs, nil
}

func (w *world) put(obj *Widget) (*Widget, error) {
	_, _, err := w.transact([]*Widget{obj}, nil)
	return obj, err
}

func (w *world) delete(key lw.Key) error {
	_, _, err := w.transact(nil, []lw.Key{key})
	return err
}

func (w *world) transact(puts []*Widget, gone []lw.Key) ([]*Widget, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var told []*Widget
	for _, obj := range puts {
		one, other := *obj, *obj
		w.objs[lw.KeyOf(obj)] = &one
		told = append(told, &other)
	}
	for _, key := range gone {
		delete(w.objs, key)
	}
	if w.changes != nil {
		w.changes <- func(to *lw.Feeder[*Widget]) error { return to.Change(told, gone...) }
	}
	return puts, "", nil
}

func (w *world) feed(ctx context.Context, to *lw.Feeder[*Widget]) error {
	objs, err := w.list(ctx)
	if err != nil {
		return err
	}
	if err := to.Snapshot(objs); err != nil {
		return err
	}
	for {
		select {
		case tell := <-w.changes:
			if err := tell(to); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// followed is a Subject over a world.
func followed(w *world, src lw.Source[*Widget]) lwtest.Subject[*Widget] {
	return lwtest.Subject[*Widget]{
		Follows: true,
		Source:  func() lw.Source[*Widget] { return src },
		Object:  newWidget,
		Create:  w.put, Update: w.put, Delete: w.delete, Transact: w.transact,
	}
}

// What can only be followed passes as such.
func TestFollows(t *testing.T) {
	first := newWidget(lw.Key{Namespace: "old", Name: "one"}, 0)
	for name, subject := range map[string]func() lwtest.Subject[*Widget]{
		"Poll": func() lwtest.Subject[*Widget] {
			w := &world{objs: map[lw.Key]*Widget{lw.KeyOf(first): first}}
			return followed(w, lw.Poll(w.list, 200*time.Microsecond))
		},
		"Poll, without transactions": func() lwtest.Subject[*Widget] {
			w := &world{objs: map[lw.Key]*Widget{}}
			s := followed(w, lw.Poll(w.list, 200*time.Microsecond))
			s.Transact = nil
			return s
		},
		"Feed": func() lwtest.Subject[*Widget] {
			w := &world{objs: map[lw.Key]*Widget{lw.KeyOf(first): first},
				changes: make(chan func(*lw.Feeder[*Widget]) error, 1000)}
			return followed(w, lw.Feed(w.feed))
		},
		"Memory": func() lwtest.Subject[*Widget] {
			s := subject(itself)
			s.Follows, s.Disconnect, s.Compact = true, nil, nil // after many of these an informer pauses for long
			return s
		},
	} {
		t.Run(name, func(t *testing.T) { lwtest.Source(t, subject) })
	}
}

// passes runs a check in a bubble, in which it must find nothing.
func passes(t *testing.T, check func(tb testing.TB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tb := &fakeTB{TB: t}
		if tb.run(func() { check(tb) }); tb.failed {
			t.Error(tb.out.String())
		}
	})
}

// A history ends when the informer shows all that was written, also if it may fall behind until
// then.
func TestFollowsToTheEnd(t *testing.T) {
	passes(t, func(tb testing.TB) {
		lwtest.Source(tb, func() lwtest.Subject[*Widget] {
			w := &world{objs: map[lw.Key]*Widget{}}
			sizes := func() map[lw.Key]int {
				all := map[lw.Key]int{}
				for _, obj := range rig.Must[[]*Widget](t)(w.list(t.Context())) {
					all[lw.KeyOf(obj)] = obj.Size
				}
				return all
			}
			listed := sizes()
			s := followed(w, lw.Poll(func(ctx context.Context) ([]*Widget, error) {
				listed = sizes()
				return w.list(ctx)
			}, time.Second))
			s.Close = func() { rig.Same(tb, "what was listed last, and what is there", sizes(), listed) }
			return s
		})
	})
}

// A source that is read faster than its states can be compared ends as well: what was not changed is
// not compared again.
func TestFollowsAFastPoll(t *testing.T) {
	passes(t, func(tb testing.TB) {
		lwtest.Source(tb, func() lwtest.Subject[*Widget] {
			w := &world{objs: map[lw.Key]*Widget{}}
			s := followed(w, lw.Poll(w.list, time.Millisecond))
			s.Equal = func(a, b *Widget) bool { time.Sleep(time.Millisecond); return a.Size == b.Size }
			return s
		})
	})
}

// A Subject without one of these is the test's own mistake.
func TestSubjectLacks(t *testing.T) {
	for name, remove := range map[string]func(s *lwtest.Subject[*Widget]){
		"Source": func(s *lwtest.Subject[*Widget]) { s.Source = nil },
		"Object": func(s *lwtest.Subject[*Widget]) { s.Object = nil },
		"Create": func(s *lwtest.Subject[*Widget]) { s.Create = nil },
		"Update": func(s *lwtest.Subject[*Widget]) { s.Update = nil },
		"Delete": func(s *lwtest.Subject[*Widget]) { s.Delete = nil },
	} {
		tb := &fakeTB{TB: t}
		tb.run(func() {
			lwtest.Source(tb, func() lwtest.Subject[*Widget] {
				s := subject(itself)
				remove(&s)
				return s
			})
		})
		const want = "lwtest: Source: a Subject needs Source, Object, Create, Update and Delete"
		if out := tb.out.String(); !tb.failed || !strings.Contains(out, want) {
			t.Errorf("without %s:\n%s", name, out)
		}
	}
}

// A Subject that has only what is required is checked with the defaults: four keys in two
// namespaces.
func TestSubjectDefaults(t *testing.T) {
	keys := map[lw.Key]bool{}
	passes(t, func(tb testing.TB) {
		lwtest.Source(tb, func() lwtest.Subject[*Widget] {
			of := subject(itself)
			return lwtest.Subject[*Widget]{Source: of.Source, Create: of.Create, Update: of.Update, Delete: of.Delete,
				Object: func(key lw.Key, n int) *Widget {
					keys[key] = true
					return newWidget(key, n)
				}}
		})
	})
	rig.Same(t, "the keys", map[lw.Key]bool{
		{Namespace: "lwtest-a", Name: "one"}: true, {Namespace: "lwtest-a", Name: "two"}: true,
		{Namespace: "lwtest-b", Name: "one"}: true, {Namespace: "lwtest-b", Name: "three"}: true,
	}, keys)
	// Without a Patience a call that hangs is given five seconds.
	synctest.Test(t, func(t *testing.T) {
		tb, begun := &fakeTB{TB: t}, time.Now()
		var first atomic.Int64
		tb.run(func() {
			lwtest.Source(tb, func() lwtest.Subject[*Widget] {
				s := subject(func(src lw.Source[*Widget]) lw.Source[*Widget] {
					return broken{Source: src, list: func(_ lw.Source[*Widget], ctx context.Context, _ metav1.ListOptions,
						_ yieldObject) (metav1.ListMeta, error) {
						<-ctx.Done()
						first.CompareAndSwap(0, int64(time.Since(begun)))
						return metav1.ListMeta{}, ctx.Err()
					}}
				})
				return s
			})
		})
		synctest.Wait()
		after, out := time.Duration(first.Load()), tb.out.String()
		if after != 5*time.Second || !strings.Contains(out, "List has not returned after 5s") {
			t.Errorf("after %v:\n%s", after, out)
		}
	})
}

// A Memory is a Writable like any other.
func TestWritable(t *testing.T) {
	open, answers := 0, map[*Widget]bool{}
	lwtest.Writable(t, func() (lw.Writable[*Widget], func()) {
		open++
		u := &unkept{Memory: lw.NewMemory[*Widget]()}
		u.create = func(ctx context.Context, w *Widget) (*Widget, error) {
			w, err := u.Memory.Create(ctx, w)
			answers[w] = true
			return w, err
		}
		return u, func() { open-- }
	}, newWidget, func(w *Widget, n int) {
		if answers[w] {
			t.Errorf("the answer of a write is changed, and no copy of it: %v", lw.KeyOf(w))
		}
		w.Size = n
	})
	rig.Same(t, "what is open at the end", 0, open)
}

func TestMutationDiff(t *testing.T) {
	var found []error
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a",
			Labels: map[string]string{"app": "web"}}})
		inf := lw.NewInformer(m, &lw.Options{DetectMutation: true, OnError: func(err error) { found = append(found, err) }})
		stop := rig.Begin(t, inf)
		obj, _ := inf.Store().Get(lw.Key{Name: "a"})
		obj.Labels["app"] = "changed"
		stop()
		obj.Labels["app"] = "changed again" // what was found is not what becomes of the object
	})
	if len(found) != 1 {
		t.Fatalf("found %v, want one", found)
	}
	diff := lwtest.MutationDiff(found[0])
	for _, want := range []string{`"web"`, `"changed"`} {
		if !strings.Contains(diff, want) {
			t.Errorf("the diff lacks %s:\n%s", want, diff)
		}
	}
	rig.Same(t, "diff of another error", "", lwtest.MutationDiff(errors.New("another error")))
}
