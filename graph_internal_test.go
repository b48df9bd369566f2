package lw

import (
	"fmt"
	"iter"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/table"
)

// part is an object of the benchmarks of graphs.
type part struct {
	Meta
	Group string
	Size  int
}

func (p *part) Equal(other *part) bool { return p.Group == other.Group && p.Size == other.Size }

// hubCollection is a hub as a Collection, for a graph that reads it. Nothing else of it works.
type hubCollection struct {
	Collection[*part]
	hub *hub[*part]
}

func (c hubCollection) collection() *hub[*part]  { return c.hub }
func (c hubCollection) derived() *Derived[*part] { return nil }

// partsOf returns a hub with n objects, of which each ten are a group. set changes the size of one.
func partsOf(n int) (c hubCollection, set func(i, size int)) {
	c = hubCollection{hub: newHub[*part](&settings{Name: "parts"}, new(sync.Mutex))}
	objs := make([]*part, n)
	for i := range objs {
		objs[i] = &part{Meta: Meta{Namespace: "n", Name: fmt.Sprint("part-", i), ResourceVersion: "1"}, Group: fmt.Sprint("g", i/10)}
	}
	c.hub.replace(objs, "1", "1", false, table.Changes[*part]{})
	version := 1
	return c, func(i, size int) {
		version++
		p := *objs[i]
		p.Size, p.ResourceVersion = size, strconv.Itoa(version)
		c.hub.set(KeyOf(&p), &p, p.ResourceVersion, p.ResourceVersion)
	}
}

// BenchmarkGraphStep is a step of a graph of four collections, in which so many objects have
// changed. What writes the objects is in the figure.
func BenchmarkGraphStep(b *testing.B) {
	for _, changes := range []int{1, 100} {
		b.Run(fmt.Sprint("changes=", changes), func(b *testing.B) {
			const objects = 10_000
			parts, set := partsOf(objects)
			g := NewGraph(nil)
			slim := Derive(g, parts, func(p *part) *part { c := *p; return &c }, "slim")
			groups := GroupBy(g, slim, func(p *part) Key { return Key{Name: p.Group} }, Aggregate[*part, int]{
				Add:    func(n int, p *part) int { return n + p.Size },
				Remove: func(n int, p *part) int { return n - p.Size },
			}, func(k Key, n int) *part { return &part{Meta: Meta{Name: k.Name}, Group: k.Name, Size: n} }, "groups")
			LeftJoin(g, groups, slim, On[string, *part, *part]{
				Left:  One(func(p *part) string { return p.Group }),
				Right: func(p *part) iter.Seq[string] { return func(yield func(string) bool) { yield(p.Group) } },
				Where: func(l, r *part) bool { return l.Group == r.Group },
			}, func(l *part, rights []*part) *part {
				return &part{Meta: Meta{Name: l.Group}, Group: l.Group, Size: len(rights)}
			}, "joined")
			g.step()
			g.park()
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for range changes {
					n++
					set(n*7919%objects, n)
				}
				parts.hub.notify()
				g.step()
				g.park()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*changes), "ns/change")
		})
	}
}

// However many calls a step makes, the last one is told, and none when the step is over. The race
// detector sees that a reader may ask at any time.
func TestLastCallOfManyIsTold(t *testing.T) {
	g := NewGraph(nil)
	x := newFaults(g, "sums")
	over, asking := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asking)
		for !isClosed(over) {
			if c := g.calls.last(); c != nil && (c.Collection != "sums" || c.Key.Name != c.Function) {
				t.Errorf("half of a call is told: %v", c)
			}
		}
	}()
	defer func() { close(over); <-asking }()
	began := time.Now()
	g.calls.step(began)
	for i := range 1000 {
		name := strconv.Itoa(i)
		x.enter(name, Key{Name: name})
		want := &FunctionCall{Collection: "sums", Function: name, Key: Key{Name: name}, StepBegan: began}
		if diff := cmp.Diff(want, g.calls.last()); diff != "" {
			t.Fatalf("after call %d (-want +got):\n%s", i, diff)
		}
	}
	g.calls.step(time.Time{})
	if c := g.calls.last(); c != nil {
		t.Errorf("after the step: %v", c)
	}
}
