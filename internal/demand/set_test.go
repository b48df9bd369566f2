package demand

import (
	"fmt"
	"testing"
)

// A Set knows the last namespaces that were let go, however many there were, until somebody wants
// one again.
func TestLetGo(t *testing.T) {
	s := &Set{}
	s.SetSpaces()
	space := func(i int) Key { return Key{Namespace: fmt.Sprint(i)} }
	for i := range 3 * maxPast {
		s.Set(Owner{}, []Key{space(i)})
	}
	s.Set(Owner{}, []Key{space(3*maxPast - 3)}) // wanted again
	for i, want := range map[int]bool{3*maxPast - 1: true, 3*maxPast - 2: true, 3*maxPast - 3: false, 2 * maxPast: true,
		2*maxPast - 2: false, 0: false} {
		if got := s.LetGo(space(i)); got != want {
			t.Errorf("namespace %d was let go: %t, want %t", i, got, want)
		}
	}
	if len(s.past) > maxPast {
		t.Errorf("%d namespaces are remembered", len(s.past))
	}
	s.Set(Owner{}, nil)
	if !s.LetGo(space(3*maxPast - 3)) {
		t.Error("a namespace that was wanted twice was not let go")
	}
}
