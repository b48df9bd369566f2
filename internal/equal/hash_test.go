package equal

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type leaf struct {
	A    int8
	b    uint16
	C    float64
	D    string
	E    []byte
	F    map[string]*leaf
	G    any
	H    [2]bool
	I    []leaf
	Next *leaf
	J    complex64
}

func draw(t *rapid.T, depth int) leaf {
	l := leaf{
		A: rapid.Int8Range(0, 1).Draw(t, "A"),
		b: rapid.Uint16Range(0, 1).Draw(t, "b"),
		C: rapid.SampledFrom([]float64{0, 1, math.Inf(1)}).Draw(t, "C"),
		D: rapid.SampledFrom([]string{"", "a", "ab"}).Draw(t, "D"),
		E: rapid.SampledFrom([][]byte{nil, {}, {0}, {0, 0}}).Draw(t, "E"),
		G: rapid.SampledFrom([]any{nil, 0, int8(0), "", 'a'}).Draw(t, "G"),
		H: [2]bool{rapid.Bool().Draw(t, "H0"), rapid.Bool().Draw(t, "H1")},
		J: rapid.SampledFrom([]complex64{0, 1i}).Draw(t, "J"),
	}
	if depth > 0 && rapid.Bool().Draw(t, "deeper") {
		next := draw(t, depth-1)
		l.Next = &next
		l.I = append(l.I, draw(t, 0))
		l.F = map[string]*leaf{"x": &next, "y": nil, rapid.SampledFrom([]string{"z", "zz"}).Draw(t, "key"): {}}
	}
	return l
}

// TestHash compares values by their hashes as reflect.DeepEqual does.
func TestHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, 2), draw(t, 2)
		if rapid.Bool().Draw(t, "alike") {
			b = a
			n := *a.clone()
			b = n
			switch rapid.IntRange(0, 7).Draw(t, "but for") {
			case 0:
				b.b++
			case 1:
				b.E = append(b.E, 1)
			case 2:
				if b.Next != nil {
					b.Next.D += "!"
				}
			case 3:
				if len(b.I) > 0 {
					b.I[0].A++
				}
			case 4:
				b.C = math.Pi
			case 5:
				b.J += 1i
			case 6:
				b.H[1] = !b.H[1]
			}
		}
		if same := reflect.DeepEqual(a, b); same != (Hash(&a) == Hash(&b)) {
			t.Fatalf("DeepEqual is %v of\n%+v\n%+v", same, a, b)
		}
	})
}

// clone copies l and what it leads to.
func (l *leaf) clone() *leaf {
	if l == nil {
		return nil
	}
	c := *l
	if l.E != nil {
		c.E = append([]byte{}, l.E...)
	}
	if l.F != nil {
		c.F = map[string]*leaf{}
		for k, v := range l.F {
			c.F[k] = v.clone()
		}
	}
	if l.I != nil {
		c.I = append([]leaf{}, l.I...)
	}
	c.Next = l.Next.clone()
	return &c
}

// A ring comes to an end, and times are told apart.
func TestHashOfARing(t *testing.T) {
	ring := func(d string) *leaf {
		l := &leaf{D: d}
		l.Next = &leaf{Next: l}
		return l
	}
	if a, again := Hash(ring("a")), Hash(ring("a")); a != again || a == Hash(ring("b")) {
		t.Error("rings")
	}
	self := map[string]any{"a": 1}
	self["self"] = self
	if one, again := Hash(self), Hash(self); one != again {
		t.Error("a map in itself")
	}
	if Hash(map[string]int{"a": 1, "b": 2}) != Hash(map[string]int{"b": 2, "a": 1}) ||
		Hash(map[string]int{"a": 1}) == Hash(map[string]int{"a": 2}) {
		t.Error("maps")
	}
	f, g := func() {}, make(chan int)
	if one, again := Hash(f), Hash(f); one != again || Hash(g) == Hash(make(chan int)) {
		t.Error("functions and channels")
	}
	if one, again := Hash(time.Unix(1, 0)), Hash(time.Unix(1, 0)); one != again || one == Hash(time.Unix(1, 1)) {
		t.Error("times")
	}
	if Hash(0.0) != Hash(math.Copysign(0, -1)) {
		t.Error("the zeros are equal")
	}
}

// A twig leads to others, which may be one.
type twig struct {
	Name        string
	Left, Right *twig
	Names       map[string]*twig
	All         []any
}

