package settle

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A result is what the tests claim: two results of one text do not differ.
type result struct{ text string }

func same(a, b *result) bool { return a.text == b.text }

// TestModel makes random claims, and compares what is shown with the smallest claim of each key.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shown := map[Key]*result{}
		type claimOf struct {
			origin int
			key    Key
		}
		claims := map[claimOf]*result{}
		rivals := map[Key]bool{}
		pairs := map[Key][2]int{} // the two that were named last
		rules := Rules[int, *result]{
			Compare: cmp.Compare[int], Same: same,
			Shown: func(key Key) (*result, bool) { obj, ok := shown[key]; return obj, ok },
			Rivals: func(key Key, first, second int, several bool) {
				if !several && !rivals[key] {
					t.Fatalf("told that %v has lost rivals that it had not", key)
				}
				if rivals[key] = several; several {
					pairs[key] = [2]int{first, second}
				} else {
					delete(pairs, key)
				}
			},
		}
		if rapid.Bool().Draw(t, "home") {
			rules.Home = func(key Key) int { return len(key.Name) % 3 }
		}
		r := NewResults(rules)
		// Few keys have many rivals, many have few.
		names := []string{"a", "b", "aa", "ab", "ba", "bb", "aaa", "aba"}[:rapid.SampledFrom([]int{1, 2, 8}).Draw(t, "keys")]
		origins := rapid.SampledFrom([]int{4, 3 * few}).Draw(t, "origins")
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before := maps.Clone(shown)
			for range rapid.IntRange(0, 60).Draw(t, "claims") {
				c := claimOf{rapid.IntRange(0, origins).Draw(t, "origin"), Key{Name: rapid.SampledFrom(names).Draw(t, "key")}}
				if rapid.Bool().Draw(t, "drop") {
					r.Drop(c.origin, c.key)
					delete(claims, c)
					continue
				}
				obj := &result{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "text")}
				was := claims[c]
				if got, want := r.Put(c.origin, c.key, obj), was != nil && same(was, obj); got != want {
					t.Fatalf("Put(%v) = %v, want %v", c, got, want)
				}
				claims[c] = obj
			}
			r.Decide()
			told := map[Key]bool{}
			for _, change := range r.Changes() {
				if told[change.Key] || change.Old != before[change.Key] {
					t.Fatalf("change %v, and before it was %v", change, before[change.Key])
				}
				told[change.Key] = true
				if change.Old != nil && change.New != nil && same(change.Old, change.New) || change.Old == change.New {
					t.Fatalf("change %v is none", change)
				}
				if !r.Changed(change.Key) {
					t.Fatalf("%v has changed", change.Key)
				}
				if shown[change.Key] = change.New; change.New == nil {
					delete(shown, change.Key)
				}
			}
			r.Reset()
			want, got, count := map[string]string{}, map[string]string{}, map[Key]int{}
			owner := map[Key]int{}
			for c, obj := range claims {
				if count[c.key]++; count[c.key] == 1 || c.origin < owner[c.key] {
					owner[c.key], want[c.key.Name] = c.origin, obj.text
				}
			}
			for key, obj := range shown {
				got[key.Name] = obj.text
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatalf("shown (-want +got):\n%s", d)
			}
			for key := range rivals {
				if rivals[key] != (count[key] > 1) {
					t.Fatalf("%v has %d claims, and rivals is %v", key, count[key], rivals[key])
				}
			}
			for key, n := range count {
				if n > 1 && !rivals[key] {
					t.Fatalf("not told of the rivals of %v", key)
				}
				if n > 1 {
					var origins []int
					for c := range claims {
						if c.key == key {
							origins = append(origins, c.origin)
						}
					}
					slices.Sort(origins)
					if got, want := pairs[key], [2]int(origins[:2]); got != want {
						t.Fatalf("the rivals of %v are %v, want %v", key, got, want)
					}
				}
				waiting := 0
				if q := r.rivals[key]; q != nil {
					waiting = q.Len()
				}
				if waiting != n-1 || waiting == 0 && r.rivals[key] != nil {
					t.Fatalf("%d claims of %v wait, want %d", waiting, key, n-1)
				}
			}
			if len(r.owners) > len(shown) || rules.Home != nil && slices.ContainsFunc(slices.Collect(maps.Keys(shown)),
				func(key Key) bool {
					o, ok := r.owners[key]
					return ok && o == rules.Home(key)
				}) {
				t.Fatalf("owners %v of %v", r.owners, shown)
			}
		}
	})
}

// TestNet changes many keys, so that the map is used, and drops what came to nothing.
func TestNet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n Net[*result]
		for range 3 {
			first, last := map[Key]*result{}, map[Key]*result{}
			var order []Key
			for range rapid.IntRange(0, 40).Draw(t, "changes") {
				key := Key{Name: fmt.Sprint(rapid.IntRange(0, 14).Draw(t, "key"))}
				old, obj := last[key], rapid.SampledFrom([]*result{nil, {"x"}, {"y"}}).Draw(t, "object")
				if _, ok := first[key]; !ok {
					old = rapid.SampledFrom([]*result{nil, {"x"}}).Draw(t, "old")
					first[key] = old
					order = append(order, key)
				}
				last[key] = obj
				n.Set(key, old, obj)
				if got, ok := n.Get(key); !ok || got != obj {
					t.Fatalf("Get(%v) = %v, %v", key, got, ok)
				}
			}
			n.Drop(same)
			var want []Change[*result]
			for _, key := range order {
				a, b := first[key], last[key]
				if a == b || a != nil && b != nil && same(a, b) {
					if _, ok := n.Get(key); ok {
						t.Fatalf("%v has changed", key)
					}
					continue
				}
				want = append(want, Change[*result]{key, a, b})
				if got, ok := n.Get(key); !ok || got != b {
					t.Fatalf("Get(%v) = %v, %v after Drop", key, got, ok)
				}
			}
			if !slices.Equal(want, n.Changes()) {
				t.Fatalf("changes %v, want %v", n.Changes(), want)
			}
			n.Reset()
		}
	})
}

// What one big step needed is not kept.
func TestNetGivesMemoryBack(t *testing.T) {
	var n Net[*result]
	for i := range 10 * most {
		n.Set(Key{Name: fmt.Sprint(i)}, nil, &result{})
	}
	n.Reset()
	if cap(n.changes) > most || len(n.places) > 0 {
		t.Errorf("room for %d changes", cap(n.changes))
	}
}

// Each of the rivals of a key costs the logarithm of their number, whatever their order: so many
// comparisons.
func TestManyRivals(t *testing.T) {
	const rivals = 40000
	compared := 0
	r := NewResults(Rules[int, *result]{
		Compare: func(a, b int) int { compared++; return cmp.Compare(a, b) }, Same: same,
		Shown: func(Key) (*result, bool) { return nil, false },
	})
	key := Key{Name: "a"}
	for i := range rivals { // each comes before all others
		r.Put(rivals-i, key, &result{})
	}
	for i := range rivals { // and the first one goes
		r.Drop(i+1, key)
	}
	if most := 4 * rivals * bits.Len(rivals); compared > most {
		t.Errorf("%d rivals are compared %d times, want at most %d", rivals, compared, most)
	}
}
