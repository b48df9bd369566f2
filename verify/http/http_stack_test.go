//go:build !race

package http_test

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// TestIdleStack: an informer that waits for an event keeps a stack of 8 KiB. The runtime gives a
// goroutine half its stack back if less than a quarter is in use, so the frames from Run down to
// the body of the response must fit 3 KiB.
func TestIdleStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const informers = 50
		server := &talk{watch: `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"}
		client := server.client()
		before := stackInUse()
		for range informers {
			inf := lw.NewInformer(&lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: client}, nil)
			rig.Start(t, inf)
			rig.OK(t, inf.WaitForSync(t.Context()))
		}
		if got := (stackInUse() - before) / informers; got > 10<<10 {
			t.Errorf("an idle informer has a stack of %d bytes, want 8 KiB", got)
		}
	})
}

// stackInUse returns the bytes of stacks, after each goroutine has given back what it can.
func stackInUse() uint64 {
	synctest.Wait()
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
