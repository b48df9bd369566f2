package rows

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

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
			{Row: 26, What: "heap behind a blocked handler, 100 updates of each object", Unit: compare.Bytes, Key: "heap",
				Goal: compare.Times(1 / 0.02), Chart: true},
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
