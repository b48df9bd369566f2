package names

import (
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A held is a name in use.
type held struct {
	base, name string
	number     int
}

// Random bases, some of which look like names with numbers: no two names are equal, each is its
// base and its number, and where no base looks so the number is the least that is free.
func TestNames(t *testing.T) {
	for name, bases := range map[string][]string{
		"plain": {"a", "b", ""}, "alike": {"a", "a#2", "a#3", "a#2#2", "#2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var s Set
				var all []held
				t.Repeat(map[string]func(*rapid.T){
					"take": func(t *rapid.T) {
						base := rapid.SampledFrom(bases).Draw(t, "base")
						got := held{base: base}
						got.name, got.number = s.Take(base)
						if got.name != numbered(base, got.number) {
							t.Fatalf("%q has number %d", got.name, got.number)
						}
						least := 1
						for inUse(all, numbered(base, least)) {
							least++
						}
						switch {
						case inUse(all, got.name):
							t.Fatalf("%s is in use", got.name)
						case got.number < least || name == "plain" && got.number > least:
							t.Fatalf("%s, want number %d", got.name, least)
						}
						all = append(all, got)
					},
					"release": func(t *rapid.T) {
						if len(all) == 0 {
							t.Skip("nothing is in use")
						}
						i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
						s.Release(all[i].base, all[i].number)
						all = slices.Delete(all, i, i+1)
					},
				})
				for _, h := range all {
					s.Release(h.base, h.number)
				}
				if len(s.entries) != 0 {
					t.Fatalf("%d entries are left", len(s.entries))
				}
			})
		})
	}
}

func inUse(all []held, name string) bool {
	return slices.ContainsFunc(all, func(h held) bool { return h.name == name })
}

// A number that a longer base has is passed over.
func TestBaseThatLooksNumbered(t *testing.T) {
	var s Set
	var got []string
	for _, base := range []string{"b#2", "b", "b", "b#2", "b#4", "b"} {
		name, _ := s.Take(base)
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"b#2", "b", "b#3", "b#2#2", "b#4", "b#5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a name costs does not depend on how many others have its base, whether numbers were given
// back or not. Each candidate that is tried is a string of its own, so allocations count them.
func TestCostOfOneName(t *testing.T) {
	for _, n := range []int{10, 1_000, 100_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			var s Set
			for range n {
				s.Take("Pod")
			}
			for _, back := range []int{0, 9} {
				for number := range back {
					s.Release("Pod", n-number)
				}
				// The string, its entry, and a number in an interface, of two names.
				if got, most := testing.AllocsPerRun(100, func() {
					_, one := s.Take("Pod")
					_, two := s.Take("Pod")
					s.Release("Pod", one)
					s.Release("Pod", two)
				}), 14.0; got > most {
					t.Errorf("with %d given back: %v allocations, want %v at most", back, got, most)
				}
			}
		})
	}
}

// The memory of all names together is linear.
func TestMemoryOfNames(t *testing.T) {
	for _, n := range []int{10, 1_000, 100_000} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var s Set
		for range n {
			s.Take("Pod")
		}
		for number := range n {
			s.Release("Pod", number+1)
		}
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(n+10)*1000; got > most {
			t.Errorf("%d names: %d bytes, want %d at most", n, got, most)
		}
	}
}
