package equal

import "testing"

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
