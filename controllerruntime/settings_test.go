package controllerruntime_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwdebug"
)

// want asks the cache for the informers of the objects.
func (b *bench) want(c cache.Cache, objs ...client.Object) {
	b.Helper()
	for _, obj := range objs {
		if _, err := c.GetInformer(b.Context(), obj); err != nil {
			b.Fatal(err)
		}
	}
}

// podMetadata is an example of pods that are cached as metadata.
func podMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(podKind)
	return m
}

// names returns the names of the informers on board, with the numbers of their objects.
func names(board *lw.Board) map[string]int {
	all := map[string]int{}
	for name, s := range board.Informers() {
		all[name] = s.Objects
	}
	return all
}

// One option puts the informers of a cache on a board, in the words of the kinds.
func TestOptionsBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var board, other lw.Board
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{
			Board: &board, Name: "tenant",
			ByObject: map[client.Object]lw.Options{&corev1.Node{}: {Name: "machines", Board: &other}},
		}), cache.Options{})
		b.want(c, &corev1.Pod{}, podMetadata(), &corev1.Node{})
		if diff := cmp.Diff(map[string]int{"tenant/Pod": 12, "tenant/Pod metadata": 12}, names(&board)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"tenant/machines": 1}, names(&other)); diff != "" {
			t.Errorf("of its own (-want +got):\n%s", diff)
		}
		w := httptest.NewRecorder()
		lwdebug.Handler(&board).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if !strings.Contains(w.Body.String(), "tenant/Pod metadata") {
			t.Error("the page does not show the informer")
		}
	})
}

// A registry gets the series by one field, and another cache of the same board does not conflict.
func TestOptionsMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		registry := prometheus.NewRegistry()
		objects := func() map[string]float64 {
			t.Helper()
			families, err := registry.Gather()
			rig.OK(t, err)
			all := map[string]float64{}
			for _, f := range families {
				if f.GetName() == "lw_informer_objects" {
					for _, m := range f.Metric {
						all[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
			return all
		}
		for _, name := range []string{"a", "b"} { // without a Board they share that of the process
			c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Metrics: registry, Name: name}), cache.Options{})
			b.want(c, &corev1.Pod{})
		}
		if diff := cmp.Diff(map[string]float64{"a/Pod": 12, "b/Pod": 12}, objects()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		_, err := controllerruntime.NewCacheWith(controllerruntime.Options{Metrics: registry, Board: new(lw.Board)})(b.config, cache.Options{Mapper: b.mapper})
		if err == nil || !strings.Contains(err.Error(), "one Board") {
			t.Errorf("a second board in one registry: %v", err)
		}
	})
}

// Failures reach OnError and the cache's own handler, and a kind may have an OnError and settings of
// its own.
func TestOptionsByObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role"))
		b.Inject(apiserver.Fault{Times: 3, Do: apiserver.Fail(forbidden)})
		var all, nodes int
		var theirs atomic.Int32 // each informer has a goroutine that calls the handler
		var log strings.Builder
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{
			OnError: func(err error) {
				if e, ok := errors.AsType[*lw.Error](err); !ok || e.Informer != "Pod" {
					t.Errorf("OnError: %v", err)
				}
				all++
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			ByObject: map[client.Object]lw.Options{&corev1.Node{}: {
				List: lw.ListWhole, OnError: func(error) { nodes++ }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			}},
		}), cache.Options{
			DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) { theirs.Add(1) },
		})
		b.want(c, &corev1.Pod{})
		b.Inject(apiserver.Fault{Times: 1, Do: apiserver.Fail(forbidden)})
		b.want(c, &corev1.Node{})
		synctest.Wait()
		// The cache's own handler hears of those that are followed by a pause: one of each.
		if all != 3 || nodes != 1 || theirs.Load() != 2 {
			t.Errorf("%d calls for pods, %d for nodes, %d of the cache's handler", all, nodes, theirs.Load())
		}
		if !strings.Contains(log.String(), "lw: Pod: synced") || strings.Contains(log.String(), "Node") {
			t.Errorf("the log:\n%s", log.String())
		}
	})
}

// An example that says nothing is an error of NewCache.
func TestOptionsByObjectErrors(t *testing.T) {
	for name, examples := range map[string]map[client.Object]lw.Options{
		"nil":       {(*corev1.Pod)(nil): {}},
		"no kind":   {&metav1.PartialObjectMetadata{}: {}},
		"two alike": {&corev1.Pod{}: {}, &corev1.Pod{}: {}},
	} {
		_, err := controllerruntime.NewCacheWith(controllerruntime.Options{ByObject: examples})(nil, cache.Options{HTTPClient: http.DefaultClient})
		if err == nil || !strings.Contains(err.Error(), "ByObject: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
