package arrange

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/equal"
)

type object struct {
	version int
	values  []string
}

// TestModel puts and removes random objects, and compares the groups with those of a map.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New[string, *object, int]()
		want := map[Key]*object{}
		version := 0
		names := rapid.SampledFrom([]int{3, 40}).Draw(t, "names")
		for range rapid.IntRange(1, 120).Draw(t, "commands") {
			key := Key{Namespace: rapid.SampledFrom([]string{"", "x"}).Draw(t, "namespace"),
				Name: fmt.Sprint(rapid.IntRange(0, names).Draw(t, "name"))}
			switch rapid.IntRange(0, 5).Draw(t, "command") {
			case 0:
				if e := a.Find(key); (e != nil) != (want[key] != nil) {
					t.Fatalf("Find(%v) = %v, want %v", key, e, want[key])
				} else if e != nil {
					a.Remove(e, equal.Distinct(slices.Clone(e.Object.values)))
				}
				delete(want, key)
			case 1: // somebody asks for the order
				for v := range a.groups {
					a.Sorted(v)
				}
			default:
				version++
				obj := &object{version, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, "values")}
				if rapid.Bool().Draw(t, "same") && want[key] != nil {
					obj.values = want[key].values
				}
				e := a.Put(key, obj, equal.Distinct(slices.Clone(obj.values)), func(e *Entry[*object, int]) []string {
					if e.Object != want[key] {
						t.Fatalf("asked for the values of %v, want %v", e.Object, want[key])
					}
					values := equal.Distinct(slices.Clone(e.Object.values))
					found := a.ValuesOf(e)
					slices.Sort(found)
					if want := slices.Sorted(slices.Values(values)); !slices.Equal(want, found) {
						t.Fatalf("ValuesOf(%v) = %v, want %v", e, found, want)
					}
					return values
				})
				if e.Object != obj || e.Key != key {
					t.Fatalf("Put(%v) = %v", key, e)
				}
				want[key] = obj
			}
			groups := map[string][]int{}
			for _, key := range slices.SortedFunc(maps.Keys(want), Compare) {
				for _, v := range equal.Distinct(slices.Clone(want[key].values)) {
					groups[v] = append(groups[v], want[key].version)
				}
			}
			got := map[string][]int{}
			read := a.Members
			sorted := rapid.Bool().Draw(t, "sorted")
			if sorted {
				read = a.Sorted
			}
			for v := range a.groups {
				for _, e := range read(v) {
					got[v] = append(got[v], e.Object.version)
				}
			}
			if !sorted {
				for v := range groups {
					slices.Sort(groups[v])
					slices.Sort(got[v])
				}
			}
			if d := cmp.Diff(groups, got); d != "" {
				t.Fatalf("groups (-want +got):\n%s", d)
			}
			if len(a.entries) != len(want) {
				t.Fatalf("%d objects, want %d", len(a.entries), len(want))
			}
		}
	})
}

// A group that was large and is small gives its memory back.
func TestGroupGivesMemoryBack(t *testing.T) {
	a := New[string, int, struct{}]()
	for i := range 1000 {
		a.Put(Key{Name: fmt.Sprint(i)}, i, []string{"v"}, nil)
	}
	for i := range 990 {
		a.Remove(a.Find(Key{Name: fmt.Sprint(i)}), []string{"v"})
	}
	if room := cap(a.groups["v"].members); room > 100 {
		t.Errorf("room for %d members, of 10", room)
	}
}

// An object with many values costs in proportion to their number. The cost of a map says how fast
// the machine is at the moment. That of the values is less than ten times as much, and would be
// some hundred times as much if each were searched in a list of all.
func TestManyValues(t *testing.T) {
	const values = 200000
	all := make([]int, values+1)
	for i := range all {
		all[i] = i
	}
	cost := fastest(func() {
		a := New[int, int, struct{}]()
		a.Put(Key{Name: "a"}, 0, all[1:], nil)
		a.Put(Key{Name: "a"}, 1, all[:values], func(*Entry[int, struct{}]) []int { return all[1:] })
	})
	base := fastest(func() {
		groups := map[int]*Entry[int, struct{}]{}
		for _, v := range all {
			groups[v] = &Entry[int, struct{}]{}
		}
	})
	if cost > 20*base {
		t.Errorf("%d values take %v, and to put them into a map takes %v", values, cost, base)
	}
}

// fastest returns the least time that f takes.
func fastest(f func()) time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 3 {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least
}
