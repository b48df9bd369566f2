package clientgo

import (
	"context"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// metricsInterval is the least time between two updates of the gauges. A scraper comes every few
// seconds at most, so the gauges are not set for each event.
const metricsInterval = time.Second

// metrics publishes what client-go's informers publish through an InformerMetricsProvider.
type metrics struct {
	queued  cache.GaugeMetric     // changes that wait for the slowest handler
	latency cache.HistogramMetric // seconds of each call of a handler; nil: not published
	// store publishes the resource version. It has no objects: a store of client-go is the only way
	// to the gauge of the provider of the process, which cache.SetInformerMetricsProvider sets.
	store   cache.Store
	changed chan struct{}
}

// newMetrics returns nil if nothing is to be published.
func newMetrics(options cache.SharedIndexInformerOptions) *metrics {
	id, provider := options.Identifier, options.InformerMetricsProvider
	if !id.Reserved() {
		return nil
	}
	m := &metrics{
		store:   cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithStoreMetrics(id, provider)),
		changed: make(chan struct{}, 1),
	}
	if provider != nil {
		m.queued, m.latency = provider.NewQueuedItemMetric(id), provider.NewProcessingLatencyMetric(id)
	} else {
		m.queued = newProcessQueued(id)
	}
	return m
}

// notify says that something may have changed.
func (m *metrics) notify() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// run starts a goroutine that keeps the gauges up to date. The function that it returns ends it,
// after a last update.
func (m *metrics) run(status func() lw.Status) (end func()) {
	if m == nil {
		return func() {}
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		timer := time.NewTimer(0)
		defer timer.Stop()
		for !isClosed(stop) {
			select {
			case <-m.changed:
			case <-stop:
			}
			s := status()
			m.set(s)
			if s.Pending > 0 {
				m.notify() // handlers work on, and do not say when they are done
			}
			timer.Reset(metricsInterval)
			select {
			case <-timer.C:
			case <-stop:
			}
		}
		m.set(status())
	})
	return func() { close(stop); running.Wait() }
}

func (m *metrics) set(s lw.Status) {
	if s.ResourceVersion != "" { // before the first list there is none to publish
		m.store.Bookmark(s.ResourceVersion)
	}
	m.queued.Set(float64(s.Pending))
}

// processQueued is the gauge of queued changes of the provider of the process. client-go keeps that
// provider to itself, and only its queues set the gauge: to how many items they have. So there is a
// queue, which gets as many items as the gauge is to show.
type processQueued struct {
	items *cache.RealFIFO
	len   int  // of items
	set   bool // Set was called
}

func newProcessQueued(id cache.InformerNameAndResource) *processQueued {
	keys := 0
	return &processQueued{items: cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
		Identifier: id, AtomicEvents: true, // without AtomicEvents it would want a store
		KeyFunction: func(any) (string, error) { keys++; return strconv.Itoa(keys), nil }, // a batch has no key twice
	})}
}

// Set sets the gauge.
func (q *processQueued) Set(value float64) {
	for first := !q.set; q.len < int(value) || first; q.len++ { // an empty queue has not set the gauge
		first, q.set = false, true
		if err := q.items.Add(struct{}{}); err != nil {
			return
		}
	}
	for q.len > int(value) {
		q.shrink(q.len - int(value))
	}
}

// batch is how many items a queue gives at once, if it has so many.
const batch = 1000

// shrink takes items out, at most n. A queue measures how long the functions take that process its
// items, and publishes that as the latency of handlers, unless the function panics.
func (q *processQueued) shrink(n int) {
	defer func() { _ = recover() }()
	one := func(any, bool) error {
		q.len--
		panic("clientgo: not to be measured")
	}
	if n < batch {
		_, _ = q.items.Pop(one)
		return
	}
	_ = q.items.PopBatch(func(items []cache.Delta, _ bool) error {
		q.len -= len(items)
		panic("clientgo: not to be measured")
	}, one)
}

// observed returns src, which then notifies m of each change.
func (m *metrics) observed(src lw.Source[metav1.Object]) lw.Source[metav1.Object] {
	if m == nil {
		return src
	}
	return &observedSource{src, m}
}

type observedSource struct {
	lw.Source[metav1.Object]
	m *metrics
}

func (s *observedSource) Hints() lw.SourceHints { return lw.HintsOf(s.Source) }

// Reuses is part of [request.Source].
func (s *observedSource) Reuses(request.Mark) bool { return request.Reuses(s.Source) }

// Told is part of lw.Teller.
func (s *observedSource) Told(obj lw.Identified) (metav1.Object, bool, error) {
	return told(s.Source, obj)
}

// Watch notifies the metrics of each event. It does so also as it begins, because the store has
// just got a list, unless the list is streamed.
func (s *observedSource) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[metav1.Object]) error) error {
	listed := opts.SendInitialEvents == nil
	if listed {
		s.m.notify()
	}
	return s.Source.Watch(ctx, opts, func(ev lw.WatchEvent[metav1.Object]) error {
		err := yield(ev)
		if listed = listed || ev.InitialEventsEnd; listed {
			s.m.notify()
		}
		return err
	})
}

// timed returns handler, which then publishes how long each of its calls takes.
func (m *metrics) timed(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	if m == nil || m.latency == nil {
		return handler
	}
	return timedHandler{handler, m.latency}
}

type timedHandler struct {
	to      cache.ResourceEventHandler
	latency cache.HistogramMetric
}

func (h timedHandler) OnAdd(obj any, isInInitialList bool) {
	defer h.observe(time.Now())
	h.to.OnAdd(obj, isInInitialList)
}

func (h timedHandler) OnUpdate(old, obj any) {
	defer h.observe(time.Now())
	h.to.OnUpdate(old, obj)
}

func (h timedHandler) OnDelete(obj any) {
	defer h.observe(time.Now())
	h.to.OnDelete(obj)
}

func (h timedHandler) observe(began time.Time) { h.latency.Observe(time.Since(began).Seconds()) }
