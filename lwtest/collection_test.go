package lwtest_test

import (
	"cmp"
	"context"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// sorted is a Reader by a SortedIndex.
type sorted struct {
	lw.Reader[*Widget]
	by *lw.SortedIndex[int, *Widget]
}

func (s sorted) Len() int               { return s.by.Len() }
func (s sorted) List() []*Widget        { return slices.Collect(s.All()) }
func (s sorted) All() iter.Seq[*Widget] { return s.by.Up(0, s.by.Len()) }

// remembered is a Reader of a Memory.
type remembered struct{ *lw.Memory[*Widget] }

func (m remembered) List() []*Widget { return slices.Collect(m.All()) }
func (m remembered) Get(key lw.Key) (*Widget, bool) {
	w, err := m.Memory.Get(context.Background(), key)
	return w, err == nil
}
func (m remembered) Len() int { return len(m.List()) }
func (m remembered) Snapshot() *lw.Snapshot[*Widget] {
	return lw.NewIndexer(m.List()...).Snapshot()
}

// A counting collection is a wrapper of a user's.
type counting struct {
	lw.Collection[*Widget]
	handlers int
}

func (c *counting) AddHandler(h lw.Handler[*Widget]) *lw.Registration {
	c.handlers++
	return c.Collection.AddHandler(h)
}

// over returns a subject whose writes go to the Memory that of returns for the namespace.
func over(c lw.Collection[*Widget], of func(namespace string) *lw.Memory[*Widget]) lwtest.CollectionSubject[*Widget] {
	return lwtest.CollectionSubject[*Widget]{
		Collection: c,
		Put: func(key lw.Key, n int) {
			if _, err := of(key.Namespace).Transact(context.Background(), []*Widget{newWidget(key, n)}); err != nil {
				panic(err)
			}
		},
		Remove: func(key lw.Key) {
			if _, err := of(key.Namespace).Delete(context.Background(), key, ""); err != nil {
				panic(err)
			}
		},
		Object: newWidget,
	}
}

func byNames(a, b *Widget) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// All collections in memory keep the same promises.
func TestCollections(t *testing.T) {
	follow := func(ctx context.Context) (*lw.Memory[*Widget], *lw.Informer[*Widget]) {
		m := lw.NewMemory[*Widget]()
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
		go inf.Run(ctx)
		return m, inf
	}
	itself := func(w *Widget) *Widget { return w }
	for name, subject := range map[string]func(ctx context.Context) lwtest.CollectionSubject[*Widget]{
		"Informer": func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			m, inf := follow(ctx)
			return over(inf, func(string) *lw.Memory[*Widget] { return m })
		},
		"Derived": func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			m, inf := follow(ctx)
			g := lw.NewGraph(nil)
			go g.Run(ctx)
			return over(lw.Derive(g, inf, itself), func(string) *lw.Memory[*Widget] { return m })
		},
		"Union": func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			a, first := follow(ctx)
			b, second := follow(ctx)
			g := lw.NewGraph(nil)
			go g.Run(ctx)
			return over(lw.NewUnion(g, first, second), func(namespace string) *lw.Memory[*Widget] {
				return map[string]*lw.Memory[*Widget]{"a": a, "b": b}[namespace]
			})
		},
		"SortedIndex": func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			m, inf := follow(ctx)
			s := over(inf, func(string) *lw.Memory[*Widget] { return m })
			s.Reader = sorted{inf.Store(), lw.NewSortedIndex(inf, func(w *Widget) int { return w.Size })}
			s.Compare = func(a, b *Widget) int { return cmp.Or(a.Size-b.Size, byNames(a, b)) }
			return s
		},
		"Memory": func(context.Context) lwtest.CollectionSubject[*Widget] {
			m := lw.NewMemory[*Widget]()
			s := over(nil, func(string) *lw.Memory[*Widget] { return m })
			s.Reader, s.Compare = remembered{m}, byNames
			return s
		},
		"a wrapper": func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			m, inf := follow(ctx)
			return over(&counting{Collection: inf}, func(string) *lw.Memory[*Widget] { return m })
		},
	} {
		t.Run(name, func(t *testing.T) { lwtest.TestCollection(t, subject) })
	}
}

// A faulty collection is a wrapper that does something else to handlers and to Changed.
type faulty struct {
	lw.Collection[*Widget]
	handler func(h lw.Handler[*Widget], done func() bool) lw.Handler[*Widget]
	changed func(is <-chan struct{}, keys []lw.Key) <-chan struct{}
	events  func(d lw.Delta[*Widget]) bool // nil: all are yielded
}

