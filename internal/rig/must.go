package rig

import (
	"testing"
	"testing/synctest"
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

// Bubble runs f as a part of the test that has a name, in a bubble of its own.
func Bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
