package lw

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is set aside is told once for what is known, and always for an event; while one is held the version is.
func TestAside(t *testing.T) {
	a := setAsideObjects{recorder: &statusRecorder{}}
	var told []string
	report := func(err *Error) { told = append(told, err.Error()) }
	bad, worse := errors.New("bad"), errors.New("worse")
	one, two := Key{Name: "one"}, Key{Name: "two"}
	a.add(one, bad, false, report)
	a.add(one, bad, false, report) // a list says it again
	a.add(one, worse, false, report)
	if a.holds() {
		t.Error("an object of a list holds the version")
	}
	a.add(two, bad, true, report)
	a.add(two, bad, true, report) // another version
	a.listed(map[Key]error{two: bad}, report)
	if !a.holds() || !slices.Equal([]Key{two}, keys(a.recorder.setAside)) {
		t.Errorf("after a list: %v, holds: %v", a.recorder.setAside, a.holds())
	}
	if !a.remove(two) || a.remove(two) || a.holds() || !a.empty() {
		t.Error("it is still there after it was removed")
	}
	want := []string{"lw: decode one: bad", "lw: decode one: worse", "lw: decode two: bad", "lw: decode two: bad"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func keys(m map[Key]error) (out []Key) {
	for key := range m {
		out = append(out, key)
	}
	return out
}