func (f faulty) AddHandler(h lw.Handler[*Widget]) *lw.Registration {
	if f.handler == nil {
		return f.Collection.AddHandler(h)
	}
	var reg *lw.Registration
	h = f.handler(h, func() bool {
		select {
		case <-reg.Done():
			return true
		default:
			return false
		}
	})
	reg = f.Collection.AddHandler(h)
	return reg
}

func (f faulty) Changed(ctx context.Context, keys ...lw.Key) <-chan struct{} {
	if is := f.Collection.Changed(ctx, keys...); f.changed == nil {
		return is
	} else {
		return f.changed(is, keys)
	}
}

func (f faulty) Events(ctx context.Context) iter.Seq[lw.Delta[*Widget]] {
	return func(yield func(lw.Delta[*Widget]) bool) {
		for d := range f.Collection.Events(ctx) {
			if (f.events == nil || f.events(d)) && !yield(d) {
				return
			}
		}
	}
}

// A faultyReader is a Reader that answers otherwise.
type faultyReader struct {
	lw.Reader[*Widget]
	get  func(key lw.Key) (*Widget, bool)
	list func() []*Widget
	all  func() []*Widget
	size func() int
	snap func() *lw.Snapshot[*Widget]
}

func (r faultyReader) Get(key lw.Key) (*Widget, bool)  { return r.get(key) }
func (r faultyReader) List() []*Widget                 { return r.list() }
func (r faultyReader) All() iter.Seq[*Widget]          { return slices.Values(r.all()) }
func (r faultyReader) Len() int                        { return r.size() }
func (r faultyReader) Snapshot() *lw.Snapshot[*Widget] { return r.snap() }

