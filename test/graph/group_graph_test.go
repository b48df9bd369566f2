package graph_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
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
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		var group, inner lw.Group
		widgets := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
		hold := make(chan struct{})
		g := lw.NewGraph(&lw.GraphOptions{Name: "sums"})
		sums := lw.Derive(g, widgets, func(w *rig.Widget) *rig.Sum {
			if w.Size == 7 {
				<-hold
			}
			return rig.SumOf(w)
		})
		inner.Add(widgets)
		group.Add(&inner)
		remove := group.Add(g)
		probe := lwdebug.Healthy(&group, time.Minute)
		ready := func(when string, code int, texts ...string) {
			t.Helper()
			synctest.Wait()
			answer := httptest.NewRecorder()
			probe.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if answer.Code != code {
				t.Errorf("%s: %d %s, want %d", when, answer.Code, answer.Body, code)
			}
			for _, text := range texts {
				if !strings.Contains(answer.Body.String(), text) {
					t.Errorf("%s: %q does not say %q", when, answer.Body, text)
				}
			}
		}
		ready("before Run", http.StatusServiceUnavailable, "Widget", "graph sums: not synced")
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- group.Run(ctx) }()
		rig.OK(t, group.WaitForSync(ctx))
		if sums.Store().Len() != 1 {
			t.Errorf("%d sums", sums.Store().Len())
		}
		ready("when all has synced", http.StatusOK, "ok")

		rig.Update(t, m, "a", 7)
		synctest.Wait()
		time.Sleep(59 * time.Second)
		ready("in a function that hangs", http.StatusOK)
		time.Sleep(2 * time.Second)
		ready("in a function that hangs for a minute", http.StatusServiceUnavailable, "graph sums: in a step since", "sum")
		close(hold)
		ready("after it", http.StatusOK)

		m.Fail(errors.New("the server is down"))
		m.Disconnect()
		time.Sleep(30 * time.Second)
		ready("shortly without a server", http.StatusOK)
		if err := group.Healthy(10 * time.Second); err == nil || !strings.Contains(err.Error(), "the server is down") {
			t.Errorf("with a grace of 10 s: %v", err)
		}
		time.Sleep(time.Minute)
		ready("without a server", http.StatusServiceUnavailable, "the server is down")
		m.Fail(nil)
		time.Sleep(time.Minute)
		ready("with the server again", http.StatusOK)

		remove()
		rig.Update(t, m, "a", 3)
		synctest.Wait()
		if s, _ := sums.Store().Get(rig.Key("a")); s.Sum != 7 {
			t.Errorf("a graph that was removed shows %d", s.Sum)
		}
		ready("without the graph", http.StatusOK)
		group.Add(g)
		ready("with a graph that has stopped", http.StatusServiceUnavailable, "graph sums: "+lw.ErrStopped.Error())
		cancel()
		if err := <-ran; !errors.Is(err, lw.ErrStarted) {
			t.Errorf("Run returned %v, want the second Run of the graph", err)
		}
		ready("after Run", http.StatusServiceUnavailable, "Widget")
	})
}

// A member that has not synced is named, whatever it is.
func TestGroupSyncNamesGraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group lw.Group
		g := lw.NewGraph(&lw.GraphOptions{Name: "sums"})
		lw.Derive(g, lw.NewInformer(lw.NewMemory[*rig.Widget](), nil), rig.SumOf)
		group.Add(g)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go group.Run(ctx)
		err := group.WaitForSync(ctx)
		if err == nil || !strings.Contains(err.Error(), "Widget") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitForSync: %v, which does not name the informer", err)
		}
	})
}
