package graph_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwdebug"
)

// A group runs graphs beside their informers, and a group of a group. Its readiness is that of all
// of them, and the handler of a probe answers it.
func TestGroupOfGraphs(t *testing.T) {
	inGraph(t, &lw.GraphOptions{Name: "sums"}, "a1", "", func(t *testing.T, b *graphBench) {
		var group, inner lw.Group
		hold := make(chan struct{})
		sums := lw.Derive(b.g, b.l, heldAt(7, hold))
		inner.Add(b.l)
		group.Add(&inner)
		remove := group.Add(b.g)
		probe := lwdebug.Healthy(&group, time.Minute)
		ready := func(when string, code int, texts ...string) {
			t.Helper()
			synctest.Wait()
			answer := httptest.NewRecorder()
			probe.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if answer.Code != code || !containsAll(answer.Body.String(), texts...) {
				t.Errorf("%s: %d %s, want %d with %q", when, answer.Code, answer.Body, code, texts)
			}
		}
		ready("before Run", http.StatusServiceUnavailable, "left", "graph sums: not synced")
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- group.Run(ctx) }()
		rig.OK(t, group.WaitForSync(ctx))
		mustShow(t, sums, "all has synced", map[string]int{"a": 1})
		ready("when all has synced", http.StatusOK, "ok")

		b.update(b.left, "a", 7)
		time.Sleep(59 * time.Second)
		ready("in a function that hangs", http.StatusOK)
		time.Sleep(2 * time.Second)
		ready("in a function that hangs for a minute", http.StatusServiceUnavailable, "graph sums: in a step since", "sum")
		close(hold)
		ready("after it", http.StatusOK)

		b.left.Fail(errors.New("the server is down"))
		b.left.Disconnect()
		time.Sleep(30 * time.Second)
		ready("shortly without a server", http.StatusOK)
		mustFail(t, "with a grace of 10 s", group.Healthy(10*time.Second), nil, "the server is down")
		time.Sleep(time.Minute)
		ready("without a server", http.StatusServiceUnavailable, "the server is down")
		b.left.Fail(nil)
		time.Sleep(time.Minute)
		ready("with the server again", http.StatusOK)

		remove()
		rig.Update(t, b.left, "a", 3)
		mustShow(t, sums, "a graph that was removed", map[string]int{"a": 7})
		ready("without the graph", http.StatusOK)
		group.Add(b.g)
		ready("with a graph that has stopped", http.StatusServiceUnavailable, "graph sums: "+lw.ErrStopped.Error())
		cancel()
		mustFail(t, "Run, a second one of the graph", <-ran, lw.ErrStarted)
		ready("after Run", http.StatusServiceUnavailable, "left")
	})
}

// A member that has not synced is named, whatever it is.
func TestGroupSyncNamesGraphs(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		var group lw.Group
		lw.Derive(b.g, b.l, rig.SumOf)
		group.Add(b.g)
		ctx := within(t, time.Second)
		go group.Run(ctx)
		mustFail(t, "WaitForSync", group.WaitForSync(ctx), context.DeadlineExceeded, "left")
	})
}
