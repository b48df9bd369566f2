package handlers_test

import (
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

type (
	memory   = *lw.Memory[*rig.Widget]
	informer = *lw.Informer[*rig.Widget]
)

// inMemory runs a test in a bubble, with a Memory of widgets of such names and sizes as "a1 b2", and
// an informer of it that has synced.
func inMemory(t *testing.T, widgets string, opts *lw.Options, test func(t *testing.T, m memory, inf informer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, inf := runMemory(t, widgets, opts)
		test(t, m, inf)
	})
}

// runMemory makes the same in a bubble, and ofMemory an informer that has yet to run.
func runMemory(t *testing.T, widgets string, opts *lw.Options) (memory, informer) {
	t.Helper()
	m := lw.NewMemory(rig.Widgets(widgets)...)
	return m, rig.Run(t, m, opts)
}

func ofMemory(widgets string, opts *lw.Options) (memory, informer) {
	m := lw.NewMemory(rig.Widgets(widgets)...)
	return m, lw.NewInformer(m, opts)
}

// fed runs an informer of a source whose watch yields what the test sends. At 10 it has one widget.
func fed(t *testing.T) (*rig.Fed, informer) {
	t.Helper()
	src := &rig.Fed{Events: make(chan lw.WatchEvent[*rig.Widget]), Version: "10", Objs: []*rig.Widget{rig.Stamped("a", 1, "9")}}
	return src, rig.Run(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
}
