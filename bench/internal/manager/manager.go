// Package manager measures the cache of a controller-runtime manager: its own, and lw's.
package manager

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/wire"
	"github.com/go-lw/lw/controllerruntime"
)

// The sides.
const (
	byDefault = "controller-runtime"
	onLW      = compare.LW
	onShare   = "lw, Share"

	set = "manager" // of these sides
)

func init() {
	log.SetLogger(logr.Discard())
	for side, newCache := range map[string]cache.NewCacheFunc{
		byDefault: cache.New,
		onLW:      controllerruntime.NewCache,
		onShare:   controllerruntime.NewCacheWith(controllerruntime.Options{Share: true}),
	} {
		wire.Register(set, side, func(ctx context.Context, f wire.Following) (func(), error) {
			return follow(ctx, f, newCache)
		})
	}
}

// Cases returns the cases of a manager with n pods in its cache and one handler; 0 means the
// default. Each side runs in a process of its own, the server in another. A response of another
// encoding than the case's ends the measurement.
func Cases(n int) []compare.Case {
	line := func(row int, what string, unit compare.Unit, key, side string, goal compare.Goal) compare.Line {
		return compare.Line{Row: row, What: what, Unit: unit, Key: key, Base: byDefault, Side: side, Goal: goal}
	}
	return []compare.Case{
		wire.Follow(compare.Case{Name: "manager, JSON", Lines: []compare.Line{
			line(1, "JSON sync: CPU a pod", compare.Nanoseconds, "sync.cpu", onLW, compare.Times(8)),
			line(1, "JSON sync, Share: CPU a pod", compare.Nanoseconds, "sync.cpu", onShare, compare.Goal{}),
			line(2, "JSON event: CPU", compare.Nanoseconds, "status.cpu", onLW, compare.Times(8)),
			line(2, "JSON event, Share: CPU", compare.Nanoseconds, "status.cpu", onShare, compare.Goal{}),
			line(2, "JSON event: allocations", compare.Count, "status.allocs", onLW, compare.Goal{}),
			line(3, "JSON: live heap a pod", compare.Bytes, "live", onLW, compare.Times(1/0.9)),
			line(3, "JSON: live heap a pod, Share", compare.Bytes, "live", onShare, compare.Times(1/0.5)),
			line(4, "JSON: RSS after the sync", compare.Bytes, "rss", onLW, compare.Times(1/0.75)),
			line(4, "JSON: RSS after the sync, Share", compare.Bytes, "rss", onShare, compare.Goal{}),
		}}, wire.JSON, n, set, byDefault, onLW, onShare),
		wire.Follow(compare.Case{Name: "manager, protobuf", Lines: []compare.Line{
			line(5, "protobuf sync: CPU a pod", compare.Nanoseconds, "sync.cpu", onLW, compare.Times(1/0.7)),
			line(6, "protobuf event: CPU", compare.Nanoseconds, "status.cpu", onLW, compare.Times(1/0.7)),
			line(6, "protobuf event: allocations", compare.Count, "status.allocs", onLW, compare.Goal{}),
			line(7, "protobuf: live heap a pod", compare.Bytes, "live", onLW, compare.Times(1/0.9)),
			line(7, "protobuf: live heap a pod, Share", compare.Bytes, "live", onShare, compare.Times(1/0.5)),
			line(8, "protobuf: RSS after the sync", compare.Bytes, "rss", onLW, compare.Times(1/0.75)),
		}}, wire.Protobuf, n, set, byDefault, onLW, onShare),
	}
}

// follow makes a manager whose cache newCache makes, with one handler for pods.
func follow(ctx context.Context, f wire.Following, newCache cache.NewCacheFunc) (start func(), err error) {
	var responses atomic.Int64
	config, format := f.Config, f.Config.ContentType
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, format) {
					fail(fmt.Errorf("%s is answered in %s, not in %s", r.URL, got, format))
				}
				responses.Add(1)
			}
			return resp, err
		})
	})
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(pods, meta.RESTScopeNamespace)
	mgr, err := manager.New(config, manager.Options{
		NewCache:       newCache,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        server.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	inf, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	if _, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { f.Add(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) {
			if responses.Load() == 0 {
				fail(fmt.Errorf("no response was seen"))
			}
			f.Update(obj.(*corev1.Pod))
		},
	}); err != nil {
		return nil, err
	}
	return func() {
		go func() {
			if err := mgr.Start(ctx); err != nil {
				fail(err)
			}
		}()
	}, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "manager:", err)
	os.Exit(1)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
