package handlers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	leak.Main(m)
}

type (
	memory   = *lw.Memory[*rig.Widget]
	informer = *lw.Informer[*rig.Widget]
)

// inMemory runs a test in a bubble, with a Memory of widgets of such names and sizes as "a1 b2",
// and an informer of it that has synced.
func inMemory(t *testing.T, widgets string, opts *lw.Options, test func(t *testing.T, m memory, inf informer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, inf := runMemory(t, widgets, opts)
		test(t, m, inf)
	})
}

// beforeRun does the same with an informer that has yet to run.
func beforeRun(t *testing.T, widgets string, opts *lw.Options, test func(t *testing.T, m memory, inf informer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, inf := ofMemory(widgets, opts)
		test(t, m, inf)
	})
}

// hidingOther runs such a test with an informer that is not shown the widget "other", whose writes
// only move the version on.
func hidingOther(t *testing.T, widgets string, opts *lw.Options, test func(t *testing.T, m memory, inf informer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.Widgets(widgets)...)
		test(t, m, rig.Run(t, but(m, "other"), opts))
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

// within is a context that is done after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// strict are options of an informer that must have no error.
func strict(t *testing.T) *lw.Options {
	return &lw.Options{OnError: func(err error) { t.Error(err) }}
}

// fed runs an informer of a source whose watch yields what the test sends. At 10 it has one widget.
func fed(t *testing.T) (*rig.Fed, informer) {
	t.Helper()
	src := &rig.Fed{Events: make(chan lw.WatchEvent[*rig.Widget]), Version: "10",
		Objs: []*rig.Widget{rig.Stamped("a", 1, "9")}}
	return src, rig.Run(t, src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
}

// mustLeaveNothing checks that inf has no channel of Changed or of WaitFor.
func mustLeaveNothing(t *testing.T, inf informer) {
	t.Helper()
	if n := inside.Signals(inf); n != 0 {
		t.Errorf("%d channels are left", n)
	}
}

// mustBePending checks how many changes a handler has yet to be told, when all is calm.
func mustBePending(t *testing.T, reg *lw.Registration, want int, when string) {
	t.Helper()
	synctest.Wait()
	if n := reg.Pending(); n != want {
		t.Errorf("%s: %d changes pending, want %d", when, n, want)
	}
}

// mustBeWell checks that inf is healthy, and has listed once.
func mustBeWell(t *testing.T, inf informer) {
	t.Helper()
	if s := inf.Status(); rig.Relists(s) > 0 || s.Healthy() != nil {
		t.Errorf("%d relists, %v", rig.Relists(s), s.Healthy())
	}
}
