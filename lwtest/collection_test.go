package lwtest_test

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
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