// TestHashOfSharedParts: more ways lead through these values than anybody can go. Whether the parts
// are shared makes no difference, what is in one of them does.
func TestHashOfSharedParts(t *testing.T) {
	grow := map[string]func(below *twig) *twig{
		"pointers": func(below *twig) *twig { return &twig{Left: below, Right: below} },
		"maps":     func(below *twig) *twig { return &twig{Names: map[string]*twig{"a": below, "b": below}} },
		"slices":   func(below *twig) *twig { s := []any{below.All}; return &twig{All: []any{s, s}} },
	}
	for name, grow := range grow {
		for _, ring := range []bool{false, true} {
			chain := func(depth int, leaf string) *twig {
				end := &twig{Name: leaf, All: []any{leaf}}
				top := end
				for range depth {
					top = grow(top)
				}
				if ring {
					end.Left = top
					end.All = append(end.All, top)
				}
				return top
			}
			if one, again := Hash(chain(60, "x")), Hash(chain(60, "x")); one != again || one == Hash(chain(60, "y")) {
				t.Errorf("%s, ring %v: the leaf does not decide", name, ring)
			}
			if Hash(chain(60, "x")) == Hash(chain(61, "x")) {
				t.Errorf("%s, ring %v: the depth makes no difference", name, ring)
			}
		}
	}
	one := &twig{Name: "x"}
	if Hash(&twig{Left: one, Right: one}) != Hash(&twig{Left: one, Right: &twig{Name: "x"}}) {
		t.Error("it makes a difference that a part is shared")
	}
}

// TestHashOfRings compares rings as reflect.DeepEqual does: by what is met on the way.
func TestHashOfRings(t *testing.T) {
	ring := func(names ...string) *twig {
		all := make([]twig, len(names))
		for i, name := range names {
			all[i] = twig{Name: name, Right: &all[(i+1)%len(all)]}
		}
		return &all[0]
	}
	long := make([]string, 200)
	other := append([]string(nil), long...)
	other[150] = "x"
	rings := []*twig{ring("a"), ring("a", "a"), ring("a", "b"), ring("b", "a"), ring("a", "b", "a", "b"),
		ring("a", "b", "b"), ring(long...), ring(other...)}
	for i, a := range rings {
		for j, b := range rings {
			if same := reflect.DeepEqual(a, b); same != (Hash(a) == Hash(b)) {
				t.Errorf("rings %d and %d: DeepEqual is %v", i, j, same)
			}
		}
	}
	self := func(last any) []any {
		s := []any{nil, last}
		s[0] = s
		return s
	}
	if one, again := Hash(self(1)), Hash(self(1)); one != again || one == Hash(self(2)) {
		t.Error("what is in a slice that is in itself does not decide")
	}
}

type thing struct{ name string }

// check takes the two values that a table of cases could not have: each case has a type of its own.
func check[T any](t *testing.T, what string, a, b T, same, zero bool) {
	t.Helper()
	if got := Same(a, b); got != same {
		t.Errorf("%s: Same is %v, want %v", what, got, same)
	}
	if got := IsZero(a); got != zero {
		t.Errorf("%s: IsZero of the first is %v, want %v", what, got, zero)
	}
}

func TestEqual(t *testing.T) {
	one, other := &thing{"a"}, &thing{"a"}
	check(t, "one pointer", one, one, true, false)
	check(t, "two pointers to equal things", one, other, false, false)
	check(t, "nil and a pointer", nil, one, false, true)
	check[*thing](t, "nil twice", nil, nil, true, true)
	check(t, "equal structs", *one, *other, true, false)
	check(t, "different structs", thing{"a"}, thing{"b"}, false, false)
	check(t, "a zero struct", thing{}, thing{}, true, true)
	check(t, "structs whose first word is zero", [2]uint{0, 1}, [2]uint{0, 2}, false, false)
	check[any](t, "one pointer in interfaces", one, one, true, false)
	check[any](t, "two pointers in interfaces", one, other, false, false)
	check[any](t, "no interface and one", nil, one, false, true)
	check[any](t, "a nil pointer in an interface is not the zero interface", (*thing)(nil), nil, false, false)
	check(t, "strings", "a", "b", false, false)
	check(t, "words", uint64(7), 7, true, false)
	check(t, "the zero word", uint64(0), 7, false, true)
}

func TestAllocations(t *testing.T) {
	one, other := &thing{"a"}, &thing{"b"}
	a, b := *one, *other
	if n := testing.AllocsPerRun(100, func() {
		if Same(one, other) || IsZero(one) || Same(a, b) || IsZero(a) {
			t.Error("wrong result")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDistinct(t *testing.T) {
	nan := math.NaN()
	many := make([]float64, 0, 60)
	for i := range 30 {
		many = append(many, float64(i), float64(i), nan)
	}
	for _, values := range [][]float64{nil, {1}, {1, 1, 2, nan, 1}, {nan}, many} {
		var want []float64
		for _, v := range values {
			if v == v && !slices.Contains(want, v) {
				want = append(want, v)
			}
		}
		got := Distinct(slices.Clone(values))
		if !slices.Equal(want, got) {
			t.Errorf("Distinct(%v) = %v, want %v", values, got, want)
		}
		// What was removed is not kept in memory by what is left.
		if rest := got[len(got):len(values)]; slices.ContainsFunc(rest, func(v float64) bool { return v != 0 }) {
			t.Errorf("Distinct(%v) leaves %v behind its result", values, rest)
		}
	}
}
