package simulate

import (
	"testing"
	"time"
)

// Run runs histories of a World until one fails, or all are done.
func Run(t *testing.T, w World) { t.Helper(); t.Fatal("simulate: Run is being built") }

// history is one run of the program.
type history struct{}

func (h *history) apply(string)       {}
func (h *history) delete(string)      {}
func (h *history) settle()            {}
func (h *history) pass(time.Duration) {}
