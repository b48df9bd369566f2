package promserve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
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
	registry.MustRegister(Collector(h))
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
		"synced": 1, "objects": 1, "resource_version": 2, "history_events": 0, "history_bytes": 0, "watches": 0,
		"watches_total": 0,
		"lists_total":   1, "events_sent_total": 0, "encoded_total": 1, "expired_total": 0,
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

// collected is a collector of what a function sends.
type collected func(to chan<- prometheus.Metric)

func (collected) Describe(chan<- *prometheus.Desc)      {}
func (c collected) Collect(to chan<- prometheus.Metric) { c(to) }

// Each series has the value and the type that its name says: no two numbers of the status are the
// same.
func TestValues(t *testing.T) {
	statuses := []serve.Status{
		{Group: "example.io", Version: "v2", Resource: "widgets", Synced: true, Objects: 11, ResourceVersion: 12, Oldest: 99,
			Events: 13, Bytes: 14,
			Watches: 15, Lists: 16, Opened: 17, Sent: 18, Encoded: 19, Expired: 20},
		{Version: "v1", Resource: "pods"},
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collected(func(to chan<- prometheus.Metric) { collect(to, statuses) }))
	families, err := r.Gather()
	rig.OK(t, err)
	var text bytes.Buffer
	for _, f := range families {
		if f.GetHelp() == "" || !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("the help of %s is %q", f.GetName(), f.GetHelp())
		}
		rig.Must[int](t)(expfmt.MetricFamilyToText(&text, f))
	}
	const widgets, pods = `{resource="widgets.v2.example.io"} `, `{resource="pods.v1."} `
	var want []string
	for name, value := range map[string]string{
		"synced": "1", "objects": "11", "resource_version": "12", "history_events": "13", "history_bytes": "14",
		"watches":     "15",
		"lists_total": "16", "watches_total": "17", "events_sent_total": "18", "encoded_total": "19", "expired_total": "20",
	} {
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		name = "lw_serve_" + name
		want = append(want, "# TYPE "+name+" "+kind, name+widgets+value, name+pods+"0")
	}
	got := slices.DeleteFunc(strings.Split(strings.TrimSpace(text.String()), "\n"),
		func(line string) bool { return strings.HasPrefix(line, "# HELP") })
	slices.Sort(got)
	slices.Sort(want)
	rig.Same(t, "", want, got)
}

// A handler is needed; and what is described is what is sent.
func TestDescribe(t *testing.T) {
	rig.MustPanic(t, "nil Handler", func() { Collector(nil) })
	descs := make(chan *prometheus.Desc, 100)
	Collector(serve.New(nil)).Describe(descs)
	if len(descs) != len(all) {
		t.Errorf("%d series are described, want %d", len(descs), len(all))
	}
}
