package store_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// feed is a Source of ready objects: what it costs to follow it is what the informer costs.
type feed struct {
	objs   []*rig.Widget
	events chan []lw.WatchEvent[*rig.Widget]
}

func (f *feed) List(_ context.Context, _ metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	for _, obj := range f.objs {
		if err := yield(obj, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "1000000"}, nil
}

func (f *feed) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*rig.Widget]) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case events := <-f.events:
			for _, ev := range events {
				if err := yield(ev); err != nil {
					return err
				}
			}
		}
	}
}

func newFeed(objects int) *feed {
	f := &feed{events: make(chan []lw.WatchEvent[*rig.Widget])}
	for i := range objects {
		f.objs = append(f.objs, rig.Stamped(fmt.Sprintf("widget-%06d", i), i, strconv.Itoa(100_000+i)))
	}
	return f
}

// updates returns n events over the objects, of versions after from.
func (f *feed) updates(n, from int) []lw.WatchEvent[*rig.Widget] {
	events := make([]lw.WatchEvent[*rig.Widget], n)
	for i := range events {
		w := *f.objs[i*7919%len(f.objs)]
		w.ResourceVersion = strconv.Itoa(from + i)
		events[i] = lw.WatchEvent[*rig.Widget]{Type: watch.Modified, Object: &w, ResourceVersion: w.ResourceVersion}
	}
	return events
}

// BenchmarkPipeline is the cost of one event from the source to the handlers' return.
func BenchmarkPipeline(b *testing.B) {
	for _, handlers := range []int{0, 1, 4, 16} {
		b.Run(fmt.Sprint(handlers), func(b *testing.B) {
			f := newFeed(10_000)
			inf := lw.NewInformer(f, &lw.Options{List: lw.ListWhole})
			var told atomic.Int64
			for range handlers {
				n := 0
				inf.AddHandler(lw.Handler[*rig.Widget]{EveryUpdate: true, Update: func(_, w *rig.Widget) {
					if n++; n%1024 == 0 || w.Size < 0 {
						told.Add(int64(n))
						n = 0
					}
				}})
			}
			benchmarkEvents(b, f, inf)
		})
	}
}

// BenchmarkChanged is what an event costs with channels of Changed: nobody has one, all are of another key and group, or there is
// always one of any object.
func BenchmarkChanged(b *testing.B) {
	for _, channels := range []string{"none", "another", "any"} {
		b.Run(channels, func(b *testing.B) {
			f := newFeed(10_000)
			inf := lw.NewInformer(f, &lw.Options{List: lw.ListWhole})
			bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
			ctx, cancel := context.WithCancel(b.Context())
			var loop sync.WaitGroup
			defer loop.Wait()
			defer cancel()
			switch channels {
			case "another":
				inf.Changed(ctx, rig.Key("another"))
				bySize.Changed(ctx, -1)
			case "any":
				loop.Go(func() {
					for ctx.Err() == nil {
						select {
						case <-inf.Changed(ctx):
						case <-ctx.Done():
						}
					}
				})
			}
			benchmarkEvents(b, f, inf)
		})
	}
}

// benchmarkEvents measures what inf does for an event of f.
func benchmarkEvents(b *testing.B, f *feed, inf *lw.Informer[*rig.Widget]) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- inf.Run(ctx) }()
	if err := inf.WaitForSync(ctx); err != nil {
		b.Fatal(err)
	}
	const batch = 4096
	from := 1_000_001
	b.ReportAllocs()
	b.ResetTimer()
	for range (b.N + batch - 1) / batch {
		b.StopTimer()
		events := f.updates(batch, from)
		from += batch
		b.StartTimer()
		f.events <- events
		if err := inf.WaitForResourceVersion(ctx, strconv.Itoa(from-1)); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
