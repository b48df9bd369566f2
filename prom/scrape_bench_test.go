//go:build unix

package prom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwdebug"
	"github.com/go-lw/lw/prom"
)

// nodes is a source of 10,000 nodes. Each number that is sent to changes makes as many events.
type nodes struct {
	changes chan int
	all     []*node
	version int
}

func newNodes() *nodes {
	s := &nodes{changes: make(chan int), version: 1_000_000}
	for i := range 10_000 {
		s.all = append(s.all, s.next(i))
	}
	return s
}

// next returns a new version of the node i.
func (ns *nodes) next(i int) *node {
	ns.version++
	return &node{Meta: lw.Meta{Name: strconv.Itoa(i), UID: "u", ResourceVersion: strconv.Itoa(ns.version)},
		Load: ns.version}
}

func (ns *nodes) List(_ context.Context, _ metav1.ListOptions, yield func(*node, error) error) (metav1.ListMeta,
	error) {
	for _, n := range ns.all {
		if err := yield(n, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: strconv.Itoa(ns.version)}, nil
}

func (ns *nodes) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*node]) error) error {
	for {
		select {
		case n := <-ns.changes:
			for i := range n {
				next := ns.next(ns.version % len(ns.all))
				ev := lw.WatchEvent[*node]{Type: watch.Modified, Object: next, ResourceVersion: next.ResourceVersion, More: i < n-1}
				if err := yield(ev); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// BenchmarkScrape is what a scrape of the metrics, of the page and of its JSON costs, of a board of
// 20 informers with 2 handlers each.
func BenchmarkScrape(b *testing.B) {
	scrapes, stop := busyBoard(b, 20, nil)
	defer stop()
	for name, scrape := range scrapes {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scrape()
			}
		})
	}
}

// BenchmarkPipeline is the CPU time of the process for an event, from the source to the return of
// two handlers, with and without a scrape of its metrics and its page for each 100,000 events. That
// is a scrape a second beside 100,000 events a second. Run it with -count, and compare the medians.
func BenchmarkPipeline(b *testing.B) {
	for _, scraped := range []bool{false, true} {
		b.Run(fmt.Sprintf("scraped=%v", scraped), func(b *testing.B) {
			const every = 100_000
			src := newNodes()
			scrapes, stop := busyBoard(b, 1, src)
			defer stop()
			var scraping sync.WaitGroup
			before := cpu(b)
			for left := b.N; left > 0; left -= every {
				if scraped {
					scraping.Go(func() { scrapes["metrics"](); scrapes["page"]() })
				}
				for n := min(left, every); n > 0; n -= 1000 {
					src.changes <- min(n, 1000)
				}
			}
			src.changes <- 1 // taken when all events before it are applied
			scraping.Wait()
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/event")
		})
	}
}

// busyBoard runs informers, the first of which follows src if that is not nil. It returns what
// scrapes their board.
func busyBoard(b *testing.B, informers int, src lw.Source[*node]) (scrapes map[string]func(), stop func()) {
	board := new(lw.Board)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.Collector(board))
	get := func(h http.Handler, path string) func() {
		return func() {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != http.StatusOK || w.Body.Len() == 0 {
				b.Errorf("%s: %d", path, w.Code)
			}
		}
	}
	scrapes = map[string]func(){
		"metrics": get(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "/metrics"),
		"page":    get(lwdebug.Handler(board), "/"),
		"json":    get(lwdebug.Handler(board), "/?format=json"),
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	for i := range informers {
		if i > 0 || src == nil {
			src = lw.NewMemory(newNode("a"), newNode("b"))
		}
		inf := lw.NewInformer(src, &lw.Options{Name: fmt.Sprint("nodes", i), Board: board, List: lw.ListWhole,
			OnError: func(error) {}})
		for range 2 {
			inf.AddHandler(lw.Handler[*node]{Update: func(_, _ *node) {}})
		}
		running.Go(func() { _ = inf.Run(ctx) })
		rig.OK(b, inf.WaitForSync(ctx))
	}
	return scrapes, func() { cancel(); running.Wait() }
}

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
