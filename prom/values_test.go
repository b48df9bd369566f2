package prom

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// collected is a collector of what a function sends.
type collected func(to chan<- prometheus.Metric)

func (collected) Describe(chan<- *prometheus.Desc)      {}
func (c collected) Collect(to chan<- prometheus.Metric) { c(to) }

// series returns the lines of what send sends, without histograms, sorted.
func series(t *testing.T, send collected) []string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(send)
	families, err := r.Gather()
	rig.OK(t, err)
	var text bytes.Buffer
	for _, f := range families {
		rig.Must[int](t)(expfmt.MetricFamilyToText(&text, f))
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text.String()), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "#") || strings.Contains(line, "_lag_seconds")
	})
	slices.Sort(lines)
	return lines
}

func faults(n int) map[lw.Key]error {
	all := map[lw.Key]error{}
	for i := range n {
		all[lw.Key{Name: strings.Repeat("x", i+1)}] = errors.New("bad")
	}
	return all
}

var told = []lw.HandlerStatus{{Name: "h", Pending: 50, Calls: map[lw.EventType]uint64{lw.Added: 51, lw.Updated: 52,
	lw.Deleted: 53}, Folded: 54, Panics: 55}}

// Each series has the value that its name says: no two numbers of this status are the same.
func TestValuesOfAnInformer(t *testing.T) {
	s := lw.Status{
		Unserved:        "no CRD serves it",
		StoreStatus:     lw.StoreStatus{Synced: true, Objects: 12, SetAside: faults(3), Handlers: told},
		ResourceVersion: "11", LastEvent: time.Unix(1700000000, 250_000_000), LastList: time.Unix(1700000001, 500_000_000),
		Failures: 13, Epoch: 14,
		Packed:    &lw.PackUsage{Limit: 71, Bytes: 72, LetGo: 73, Requests: 74, Gone: 75, Failed: 76},
		Undecoded: 15, Backoff: 16500 * time.Millisecond, Requests: map[string]lw.RequestCount{
			"list":  {Started: 67, Ended: map[int]uint64{0: 21, 200: 22, 403: 23}, Time: 7500 * time.Millisecond},
			"watch": {Started: 25, Ended: map[int]uint64{410: 24}, Time: 8 * time.Second},
			"probe": {Started: 1},
		}, ListCauses: map[string]uint64{
			"first": 31, "expired": 32, "gap": 33, "older": 34, "protocol": 35, "unreadable": 36, "failing": 37,
			"unversioned": 38,
		}, Events: map[string]uint64{"added": 41, "modified": 42, "deleted": 43, "bookmark": 44},
		Behind: map[string]map[float64]time.Duration{"told": {0.5: 61 * time.Second, 0.99: 62500 * time.Millisecond},
			"asked": {}},
		BehindCount: map[string]uint64{"told": 63, "asked": 64}, BehindSum: map[string]time.Duration{"told": 65 * time.Second,
			"asked": 66 * time.Second},
	}
	got := series(t, func(to chan<- prometheus.Metric) { informer(to, "i", s) })
	want := []string{
		`lw_handler_calls_total{collection="",graph="",handler="h",informer="i",type="added"} 51`,
		`lw_handler_calls_total{collection="",graph="",handler="h",informer="i",type="deleted"} 53`,
		`lw_handler_calls_total{collection="",graph="",handler="h",informer="i",type="updated"} 52`,
		`lw_handler_folded_total{collection="",graph="",handler="h",informer="i"} 54`,
		`lw_handler_panics_total{collection="",graph="",handler="h",informer="i"} 55`,
		`lw_handler_pending{collection="",graph="",handler="h",informer="i"} 50`,
		`lw_informer_backoff_seconds_total{informer="i"} 16.5`,
		`lw_informer_behind_seconds_count{by="asked",informer="i"} 64`,
		`lw_informer_behind_seconds_count{by="told",informer="i"} 63`,
		`lw_informer_behind_seconds_sum{by="asked",informer="i"} 66`,
		`lw_informer_behind_seconds_sum{by="told",informer="i"} 65`,
		`lw_informer_behind_seconds{by="told",informer="i",quantile="0.5"} 61`,
		`lw_informer_behind_seconds{by="told",informer="i",quantile="0.99"} 62.5`,
		`lw_informer_decode_errors_total{informer="i"} 15`,
		`lw_informer_epochs_total{informer="i"} 14`,
		`lw_informer_events_total{informer="i",type="added"} 41`,
		`lw_informer_events_total{informer="i",type="bookmark"} 44`,
		`lw_informer_events_total{informer="i",type="deleted"} 43`,
		`lw_informer_events_total{informer="i",type="modified"} 42`,
		`lw_informer_failures{informer="i"} 13`,
		`lw_informer_last_event_timestamp_seconds{informer="i"} 1.70000000025e+09`,
		`lw_informer_last_list_timestamp_seconds{informer="i"} 1.7000000015e+09`,
		`lw_informer_let_go_requests_total{informer="i"} 74`,
		`lw_informer_let_go_unread_total{informer="i"} 76`,
		`lw_informer_let_go{informer="i"} 73`,
		`lw_informer_objects{informer="i"} 12`,
		`lw_informer_pack_limit_bytes{informer="i"} 71`,
		`lw_informer_packed_bytes{informer="i"} 72`,
		`lw_informer_relists_total{cause="expired",informer="i"} 32`,
		`lw_informer_relists_total{cause="failing",informer="i"} 37`,
		`lw_informer_relists_total{cause="first",informer="i"} 31`,
		`lw_informer_relists_total{cause="gap",informer="i"} 33`,
		`lw_informer_relists_total{cause="older",informer="i"} 34`,
		`lw_informer_relists_total{cause="protocol",informer="i"} 35`,
		`lw_informer_relists_total{cause="unreadable",informer="i"} 36`,
		`lw_informer_relists_total{cause="unversioned",informer="i"} 38`,
		`lw_informer_request_seconds_total{informer="i",op="list"} 7.5`,
		`lw_informer_request_seconds_total{informer="i",op="watch"} 8`,
		`lw_informer_requests_total{code="200",informer="i",op="list"} 22`,
		`lw_informer_requests_total{code="403",informer="i",op="list"} 23`,
		`lw_informer_requests_total{code="410",informer="i",op="watch"} 24`,
		`lw_informer_requests_total{code="none",informer="i",op="list"} 21`,
		`lw_informer_resource_version{informer="i"} 11`,
		`lw_informer_set_aside{informer="i"} 3`,
		`lw_informer_synced{informer="i"} 1`,
		`lw_informer_unserved{informer="i"} 1`,
	}
	rig.Same(t, "", want, got)
}

