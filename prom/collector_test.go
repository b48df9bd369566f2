package prom_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/prom"
)

var update = flag.Bool("update", false, "write testdata anew")

const golden = "testdata/metrics.txt"

// format returns what a scrape of b says.
func format(t *testing.T, b *lw.Board) []byte {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(prom.Collector(b))
	families, err := r.Gather()
	rig.OK(t, err)
	var text bytes.Buffer
	for _, f := range families {
		rig.Must[int](t)(expfmt.MetricFamilyToText(&text, f))
	}
	return text.Bytes()
}

type node struct {
	lw.Meta `json:"metadata"`
	Load    int `json:"load"`
}

func newNode(name string) *node { return &node{Meta: lw.Meta{Name: name}} }

// scene runs two informers of one name, one of them behind, a graph, and one whose function does
// not return. It returns their board and the function that stops them.
func scene(t *testing.T, block <-chan struct{}) (b *lw.Board, stop func()) {
	t.Helper()
	b = new(lw.Board)
	opts := &lw.Options{Name: "nodes", Board: b, OnError: func(error) {},
		Backoff: func(int) time.Duration { return time.Second }}
	m := lw.NewMemory(newNode("a"), newNode("b"))
	inf, other := lw.NewInformer(m, opts), lw.NewInformer(m, opts)
	none := func(*node) {}
	inf.AddHandler(lw.Handler[*node]{Add: none, Update: func(_, _ *node) { <-block }, Delete: none})
	inf.AddHandler(lw.Handler[*node]{Add: none})
	g := lw.NewGraph(&lw.GraphOptions{Board: b})
	derived := lw.Derive(g, inf, func(n *node) *node { return newNode(n.Name) }, "names")
	derived.AddHandler(lw.Handler[*node]{Name: "names", Delete: none})
	held := lw.NewGraph(&lw.GraphOptions{Name: "held", Board: b})
	lw.Derive(held, other, func(n *node) *node { <-block; return n }, "held")
	s := lwtest.NewServer(t, lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
	maps := lwtest.Objects[*unstructured.Unstructured](s, "configmaps")
	for i := range 3 { // with a limit that holds none of them
		noise := make([]byte, 4<<10)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
		rig.Must[*unstructured.Unstructured](t)(maps.Create(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "team", "name": fmt.Sprint("c", i)},
			"data": map[string]any{"noise": base64.StdEncoding.EncodeToString(noise)},
		}}))
	}
	limited := lw.NewInformer(lw.Pack(maps.Source(), lw.PackOptions{Limit: &lw.PackLimit{Bytes: 1}}),
		&lw.Options{Name: "configmaps", Board: b})
	stops := []func(){rig.Begin(t, inf), rig.Begin(t, other), rig.Begin(t, g), rig.Begin(t, held), rig.Begin(t, limited)}
	for range 2 {
		runtime.GC() // nobody has what the list has brought
	}
	for _, p := range limited.Store().List() {
		p.Open()
	}
	for load := range 2 {
		a, _ := m.Get(t.Context(), lw.Key{Name: "a"})
		rig.Must[*node](t)(m.Update(t.Context(), &node{Meta: lw.Meta{Name: "a", ResourceVersion: a.ResourceVersion,
			UID: a.UID}, Load: load + 1}))
		synctest.Wait()
	}
	rig.Must[string](t)(inf.CatchUp(t.Context()))
	m.Fail(errors.New("away")) // so that no watch sends the deletion, nor ends in its midst
	synctest.Wait()
	rig.Must[string](t)(m.Delete(t.Context(), lw.Key{Name: "b"}, ""))
	m.Compact()
	m.Fail(nil)
	rig.Sleep(20 * time.Second)
	return b, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// What a scrape says is golden: names, labels, helps and values. No two series are the same, and
// the scrape comes while a handler is blocked. After Run has returned there is nothing left.
func TestCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		b, stop := scene(t, block)
		got := format(t, b)
		if *update {
			rig.OK(t, os.WriteFile(golden, got, 0o666))
		}
		want := rig.Must[[]byte](t)(os.ReadFile(golden))
		rig.Same(t, golden+", which -update writes anew", string(want), string(got))
		problems, err := testutil.CollectAndLint(prom.Collector(b))
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
		close(block)
		stop()
		if got := format(t, b); len(got) > 0 {
			t.Errorf("after Run:\n%s", got)
		}
	})
}

