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

// A copies is a Reader whose Get returns an object of the caller's own.
type copies struct{ lw.Reader[*Widget] }

func (c copies) Get(key lw.Key) (*Widget, bool) {
	w, ok := c.Reader.Get(key)
	if ok {
		own := *w
		w = &own
	}
	return w, ok
}

// All collections in memory keep the same promises.
func TestCollections(t *testing.T) {
	follow := func(ctx context.Context) (*lw.Memory[*Widget], *lw.Informer[*Widget]) {
		m := lw.NewMemory[*Widget]()
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
		go inf.Run(ctx)
		return m, inf
	}
	ofOne := func(of func(context.Context,
		*lw.Informer[*Widget]) lw.Collection[*Widget]) func(context.Context) lwtest.CollectionSubject[*Widget] {
		return func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			m, inf := follow(ctx)
			return over(of(ctx, inf), func(string) *lw.Memory[*Widget] { return m })
		}
	}
	for name, subject := range map[string]func(ctx context.Context) lwtest.CollectionSubject[*Widget]{
		"Informer": ofOne(func(_ context.Context, inf *lw.Informer[*Widget]) lw.Collection[*Widget] { return inf }),
		"a wrapper": ofOne(func(_ context.Context, inf *lw.Informer[*Widget]) lw.Collection[*Widget] {
			return &counting{Collection: inf}
		}),
		"Derived": ofOne(func(ctx context.Context, inf *lw.Informer[*Widget]) lw.Collection[*Widget] {
			g := lw.NewGraph(nil)
			go g.Run(ctx)
			return lw.Derive(g, inf, func(w *Widget) *Widget { return w })
		}),
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
		"a Reader of copies": func(ctx context.Context) lwtest.CollectionSubject[*Widget] {
			m, inf := follow(ctx)
			s := over(inf, func(string) *lw.Memory[*Widget] { return m })
			s.Reader = copies{inf.Store()}
			return s
		},
		"Memory": func(context.Context) lwtest.CollectionSubject[*Widget] {
			m := lw.NewMemory[*Widget]()
			s := over(nil, func(string) *lw.Memory[*Widget] { return m })
			s.Reader, s.Compare = remembered{m}, byNames
			return s
		},
	} {
		t.Run(name, func(t *testing.T) { lwtest.TestCollection(t, subject) })
	}
}

// A faulty collection is a wrapper that does something else to handlers, events or Changed.
type faulty struct {
	lw.Collection[*Widget]
	handler func(h *lw.Handler[*Widget], removed func() bool)
	changed func(is <-chan struct{}, keys []lw.Key) <-chan struct{}
	hidden  lw.EventType // of Events
}

func (f faulty) AddHandler(h lw.Handler[*Widget]) (reg *lw.Registration) {
	if f.handler != nil {
		f.handler(&h, func() bool {
			select {
			case <-reg.Done():
				return true
			default:
				return false
			}
		})
	}
	reg = f.Collection.AddHandler(h)
	return reg
}

func (f faulty) Changed(ctx context.Context, keys ...lw.Key) <-chan struct{} {
	is := f.Collection.Changed(ctx, keys...)
	if f.changed != nil {
		is = f.changed(is, keys)
	}
	return is
}

func (f faulty) Events(ctx context.Context) iter.Seq[lw.Delta[*Widget]] {
	return func(yield func(lw.Delta[*Widget]) bool) {
		for d := range f.Collection.Events(ctx) {
			if d.Type != f.hidden && !yield(d) {
				return
			}
		}
	}
}

// An elsewhere is a wrapper whose WaitFor, or whose handlers, are of another collection.
type elsewhere struct {
	lw.Collection[*Widget] // of WaitFor
	to, handlers           lw.Collection[*Widget]
}

func (e elsewhere) Store() lw.Reader[*Widget] { return e.to.Store() }
func (e elsewhere) AddHandler(h lw.Handler[*Widget]) *lw.Registration {
	return e.handlers.AddHandler(h)
}
func (e elsewhere) Changed(ctx context.Context, keys ...lw.Key) <-chan struct{} {
	return e.to.Changed(ctx, keys...)
}
func (e elsewhere) Events(ctx context.Context) iter.Seq[lw.Delta[*Widget]] { return e.to.Events(ctx) }