// What is not known is not there, rather than 0.
func TestValuesBeforeTheSync(t *testing.T) {
	text := strings.Join(series(t,
		func(to chan<- prometheus.Metric) { informer(to, "i", lw.Status{ResourceVersion: "opaque"}) }), "\n")
	for _, name := range []string{"lw_informer_objects", "lw_informer_resource_version",
		"lw_informer_packed_bytes", "lw_informer_let_go", "lw_informer_last_event_timestamp_seconds", "lw_informer_last_list_timestamp_seconds"} {
		if strings.Contains(text, name) {
			t.Errorf("there is a series %s in\n%s", name, text)
		}
	}
	if !strings.Contains(text, `lw_informer_synced{informer="i"} 0`) {
		t.Errorf("it counts as synced:\n%s", text)
	}
}

// As TestValuesOfAnInformer, of a graph and its collections.
func TestValuesOfAGraph(t *testing.T) {
	s := lw.GraphStatus{
		Synced: true, Steps: 61, Busy: 62500 * time.Millisecond, Pending: 63, StepBegan: time.Unix(1700000002, 750_000_000),
		Collections: []lw.DerivedStatus{{
			StoreStatus: lw.StoreStatus{Name: "c", Objects: 64, SetAside: faults(5), Handlers: told},
			Computed:    65, Unchanged: 66, Conflicts: faults(4),
		}},
	}
	got := series(t, func(to chan<- prometheus.Metric) { graph(to, "g", s) })
	want := []string{
		`lw_collection_computed_total{collection="c",graph="g"} 65`,
		`lw_collection_conflicts{collection="c",graph="g"} 4`,
		`lw_collection_objects{collection="c",graph="g"} 64`,
		`lw_collection_set_aside{collection="c",graph="g"} 5`,
		`lw_collection_unchanged_total{collection="c",graph="g"} 66`,
		`lw_graph_pending{graph="g"} 63`,
		`lw_graph_step_began_timestamp_seconds{graph="g"} 1.70000000275e+09`,
		`lw_graph_step_seconds_total{graph="g"} 62.5`,
		`lw_graph_steps_total{graph="g"} 61`,
		`lw_graph_synced{graph="g"} 1`,
		`lw_handler_calls_total{collection="c",graph="g",handler="h",informer="",type="added"} 51`,
		`lw_handler_calls_total{collection="c",graph="g",handler="h",informer="",type="deleted"} 53`,
		`lw_handler_calls_total{collection="c",graph="g",handler="h",informer="",type="updated"} 52`,
		`lw_handler_folded_total{collection="c",graph="g",handler="h",informer=""} 54`,
		`lw_handler_panics_total{collection="c",graph="g",handler="h",informer=""} 55`,
		`lw_handler_pending{collection="c",graph="g",handler="h",informer=""} 50`,
	}
	rig.Same(t, "", want, got)
}
