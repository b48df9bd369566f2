package table

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTableCollisions uses keys with equal hashes. The searches for many of them begin at the last
// entry.
func TestTableCollisions(t *testing.T) {
	const n = 40
	for _, hash := range []uint64{0, 1 << 40, 1<<64 - 1} {
		key := func(i int) Key { return Key{Namespace: strconv.Itoa(i % 5), Name: strconv.Itoa(i / 5)} }
		table := newTable(n, true)
		number := func(i int) value { return box(i, true) }
		for i := range n {
			if table.full() {
				t.Fatalf("full with %d keys of %d", i, n)
			}
			if at := table.Find(hash, key(i)); at >= 0 {
				t.Fatalf("found %v before it was added, at %d", key(i), at)
			}
			table.add(hash, unique.Make(key(i).Namespace), key(i).Name, number(i), VersionID{uint64(i), uint32(2 * i)})
		}
		if !table.full() {
			t.Errorf("not full with %d keys", n)
		}
		moved, kept := make([]int32, n), int32(0)
		for i := range moved {
			if moved[i] = -1; i%3 != 0 {
				moved[i] = kept
				kept++
			}
		}
		rebuilt, grown := table.rebuilt(int(kept), moved, true), table.rebuilt(2*n, nil, true)
		is := func(table *Table, i, position int) bool {
			at := table.Find(hash, key(i))
			if at < 0 || position < 0 {
				return at < 0 && position < 0
			}
			return table.position(at) == position && table.entryAt(position) == at && table.key(at) == key(i) &&
				unbox[int](table.load(at), true) == i && table.versionID(position) == VersionID{uint64(i), uint32(2 * i)}
		}
		for i := range n {
			if !is(table, i, i) {
				t.Errorf("%v is not at position %d", key(i), i)
			}
			if !is(grown, i, i) {
				t.Errorf("%v is not at position %d after the table grew", key(i), i)
			}
			if !is(rebuilt, i, int(moved[i])) {
				t.Errorf("%v is not at position %d after the table was rebuilt", key(i), moved[i])
			}
		}
	}
}

// TestNameLengths uses names of each kind: short ones, whose length is in their entry, and ones too
// long for that.
func TestNameLengths(t *testing.T) {
	var names []string
	for _, n := range []int{0, 1, 253, longName - 1, longName, longName + 1, 1 << 20} {
		names = append(names, strings.Repeat("n", n), strings.Repeat("m", n)+"o")
	}
	table := newTable(len(names), false)
	seed := newSeed()
	for _, name := range names {
		key := Key{Name: name}
		table.add(hashOf(seed, key), unique.Make(""), name, box(name, true), VersionID{})
	}
	for _, table := range []*Table{table, table.rebuilt(2*len(names), nil, false)} {
		for i, name := range names {
			key := Key{Name: name}
			at := table.Find(hashOf(seed, key), key)
			if at < 0 || table.position(at) != i || table.key(at) != key || unbox[string](table.load(at), true) != name {
				t.Errorf("the name of length %d is not at position %d", len(name), i)
			}
			if at := table.Find(hashOf(seed, key), Key{Name: name + "x"}); at >= 0 {
				t.Errorf("found what is one byte longer than the name of length %d", len(name))
			}
		}
	}
}

// TestHash expects that each bit of a key counts, of either string, at any length, and that it
// changes half of the hash.
func TestHash(t *testing.T) {
	s := newSeed()
	seen := make(map[uint64]Key)
	changed, n := 0, 0
	for length := range 70 {
		for i := range length + 1 {
			key := Key{Namespace: strings.Repeat("a", i), Name: strings.Repeat("a", length-i)}
			hash := hashOf(s, key)
			if other, ok := seen[hash]; ok {
				t.Fatalf("%v and %v have one hash", key, other)
			}
			seen[hash] = key
			if i == length {
				continue
			}
			at := len(key.Name) / 2
			for _, other := range []Key{
				{Namespace: key.Namespace, Name: key.Name[:at] + "b" + key.Name[at+1:]},
				{Namespace: key.Namespace, Name: "b" + key.Name[1:]},
				{Namespace: key.Name, Name: key.Namespace},
			} {
				if other != key {
					changed += bits.OnesCount64(hash ^ hashOf(s, other))
					n++
				}
			}
		}
	}
	if mean := float64(changed) / float64(n); mean < 31.5 || mean > 32.5 {
		t.Errorf("%.2f of 64 bits change", mean)
	}
	key := Key{Namespace: "default", Name: "a"}
	//lint:ignore SA4000 Each call of newSeed returns another seed.
	if hashOf(newSeed(), key) == hashOf(newSeed(), key) {
		t.Error("two seeds make one hash")
	}
}

// TestHashSpread expects that names that are numbered fall evenly on the shards, by the low bits,
// and on a table's places, by the high ones.
func TestHashSpread(t *testing.T) {
	s := newSeed()
	const n, parts = 100_000, 64
	var low, high [parts]int
	for i := range n {
		hash := hashOf(s, Key{Namespace: fmt.Sprint("ns-", i%7), Name: fmt.Sprint("pod-", i)})
		low[hash%parts]++
		high[hash>>32*parts>>32]++
	}
	for what, counts := range map[string][parts]int{"low": low, "high": high} {
		chi := 0.0
		for _, count := range counts {
			d := float64(count) - n/parts
			chi += d * d / (n / parts)
		}
		// 63 degrees of freedom: a fair hash exceeds 140 once in ten million times.
		if chi > 140 {
			t.Errorf("%s bits: chi square is %.0f", what, chi)
		}
	}
}

// TestVector compares a Vector, its views and its forks with slices.
func TestVector(t *testing.T) {
	type seen struct {
		view View[*obj]
		want []*obj
	}
	rapid.Check(t, func(t *rapid.T) {
		var v Vector[*obj]
		var want []*obj
		var views []seen
		next := func() *obj { return &obj{version: len(want)} }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				checkVector(t, &v)
				if v.Len() != len(want) {
					t.Fatalf("Len() = %d, want %d", v.Len(), len(want))
				}
				for i := range want {
					if v.At(i) != want[i] {
						t.Fatalf("At(%d) = %v, want %v", i, v.At(i), want[i])
					}
				}
			},
			"Append": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "n") {
					o := next()
					v.Append(o)
					want = append(want, o)
				}
			},
			"Set": func(t *rapid.T) {
				if len(want) > 0 {
					i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
					o := next()
					if rapid.Bool().Draw(t, "hole") {
						o = nil
					}
					v.Set(i, o)
					want[i] = o
				}
			},
			"Pop": func(t *rapid.T) {
				for range min(len(want), rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "n")) {
					v.Pop()
					want = want[:len(want)-1]
				}
			},
			"View": func(*rapid.T) { views = append(views, seen{v.View(), slices.Clone(want)}) },
			"Fork": func(*rapid.T) {
				f := v.Fork()
				views = append(views, seen{v.View(), slices.Clone(want)})
				v = f
			},
		})
		for _, s := range views {
			var objs []*obj
			for i, o := range s.want {
				if s.view.At(i) != o {
					t.Fatalf("View.At(%d) = %v, want %v", i, s.view.At(i), o)
				}
				if o != nil {
					objs = append(objs, o)
				}
			}
			if s.view.At(len(s.want)) != nil || s.view.Live() != len(objs) {
				t.Fatalf("View has %d values, want %d", s.view.Live(), len(objs))
			}
			if got := s.view.AppendTo(nil); !slices.Equal(got, objs) {
				t.Fatalf("View.AppendTo (-want +got):\n%s", cmp.Diff(versions(objs), versions(got)))
			}
		}
	})
}
