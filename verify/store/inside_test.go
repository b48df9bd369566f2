package store_test

import (
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// A field that has another name is found by this test alone, and not only by those that need it.
func TestFieldIsThere(t *testing.T) {
	inf := lw.NewInformer(lw.NewMemory[*rig.Widget](), &lw.Options{DetectMutation: true})
	byName := lw.NewIndex(inf, func(w *rig.Widget) string { return w.Name })
	g := lw.NewGraph(nil)
	all, waiting := inside.Followers(inf)
	waits, noted := inside.VersionWaits(inf)
	members, keys := inside.Kept(new(lw.Group))
	for i, n := range []int{all, waiting, inside.Copies(inf), waits, noted, members, keys, inside.Signals(inf),
		inside.IndexSignals(byName), inside.Visits(g)} {
		if n != 0 {
			t.Errorf("number %d of what nobody has used yet is %d", i, n)
		}
	}
	inside.AfterStep(g, func() {})
	inside.MidCommit(g, func() {})
	inside.MidBrief(g, func() {})
	inside.SetBrief(g, 1)
}
