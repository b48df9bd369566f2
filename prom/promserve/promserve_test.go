package promserve_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/prom/promserve"
	"github.com/go-lw/lw/serve"
)

type widget struct {
	lw.Meta `json:"metadata"`
}

// The series of a collection that was listed once.
func TestCollector(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: slog.New(slog.DiscardHandler)})
	m := lw.NewMemory(&widget{lw.Meta{Namespace: "n", Name: "a"}})
	ended := make(chan error, 1)
	go func() {
		ended <- serve.ServeMemory(ctx, h, m, serve.Resource[*widget]{Group: "example.io", Name: "widgets", Kind: "Widget"})
	}()
	srv := httptest.NewServer(h)
	for {
		resp := rig.Must[*http.Response](t)(http.Get(srv.URL + "/apis/example.io/v1/widgets"))
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			break
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promserve.Collector(h))
	families, err := registry.Gather()
	rig.OK(t, err)
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		if l := m.GetLabel()[0]; l.GetName() != "resource" || l.GetValue() != "widgets.v1.example.io" {
			t.Errorf("label %v", l)
		}
		got[strings.TrimPrefix(f.GetName(), "lw_serve_")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	want := map[string]float64{
		"synced": 1, "objects": 1, "resource_version": 2, "history_events": 0, "history_bytes": 0, "watches": 0, "watches_total": 0,
		"lists_total": 1, "events_sent_total": 0, "encoded_total": 1, "expired_total": 0,
	}
	rig.Same(t, "", want, got)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	cancel()
	<-ended
	srv.Close()
}

func TestMain(m *testing.M) { rig.Main(m) }