// No other label is there than those that are documented: none whose values have no bound.
func TestLabels(t *testing.T) {
	text := rig.Must[[]byte](t)(os.ReadFile(golden))
	var got []string
	for _, m := range regexp.MustCompile(`(\w+)="`).FindAllSubmatch(text, -1) {
		got = append(got, string(m[1]))
	}
	slices.Sort(got)
	want := []string{"by", "cause", "code", "collection", "graph", "handler", "informer", "le", "op", "quantile", "type"}
	rig.Same(t, "", want, slices.Compact(got))
}

// docs/operate.md names no series that is not there.
func TestDocs(t *testing.T) {
	docs := rig.Must[[]byte](t)(os.ReadFile("../docs/operate.md"))
	text := rig.Must[[]byte](t)(os.ReadFile(golden))
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (\w+) `).FindAllSubmatch(text, -1) {
		known[string(m[1])] = true
	}
	names := regexp.MustCompile(`\blw_\w+`).FindAll(docs, -1)
	for _, name := range names {
		if base := bytes.TrimSuffix(name, []byte("_bucket")); !known[string(base)] {
			t.Errorf("docs/operate.md names %s, which is no series", name)
		}
	}
	if len(names) < 5 {
		t.Errorf("docs/operate.md names %d series, want those of its alerts", len(names))
	}
}

// count returns how many series of the family name a scrape of b has. Any error ends the test: the
// registry refuses two equal series, and labels that are no UTF-8.
func count(t *testing.T, b *lw.Board, name string) int {
	t.Helper()
	return bytes.Count(format(t, b), []byte("\n"+name+"{"))
}

// A handler and a function of a graph that hang delay no scrape.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		release := make(chan struct{})
		m := lw.NewMemory(newNode("a"))
		inf := lw.NewInformer(m, &lw.Options{Board: &b, OnError: func(error) {}})
		inf.AddHandler(lw.Handler[*node]{Add: func(*node) { <-release }})
		g := lw.NewGraph(&lw.GraphOptions{Board: &b})
		lw.Derive(g, inf, func(n *node) *node { <-release; return newNode(n.Name) })
		stops := []func(){rig.Begin(t, inf), rig.Begin(t, g)}
		rig.Must[*node](t)(m.Create(t.Context(), newNode("b")))
		synctest.Wait()
		text := string(format(t, &b))
		for _, want := range []string{
			`lw_handler_pending{collection="",graph="",handler="handler",informer="node"} 2`,
			`lw_informer_objects{informer="node"} 2`,
			`lw_graph_synced{graph="graph"} 0`,
		} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("no line %s in\n%s", want, text)
			}
		}
		close(release)
		for _, stop := range stops {
			stop()
		}
	})
}

// Series end with what they are of: a handler that is removed, a collection that is closed, a Run
// that returns. What runs next begins anew.
func TestSeriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		for range 2 {
			inf := lw.NewInformer(lw.NewMemory(newNode("a")), &lw.Options{Board: &b, OnError: func(error) {}})
			handler := inf.AddHandler(lw.Handler[*node]{Add: func(*node) {}})
			g := lw.NewGraph(&lw.GraphOptions{Board: &b})
			derived := lw.Derive(g, inf, func(n *node) *node { return newNode(n.Name) })
			stopInformer, stopGraph := rig.Begin(t, inf), rig.Begin(t, g)
			has := func(name string, want int) {
				t.Helper()
				if got := count(t, &b, name); got != want {
					t.Errorf("%d series of %s, want %d", got, name, want)
				}
			}
			has("lw_informer_synced", 1)
			has("lw_handler_pending", 1)
			has("lw_collection_objects", 1)
			handler.Remove()
			has("lw_handler_pending", 0)
			derived.Close()
			synctest.Wait()
			has("lw_collection_objects", 0)
			has("lw_graph_synced", 1)
			stopGraph()
			has("lw_graph_synced", 0)
			stopInformer()
			has("lw_informer_synced", 0)
		}
	})
}

// Names that are equal, or no valid label, do not break a scrape.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		names := []string{"a\xff", "a\xfe", "b", "b", "{}\"\n"}
		var last *lw.Informer[*node]
		for _, name := range names {
			last = lw.NewInformer(lw.NewMemory(newNode("a")), &lw.Options{Name: name, Board: &b, OnError: func(error) {}})
			last.AddHandler(lw.Handler[*node]{Name: "h\xff", Add: func(*node) {}})
			last.AddHandler(lw.Handler[*node]{Name: "h\xfe", Add: func(*node) {}})
			defer rig.Begin(t, last)()
		}
		g := lw.NewGraph(&lw.GraphOptions{Name: "g\xff", Board: &b})
		for range 2 {
			lw.Derive(g, last, func(n *node) *node { return newNode(n.Name) },
				"c\xff").AddHandler(lw.Handler[*node]{Add: func(*node) {}})
		}
		defer rig.Begin(t, g)()
		for name, want := range map[string]int{"lw_informer_synced": 5, "lw_handler_pending": 12,
			"lw_collection_objects": 2} {
			if got := count(t, &b, name); got != want {
				t.Errorf("%d series of %s, want %d", got, name, want)
			}
		}
		for _, want := range []string{"a�", "a�#2", "b", "b#2", `{}\"\n`} {
			if !strings.Contains(string(format(t, &b)), `lw_informer_synced{informer="`+want+`"} 1`) {
				t.Errorf("no series of %s", want)
			}
		}
	})
}

