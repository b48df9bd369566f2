package equal

import (
	"math"
	"reflect"
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
			switch rapid.IntRange(0, 4).Draw(t, "but for") {
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
	if Hash(map[string]int{"a": 1, "b": 2}) != Hash(map[string]int{"b": 2, "a": 1}) || Hash(map[string]int{"a": 1}) == Hash(map[string]int{"a": 2}) {
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
