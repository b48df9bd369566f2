package main

import (
	"testing"
	"testing/synctest"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// The demonstration is the test. In a bubble its clock is its own, and whatever is still running at
// the end is a failure.
func TestDemo(t *testing.T) {
	// The second of these handlers pauses, by the time of the last error in the whole process. The
	// clock of a bubble begins in the year 2000, so it would pause for decades.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = handlers[:1]
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		if err := demo(t.Context(), t.Output()); err != nil {
			t.Error(err)
		}
	})
}
