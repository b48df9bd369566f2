package order

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A list and all its copies have what a map has to which the same was done, at any time.
func TestModel(t *testing.T) {
	type pair struct {
		list  *List[int]
		model map[string]int
	}
	rapid.Check(t, func(t *rapid.T) {
		pairs := []pair{{new(List[int]), map[string]int{}}}
		// Few paths make collisions; many make several chunks.
		paths := rapid.SampledFrom([]int{4, 100, 3000}).Draw(t, "paths")
		path := func() string {
			return fmt.Sprintf("ns-%d/%d", rapid.IntRange(0, 2).Draw(t, "namespace"), rapid.IntRange(0, paths).Draw(t, "name"))
		}
		one := func() pair { return pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "list")] }
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				p, at, v := one(), path(), rapid.Int().Draw(t, "value")
				want, wantOK := p.model[at]
				p.model[at] = v
				if got, ok := p.list.Set(at, v); got != want || ok != wantOK {
					t.Fatalf("Set(%s) returns %d %v, want %d %v", at, got, ok, want, wantOK)
				}
			},
			"fill": func(t *rapid.T) {
				p, from := one(), rapid.IntRange(0, paths).Draw(t, "from")
				for i := range min(paths, 700) {
					at := fmt.Sprintf("ns-1/%d", from+i)
					p.list.Set(at, i)
					p.model[at] = i
				}
			},
			"empty": func(t *rapid.T) {
				p, from := one(), rapid.IntRange(0, paths).Draw(t, "from")
				for i := range min(paths, 700) {
					at := fmt.Sprintf("ns-1/%d", from+i)
					p.list.Delete(at)
					delete(p.model, at)
				}
			},
			"delete": func(t *rapid.T) {
				p, at := one(), path()
				want, wantOK := p.model[at]
				delete(p.model, at)
				if got, ok := p.list.Delete(at); got != want || ok != wantOK {
					t.Fatalf("Delete(%s) returns %d %v, want %d %v", at, got, ok, want, wantOK)
				}
			},
			"copy": func(t *rapid.T) {
				if len(pairs) < 5 {
					p := one()
					c := p.list.Copy()
					pairs = append(pairs, pair{&c, maps.Clone(p.model)})
				}
			},
			"count": func(t *rapid.T) {
				p, from, to := one(), path(), path()
				want, rest := 0, 0
				for at := range p.model {
					if at >= from {
						rest++
						if at < to {
							want++
						}
					}
				}
				if got := p.list.Count(from, to); got != want {
					t.Fatalf("Count(%s, %s) returns %d, want %d", from, to, got, want)
				}
				if got := p.list.Count(from, ""); got != rest {
					t.Fatalf("Count(%s) returns %d, want %d", from, got, rest)
				}
			},
			"from": func(t *rapid.T) {
				p, from := one(), path()
				var want []string
				for _, at := range slices.Sorted(maps.Keys(p.model)) {
					if at >= from && len(want) < 3 {
						want = append(want, at)
					}
				}
				if diff := cmp.Diff(want, first(3, p.list.From(from))); diff != "" {
					t.Fatal(diff)
				}
			},
			"": func(t *rapid.T) {
				for _, p := range pairs {
					// To sort the keys for a diff costs most of the time, so it is made of what differs.
					if got := maps.Collect(p.list.From("")); !maps.Equal(p.model, got) {
						t.Fatal(cmp.Diff(p.model, got))
					}
					if !slices.IsSorted(slices.Collect(keys(p.list.From("")))) {
						t.Fatal("not sorted")
					}
					if p.list.Len() != len(p.model) {
						t.Fatalf("Len is %d, want %d", p.list.Len(), len(p.model))
					}
					at := path()
					want, wantOK := p.model[at]
					if got, ok := p.list.Get(at); got != want || ok != wantOK {
						t.Fatalf("Get(%s) returns %d %v, want %d %v", at, got, ok, want, wantOK)
					}
				}
			},
		})
	})
}

func keys[V any](seq iter.Seq2[string, V]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range seq {
			if !yield(k) {
				return
			}
		}
	}
}

func first[V any](n int, seq iter.Seq2[string, V]) (paths []string) {
	for k := range seq {
		if len(paths) == n {
			break
		}
		paths = append(paths, k)
	}
	return paths
}

// A copy costs nothing, and a change after it a chunk and the pointers to the others.
func TestCopyIsCheap(t *testing.T) {
	var l List[*int]
	for i := range 100_000 {
		l.Set(fmt.Sprintf("%06d", i), nil)
	}
	if n := testing.AllocsPerRun(100, func() { l.Copy() }); n != 0 {
		t.Errorf("a copy allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { l.Copy(); l.Set("050000", nil) }); n > 4 {
		t.Errorf("a change after a copy allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { l.Set("050000", nil) }); n != 0 {
		t.Errorf("a change allocates %v times", n)
	}
	if len(l.chunks) > 100_000/chunkSize+1 {
		t.Errorf("%d chunks", len(l.chunks))
	}
}