// TestCollection finds what each of these does wrong, and says so. They fail in a process of their own.
func TestBrokenCollections(t *testing.T) {
	type handler = lw.Handler[*Widget]
	told := func(f func(h *handler)) func(ctx context.Context, c lw.Collection[*Widget]) lw.Collection[*Widget] {
		return func(_ context.Context, c lw.Collection[*Widget]) lw.Collection[*Widget] {
			return faulty{Collection: c, handler: func(h handler, _ func() bool) handler { f(&h); return h }}
		}
	}
	signals := func(f func(is <-chan struct{}, keys []lw.Key) <-chan struct{}) func(ctx context.Context, c lw.Collection[*Widget]) lw.Collection[*Widget] {
		return func(_ context.Context, c lw.Collection[*Widget]) lw.Collection[*Widget] {
			return faulty{Collection: c, changed: f}
		}
	}
	// What a consumer was told is wrong in one way or another, as the history was drawn.
	const story = `(consumer|handler) \d+`
	never, at := make(<-chan struct{}), make(chan struct{})
	close(at)
	collections := []struct {
		name string
		wrap func(ctx context.Context, c lw.Collection[*Widget]) lw.Collection[*Widget]
		want string
	}{
		{"told twice", told(func(h *handler) {
			update := h.Update
			h.Update = func(old, new *Widget) { update(old, new); update(old, new) }
		}), story},
		{"a change is missed", told(func(h *handler) { h.Update = nil }), story},
		{"a deletion is missed", told(func(h *handler) { h.Delete = nil }), story},
		{"old is not what was told", told(func(h *handler) {
			update := h.Update
			h.Update = func(_, new *Widget) { update(new, new) }
		}), story},
		{"the first object is missed", told(func(h *handler) {
			add, n := h.Add, 0
			h.Add = func(w *Widget) {
				if n++; n > 1 {
					add(w)
				}
			}
		}), story},
		{"never synced", told(func(h *handler) { h.Synced = nil }), `handler \d+: Synced was called 0 times`},
		{"synced too early", told(func(h *handler) {
			add, synced := h.Add, h.Synced
			var once sync.Once
			h.Add = func(w *Widget) { once.Do(synced); add(w) }
			h.Synced = func() { once.Do(synced) }
		}), `Synced came after 0 Adds, want [1-3]`},
		{"called after Remove", func(_ context.Context, c lw.Collection[*Widget]) lw.Collection[*Widget] {
			return faulty{Collection: c, handler: func(h handler, done func() bool) handler {
				c.AddHandler(handler{Update: func(old, new *Widget) {
					if done() {
						h.Update(old, new)
					}
				}})
				return h
			}}
		}, story},
		{"Events lack deletions", func(_ context.Context, c lw.Collection[*Widget]) lw.Collection[*Widget] {
			return faulty{Collection: c, events: func(d lw.Delta[*Widget]) bool { return d.Type != lw.Deleted }}
		}, story},
		{"Changed never comes", signals(func(<-chan struct{}, []lw.Key) <-chan struct{} { return never }), `the channel of .* is open after a change`},
		{"Changed comes for no key", signals(func(is <-chan struct{}, keys []lw.Key) <-chan struct{} {
			if len(keys) > 0 {
				return never
			}
			return is
		}), `the channel of \w/\w+ is open after a change`},
		{"Changed comes for keys only", signals(func(is <-chan struct{}, keys []lw.Key) <-chan struct{} {
			if len(keys) == 0 {
				return never
			}
			return is
		}), `the channel of any object is open after a change`},
		{"Changed comes without a change", signals(func(<-chan struct{}, []lw.Key) <-chan struct{} { return at }), `the channel of .* is closed without a change`},
	}
	reader := func(r lw.Reader[*Widget]) *faultyReader {
		return &faultyReader{r, r.Get, r.List, r.List, r.Len, r.Snapshot}
	}
	readers := []struct {
		name  string
		spoil func(r *faultyReader)
		want  string
	}{
		{"Get is stale", func(r *faultyReader) { r.get = r.Reader.Snapshot().Get }, `the reader: Get of .* says`},
		{"List is stale", func(r *faultyReader) { r.list = r.Reader.Snapshot().List }, `List of the reader: 0 objects, want`},
		{"All lacks one", func(r *faultyReader) {
			r.all = func() []*Widget {
				all := r.Reader.List()
				return all[:max(0, len(all)-1)]
			}
		}, `the reader lists \d objects, yields \d and counts \d, want \d`},
		{"All has another object", func(r *faultyReader) {
			r.all = func() []*Widget {
				all := r.Reader.List()
				if len(all) > 0 {
					all[0] = newWidget(lw.KeyOf(all[0]), 9)
				}
				return all
			}
		}, `All has another object of`},
		{"Len counts too many", func(r *faultyReader) { r.size = func() int { return r.Reader.Len() + 1 } }, `counts \d, want \d`},
		{"the order is the other way round", func(r *faultyReader) {
			r.list = func() []*Widget {
				return slices.SortedFunc(r.Reader.All(), func(a, b *Widget) int { return -byNames(a, b) })
			}
			r.all = r.list
		}, `the reader is not in order`},
		{"a snapshot is stale", func(r *faultyReader) {
			first := r.Reader.Snapshot()
			r.snap = func() *lw.Snapshot[*Widget] { return first }
		}, `List of a snapshot: \d objects, want`},
	}
	const child = "LWTEST_BROKEN_COLLECTIONS"
	if os.Getenv(child) != "" {
		subject := func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			m := lw.NewMemory[*Widget]()
			inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
			go inf.Run(ctx)
			return over(inf, func(string) *lw.Memory[*Widget] { return m })
		}
		for _, c := range collections {
			t.Run(c.name, func(t *testing.T) {
				lwtest.TestCollection(t, func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
					s := subject(ctx)
					s.Collection = c.wrap(ctx, s.Collection)
					return s
				})
			})
		}
		for _, c := range readers {
			t.Run(c.name, func(t *testing.T) {
				lwtest.TestCollection(t, func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
					s := subject(ctx)
					r := reader(s.Collection.Store())
					c.spoil(r)
					if s.Reader = r; strings.Contains(c.name, "order") {
						s.Compare = byNames
					}
					return s
				})
			})
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenCollections$", "-test.v", "-rapid.shrinktime=1ms")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("nothing was found")
	}
	parts := map[string]string{} // what each said
	for part := range strings.SplitSeq(string(out), "=== RUN   TestBrokenCollections/") {
		name, said, _ := strings.Cut(part, "\n")
		parts[strings.ReplaceAll(name, "_", " ")] = said
	}
	check := func(name, want string) {
		if said := parts[name]; !regexp.MustCompile("lwtest: .*(" + want + ")").MatchString(said) {
			t.Errorf("%s: want %q, got\n%s", name, want, said)
		}
	}
	for _, c := range collections {
		check(c.name, c.want)
	}
	for _, c := range readers {
		check(c.name, c.want)
	}
}

// A type that wraps an informer keeps an informer's promises.
func ExampleTestCollection() {
	var t *testing.T // the test's own
	lwtest.TestCollection(t, func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
		server := lw.NewMemory[*Widget]()
		inf := lw.NewInformer(server, nil)
		go inf.Run(ctx)
		return lwtest.CollectionSubject[*Widget]{
			Collection: &counting{Collection: inf}, // the wrapper under test
			Put:        func(key lw.Key, n int) { server.Transact(t.Context(), []*Widget{newWidget(key, n)}) },
			Remove:     func(key lw.Key) { server.Delete(t.Context(), key, "") },
			Object:     newWidget,
		}
	})
}
