package kinds_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw/kinds"
)

// What a change costs does not grow with the definitions that nobody has asked for, neither in the
// catalog nor in the server of the tests.
func TestManyDefinitions(t *testing.T) {
	cost := map[int]uint64{}
	for _, n := range []int{10, 1000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			for i := range n {
				w.define(spec{plural: fmt.Sprintf("widgets%d", i), kind: fmt.Sprintf("Widget%d", i), versions: "v1"})
			}
			w.run()
			f := w.follow(kinds.Name{Group: group, Version: "v1", Kind: "Widget9"}, nil)
			time.Sleep(time.Minute)
			f.is(t, true, "", 0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range 10 {
				w.redefine(spec{plural: "widgets9", kind: "Widget9", versions: "v1", description: fmt.Sprint(i)})
				synctest.Wait()
			}
			runtime.ReadMemStats(&after)
			cost[n] = after.Mallocs - before.Mallocs
			f.quiet(t)
		})
	}
	if cost[1000] > 2*cost[10] {
		t.Errorf("allocations of 10 changes, by the number of definitions: %v", cost)
	}
}
