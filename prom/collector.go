package prom

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-lw/lw"
)

// Collector returns a collector of the informers, reflectors and graphs of b. It keeps nothing: a
// scrape asks each for its status, so a series is gone when its informer or graph has stopped, and
// nothing is done between scrapes. A scrape waits for no handler. Collector panics if b is nil.
func Collector(b *lw.Board) prometheus.Collector {
	if b == nil {
		panic("lw/prom: Collector: nil board")
	}
	return collector{b}
}

type collector struct{ board *lw.Board }

// Describe implements [prometheus.Collector].
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descs {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	informers, graphs := labels{}, labels{}
	for name, s := range c.board.Informers() {
		informer(to, informers.of(name), s)
	}
	for name, s := range c.board.Graphs() {
		graph(to, graphs.of(name), s)
	}
}

// labels are the values of one label in a scrape, each with the least number that may be free
// behind it.
type labels map[string]int

// of returns name as the value of a label, which must be valid UTF-8, and no other of these. Where
// it is not, it gets a number, as on a board: two collections of a graph may have one name.
func (l labels) of(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	free, n := name, max(2, l[name])
	for ; l[free] > 0; n++ {
		free = name + "#" + strconv.Itoa(n)
	}
	l[free] = 2
	l[name] = n
	return free
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// informer sends the series of one informer, which the board calls name.
func informer(to chan<- prometheus.Metric, name string, s lw.Status) {
	gauge(to, informerSynced, one(s.Synced), name)
	gauge(to, informerUnserved, one(s.Unserved != ""), name)
	if s.Handlers != nil { // a reflector does not know
		gauge(to, informerObjects, float64(s.Objects), name)
	}
	if v, err := strconv.ParseUint(s.ResourceVersion, 10, 64); err == nil {
		gauge(to, informerVersion, float64(v), name)
	}
	if !s.LastEvent.IsZero() {
		gauge(to, informerLastEvent, float64(s.LastEvent.UnixMilli())/1000, name)
	}
	if !s.LastList.IsZero() {
		gauge(to, informerLastList, float64(s.LastList.UnixMilli())/1000, name)
	}
	for op, r := range s.Requests {
		for n, count := range r.Ended {
			counter(to, informerRequests, float64(count), name, op, code(n))
		}
		if len(r.Ended) > 0 {
			counter(to, informerRequestSeconds, r.Time.Seconds(), name, op)
		}
	}
	for cause, n := range s.ListCauses {
		counter(to, informerRelists, float64(n), name, cause)
	}
	for typ, n := range s.Events {
		counter(to, informerEvents, float64(n), name, typ)
	}
	counter(to, informerDecodeErrors, float64(s.Undecoded), name)
	gauge(to, informerSetAside, float64(len(s.SetAside)), name)
	gauge(to, informerFailures, float64(s.Failures), name)
	counter(to, informerEpochs, float64(s.Epoch), name)
	counter(to, informerBackoff, s.Backoff.Seconds(), name)
	if u := s.Packed; u != nil {
		gauge(to, informerPackLimit, float64(u.Limit), name)
		gauge(to, informerPacked, float64(u.Bytes), name)
		gauge(to, informerLetGo, float64(u.LetGo), name)
		counter(to, informerFetches, float64(u.Requests), name)
		counter(to, informerUnread, float64(u.Failed), name)
	}
	for by, n := range s.BehindCount {
		quantiles := map[float64]float64{}
		for share, d := range s.Behind[by] {
			quantiles[share] = d.Seconds()
		}
		to <- prometheus.MustNewConstSummary(informerBehind, n, s.BehindSum[by].Seconds(), quantiles, name, by)
	}
	handlers(to, s.Handlers, name, "", "")
}

// handlers sends the series of the handlers of an informer or of a collection. Either informer is
// "", or graph and collection are: to Prometheus an empty label is one that is not there.
func handlers(to chan<- prometheus.Metric, all []lw.HandlerStatus, informer, graph, collection string) {
	names := labels{}
	for _, h := range all {
		handler(to, h, informer, graph, collection, names.of(h.Name))
	}
}

// handler sends the series of one handler, which has these labels.
func handler(to chan<- prometheus.Metric, h lw.HandlerStatus, labels ...string) {
	gauge(to, handlerPending, float64(h.Pending), labels...)
	for typ, n := range h.Calls {
		counter(to, handlerCalls, float64(n), append(labels, typ.String())...)
	}
	counter(to, handlerFolded, float64(h.Folded), labels...)
	counter(to, handlerPanics, float64(h.Panics), labels...)
	buckets := map[float64]uint64{}
	for bound, n := range h.Lag {
		buckets[bound.Seconds()] = n
	}
	to <- prometheus.MustNewConstHistogram(handlerLag, h.LagCount, h.LagSum.Seconds(), buckets, labels...)
}

// graph sends the series of one graph, which the board calls name, and of its collections.
func graph(to chan<- prometheus.Metric, name string, s lw.GraphStatus) {
	gauge(to, graphSynced, one(s.Synced), name)
	gauge(to, graphPending, float64(s.Pending), name)
	counter(to, graphSteps, float64(s.Steps), name)
	counter(to, graphStepSeconds, s.Busy.Seconds(), name)
	if !s.StepBegan.IsZero() {
		gauge(to, graphStepBegan, float64(s.StepBegan.UnixMilli())/1000, name)
	}
	collections := labels{}
	for _, c := range s.Collections {
		label := collections.of(c.Name)
		gauge(to, collectionObjects, float64(c.Objects), name, label)
		counter(to, collectionComputed, float64(c.Computed), name, label)
		counter(to, collectionUnchanged, float64(c.Unchanged), name, label)
		gauge(to, collectionConflicts, float64(len(c.Conflicts)), name, label)
		gauge(to, collectionSetAside, float64(len(c.SetAside)), name, label)
		handlers(to, c.Handlers, "", name, label)
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// code returns the label of a code of RequestCount.Ended.
func code(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}
