package rig

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/history"
)

// OK ends the test at an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must is OK for a call that returns a value as well, which it returns: rig.Must[*T](t)(call()).
func Must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Same compares what a test wants with what it got; what says of what.
func Same[V any](t testing.TB, what string, want, got V, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Swap has the variable at hold a value until the test ends.
func Swap[V any](t testing.TB, at *V, v V) {
	before := *at
	*at = v
	t.Cleanup(func() { *at = before })
}

// Main runs the tests of a package that name the versions of a Memory.
func Main(m *testing.M) {
	history.FromOne = true
	os.Exit(m.Run())
}