// stopped returns an empty collection that has stopped, before or after it was synced.
func stopped(synced bool) lw.Collection[*Widget] {
	inf := lw.NewInformer(lw.NewMemory[*Widget](), nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer func() { <-inf.Stopped() }()
	defer cancel()
	if !synced {
		cancel()
	}
	go inf.Run(ctx)
	if synced {
		<-inf.Synced()
	}
	return inf
}

// A faultyReader is a Reader that answers otherwise.
type faultyReader struct {
	lw.Reader[*Widget]
	get       func(key lw.Key) (*Widget, bool)
	list, all func() []*Widget
	more      int // than there are
	old       *lw.Snapshot[*Widget]
}

func (r *faultyReader) Get(key lw.Key) (*Widget, bool)  { return r.get(key) }
func (r *faultyReader) List() []*Widget                 { return r.list() }
func (r *faultyReader) All() iter.Seq[*Widget]          { return slices.Values(r.all()) }
func (r *faultyReader) Len() int                        { return r.Reader.Len() + r.more }
func (r *faultyReader) Snapshot() *lw.Snapshot[*Widget] { return cmp.Or(r.old, r.Reader.Snapshot()) }

// TestCollection finds what each of these does wrong, and says so. They fail in a process of their
// own.
func TestBrokenCollections(t *testing.T) {
	type subject = lwtest.CollectionSubject[*Widget]
	type handler = lw.Handler[*Widget]
	told := func(f func(h *handler)) func(s *subject) {
		return func(s *subject) {
			s.Collection = faulty{Collection: s.Collection, handler: func(h *handler, _ func() bool) { f(h) }}
		}
	}
	signals := func(f func(is <-chan struct{}, keys []lw.Key) <-chan struct{}) func(s *subject) {
		return func(s *subject) { s.Collection = faulty{Collection: s.Collection, changed: f} }
	}
	reads := func(f func(r *faultyReader)) func(s *subject) {
		return func(s *subject) {
			r := s.Collection.Store()
			broken := &faultyReader{r, r.Get, r.List, r.List, 0, nil}
			f(broken)
			s.Reader = broken
		}
	}
	// What a consumer was told is wrong in one way or another, as the history was drawn.
	const story = `(consumer|handler) \d+`
	never, at := make(<-chan struct{}), make(chan struct{})
	close(at)
	tests := []struct {
		name  string
		spoil func(s *subject)
		want  string
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
			add, synced := h.Add, sync.OnceFunc(h.Synced)
			h.Add, h.Synced = func(w *Widget) { synced(); add(w) }, synced
		}), `Synced came after 0 Adds, want [1-3]`},
		{"called after Remove", func(s *subject) {
			c := s.Collection
			s.Collection = faulty{Collection: c, handler: func(h *handler, removed func() bool) {
				update := h.Update
				c.AddHandler(handler{Update: func(old, new *Widget) {
					if removed() {
						update(old, new)
					}
				}})
			}}
		}, story},
		{"Events lack deletions", func(s *subject) { s.Collection = faulty{Collection: s.Collection, hidden: lw.Deleted} },
			story},
		{"Changed never comes", signals(func(<-chan struct{}, []lw.Key) <-chan struct{} { return never }),
			`the channel of .* is open after a change`},
		{"Changed comes for no key", signals(func(is <-chan struct{}, keys []lw.Key) <-chan struct{} {
			return map[bool]<-chan struct{}{true: never, false: is}[len(keys) > 0]
		}), `the channel of \w/\w+ is open after a change`},
		{"Changed comes for keys only", signals(func(is <-chan struct{}, keys []lw.Key) <-chan struct{} {
			return map[bool]<-chan struct{}{true: never, false: is}[len(keys) == 0]
		}), `the channel of any object is open after a change`},
		{"Changed comes without a change", signals(func(<-chan struct{}, []lw.Key) <-chan struct{} { return at }),
			`the channel of .* is closed without a change`},
		{"WaitFor never looks", func(s *subject) { s.Collection = elsewhere{stopped(false), s.Collection, s.Collection} },
			`WaitFor of \w/\w+ returned null, .*, want`},
		{"WaitFor ends too early", func(s *subject) { s.Collection = elsewhere{stopped(true), s.Collection, s.Collection} },
			`WaitFor of (\w/\w+|what does not come) returned`},
		{"a handler never syncs", func(s *subject) { s.Collection = elsewhere{s.Collection, s.Collection, stopped(false)} },
			`the handler: `},
		{"Get is stale", reads(func(r *faultyReader) { r.get = r.Reader.Snapshot().Get }), `the reader: Get of .* says`},
		{"List is stale", reads(func(r *faultyReader) { r.list = r.Reader.Snapshot().List }),
			`List of the reader: 0 objects, want`},
		{"the content is another", func(s *subject) {
			object := s.Object
			s.Object = func(key lw.Key, n int) *Widget { return object(key, n+10) }
		}, `List of the reader: \w/\w+ is .*"Size":[0-3]}, want .*"Size":1[0-3]}`},
		{"the name is another", reads(func(r *faultyReader) {
			r.list = func() (list []*Widget) {
				for _, w := range r.Reader.List() {
					list = append(list, newWidget(lw.Key{Namespace: w.Namespace, Name: w.Name + "-other"}, w.Size))
				}
				return list
			}
		}), `List of the reader: \w/\w+ is null, want`},
		{"All lacks one", reads(func(r *faultyReader) {
			r.all = func() []*Widget { return r.Reader.List()[min(1, r.Reader.Len()):] }
		}), `the reader lists \d objects, yields \d and counts \d, want \d`},
		{"All has another object", reads(func(r *faultyReader) {
			r.all = func() (all []*Widget) {
				for _, w := range r.Reader.List() {
					all = append(all, newWidget(lw.KeyOf(w), 9))
				}
				return all
			}
		}), `All has another object of`},
		{"Len counts too many", reads(func(r *faultyReader) { r.more = 1 }), `counts \d, want \d`},
		{"the order is the other way round", func(s *subject) {
			reads(func(r *faultyReader) {
				r.list = func() []*Widget {
					return slices.SortedFunc(r.Reader.All(), func(a, b *Widget) int { return byNames(b, a) })
				}
				r.all = r.list
			})(s)
			s.Compare = byNames
		}, `the reader is not in order`},
		{"a snapshot is stale", reads(func(r *faultyReader) { r.old = r.Reader.Snapshot() }),
			`List of a snapshot: \d objects, want`},
	}
	const child = "LWTEST_BROKEN_COLLECTIONS"
	if os.Getenv(child) != "" {
		for _, tc := range tests {
			t.Run(tc.name, func(t *testing.T) {
				lwtest.TestCollection(t, func(ctx context.Context) subject {
					m := lw.NewMemory[*Widget]()
					inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
					go inf.Run(ctx)
					s := over(inf, func(string) *lw.Memory[*Widget] { return m })
					tc.spoil(&s)
					return s
				})
			})
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenCollections$", "-test.v",
		"-rapid.shrinktime=1ms")
	cmd.Env = append(os.Environ(), child+"=1")
	out, _ := cmd.CombinedOutput() // an error, since all fail
	said := map[string]string{}
	for part := range strings.SplitSeq(string(out), "=== RUN   TestBrokenCollections/") {
		name, text, _ := strings.Cut(part, "\n")
		said[strings.ReplaceAll(name, "_", " ")] = text
	}
	for _, tc := range tests {
		if !regexp.MustCompile("lwtest: .*(" + tc.want + ")").MatchString(said[tc.name]) {
			t.Errorf("%s: want %q, got\n%s", tc.name, tc.want, said[tc.name])
		}
		if !strings.Contains(said[tc.name], "\n        The history:\n") {
			t.Errorf("%s: the report has no history:\n%s", tc.name, said[tc.name])
		}
	}
	for _, step := range []string{`put \w/\w+ with content [0-3]`, `remove \w/\w+`, `add handler \d+`, `remove handler \d+`} {
		if !regexp.MustCompile(`The history:\n( +.+\n)*? +` + step + `\n`).Match(out) {
			t.Errorf("no history tells of a step as %q", step)
		}
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
