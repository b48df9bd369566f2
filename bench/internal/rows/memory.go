package rows

import (
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// BlockedHandler measures the growth of the heap behind a handler that does not return from a call,
// while each of 10k objects (3k in a short run) is updated a hundred times. The heap is measured
// when another handler has received the last update. It includes the objects that the blocked
// handler received last, on both sides.
func BlockedHandler() compare.Case {
	return compare.Case{
		Name: "blocked handler",
		Once: true,
		Lines: []compare.Line{
			{Row: 26, What: "heap behind a blocked handler, 100 updates of each object", Unit: compare.Bytes, Key: "heap", Goal: compare.Times(1 / 0.02), Chart: true},
		},
		Setup: func(c compare.Config) ([]compare.Side, func()) {
			list := pods.Light(c.N(10_000, 3_000))
			updates := 100 * len(list)
			return both(func(side string) compare.Sample {
				f := feed.New(list, pods.Version(len(list)), true)
				release, blocked := make(chan struct{}), make(chan struct{}, 1)
				end := newFence()
				inf := synced(f, side, feed.Handler{Update: end.update}, feed.Handler{Update: func(_, _ *corev1.Pod) {
					select {
					case blocked <- struct{}{}:
					default:
					}
					<-release
				}})
				defer inf.Stop()
				defer close(release)
				f.Forget()
				end.pass(f, list[0], len(list)+1)
				<-blocked
				before, _ := measure.Live()
				ended := make(chan struct{})
				f.Play(func(emit feed.Emit) error {
					defer close(ended)
					for i := range updates {
						if err := emit(watch.Modified, pods.Touch(list[i%len(list)], len(list)+2+i)); err != nil {
							return err
						}
					}
					return nil
				})
				<-ended
				end.pass(f, list[0], len(list)+2+updates)
				after, _ := measure.Live()
				return compare.Sample{"heap": float64(after) - float64(before)}
			}), nil
		},
	}
}

// IdleHandler measures what one handler needs, with 500 handlers on an idle informer of 10 objects:
// the heap and stack in use after a garbage collection, and the goroutines.
func IdleHandler() compare.Case {
	const handlers = 500
	return compare.Case{
		Name: "idle handler",
		Lines: []compare.Line{
			{Row: 27, What: "idle handler: heap and stack", Unit: compare.Bytes, Key: "memory", Goal: compare.Times(4)},
			{Row: 27, What: "idle handler: goroutines", Unit: compare.Count, Key: "goroutines"},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			list := pods.Light(10)
			return both(func(side string) compare.Sample {
				f := feed.New(list, pods.Version(len(list)), true)
				inf := synced(f, side, feed.Handler{Update: func(_, _ *corev1.Pod) {}})
				defer inf.Stop()
				heap, stack := measure.Live()
				goroutines := runtime.NumGoroutine()
				for range handlers {
					defer inf.AddHandler(feed.Handler{Update: func(_, _ *corev1.Pod) {}})()
				}
				heap2, stack2 := measure.Live()
				return compare.Sample{
					"memory":     (float64(heap2+stack2) - float64(heap+stack)) / handlers,
					"goroutines": float64(runtime.NumGoroutine()-goroutines) / handlers,
				}
			}), nil
		},
	}
}

// Overhead measures the memory that a store needs for each object beside the object itself. The
// store has 100k objects and an index by namespace. The overhead is the heap in use after a Replace
// and a garbage collection, less the heap without the store.
func Overhead() compare.Case {
	return compare.Case{
		Name: "store overhead",
		Lines: []compare.Line{
			{Row: 29, What: "store overhead an object, 1 index", Unit: compare.Bytes, Key: "heap", Goal: compare.Times(1 / 0.7)},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			objects := pods.Light(100_000)
			return both(func(side string) compare.Sample {
				before, _ := measure.Live()
				var store any
				if side == compare.ClientGo {
					x := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers(1))
					check(x.Replace(boxed(objects), "1") == nil, "Replace")
					store = x
				} else {
					x := lw.NewIndexer[*corev1.Pod]()
					index(x, 1)
					x.Replace(objects, "1")
					store = x
				}
				after, _ := measure.Live()
				runtime.KeepAlive(store)
				return compare.Sample{"heap": (float64(after) - float64(before)) / float64(len(objects))}
			}), nil
		},
	}
}