// A name that looks like the number of another is no other's label.
func TestNamesWithNumbers(t *testing.T) {
	for _, names := range [][]string{{"b", "b", "b#2"}, {"b#2", "b", "b"}, {"b", "b#2", "b", "b#2", "b"},
		{"b", "b#3", "b", "b", "b"}} {
		synctest.Test(t, func(t *testing.T) {
			var b lw.Board
			inf := lw.NewInformer(lw.NewMemory(newNode("a")), &lw.Options{Board: &b, OnError: func(error) {}})
			g := lw.NewGraph(&lw.GraphOptions{Board: &b})
			for _, name := range names {
				inf.AddHandler(lw.Handler[*node]{Name: name, Add: func(*node) {}})
				lw.Derive(g, inf, func(n *node) *node { return n }, name)
			}
			defer rig.Begin(t, inf)()
			defer rig.Begin(t, g)()
			for _, series := range []string{"lw_handler_pending", "lw_collection_objects"} {
				if got := count(t, &b, series); got != len(names) {
					t.Errorf("%d series of %s for %q", got, series, names)
				}
			}
		})
	}
}

// A registry knows the series before the first scrape, so it takes those of one board.
func TestRegistered(t *testing.T) {
	registry := prometheus.NewRegistry()
	first := prom.Collector(new(lw.Board))
	rig.OK(t, registry.Register(first))
	there, ok := errors.AsType[prometheus.AlreadyRegisteredError](registry.Register(prom.Collector(new(lw.Board))))
	if !ok || there.ExistingCollector != first {
		t.Errorf("a second board: %v", there)
	}
}

func TestNilBoard(t *testing.T) {
	rig.MustPanic(t, "nil board", func() { prom.Collector(nil) })
}

func TestMain(m *testing.M) { rig.Main(m) }

// A board is registered once. What it lists may start and stop at any time.
func ExampleCollector() {
	ctx, cancel := context.WithCancel(context.Background())
	board := new(lw.Board)
	registry := prometheus.NewRegistry() // promhttp.HandlerFor(registry, …) serves it
	registry.MustRegister(prom.Collector(board))

	nodes := lw.NewInformer(lw.NewMemory(newNode("a")), &lw.Options{Name: "nodes", Board: board})
	ran := make(chan error)
	go func() { ran <- nodes.Run(ctx) }()
	_ = nodes.WaitForSync(ctx)

	families, _ := registry.Gather()
	for _, f := range families {
		if f.GetName() == "lw_informer_objects" {
			m := f.GetMetric()[0]
			fmt.Println(f.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue())
		}
	}
	cancel()
	<-ran
	// Output: lw_informer_objects nodes 1
}
