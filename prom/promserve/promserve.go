// Package promserve exposes what a [serve.Handler] serves as series of Prometheus. It is apart from
// package prom, so that a program which serves nothing does not contain package serve.
package promserve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-lw/lw/serve"
)

// Collector returns a collector of the collections that h serves. It keeps nothing: a scrape asks
// for the status of each. The label resource is the plural with its group and version, such as
// pods.v1. or widgets.v1.example.io. Collector panics if h is nil.
func Collector(h *serve.Handler) prometheus.Collector {
	if h == nil {
		panic("lw/prom/promserve: Collector: nil Handler")
	}
	return collector{h}
}

type collector struct{ handler *serve.Handler }

// A series is one series of each collection.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *serve.Status) float64
}

func of(name, help string, kind prometheus.ValueType, value func(*serve.Status) float64) series {
	return series{prometheus.NewDesc("lw_serve_"+name, help, []string{"resource"}, nil), kind, value}
}

var all = []series{
	of("synced", "1 if the collection can be read, else 0.", prometheus.GaugeValue, func(s *serve.Status) float64 {
		if s.Synced {
			return 1
		}
		return 0
	}),
	of("objects", "Objects in the collection.", prometheus.GaugeValue, func(s *serve.Status) float64 { return float64(s.Objects) }),
	of("resource_version", "Version up to which clients can see everything.", prometheus.GaugeValue, func(s *serve.Status) float64 { return float64(s.ResourceVersion) }),
	of("history_events", "Events that a client may be behind.", prometheus.GaugeValue, func(s *serve.Status) float64 { return float64(s.Events) }),
	of("history_bytes", "Bytes of the history: encoded events, and the objects that they have ended.", prometheus.GaugeValue, func(s *serve.Status) float64 { return float64(s.Bytes) }),
	of("watches", "Watches that are open.", prometheus.GaugeValue, func(s *serve.Status) float64 { return float64(s.Watches) }),
	of("watches_total", "Watches that were opened.", prometheus.CounterValue, func(s *serve.Status) float64 { return float64(s.Opened) }),
	of("lists_total", "Lists that were answered.", prometheus.CounterValue, func(s *serve.Status) float64 { return float64(s.Lists) }),
	of("events_sent_total", "Events that were sent, to all clients.", prometheus.CounterValue, func(s *serve.Status) float64 { return float64(s.Sent) }),
	of("encoded_total", "Objects that were encoded, once for all clients.", prometheus.CounterValue, func(s *serve.Status) float64 { return float64(s.Encoded) }),
	of("expired_total", "Watches that ended with 410, because the history had moved past them or begun anew.", prometheus.CounterValue, func(s *serve.Status) float64 { return float64(s.Expired) }),
}

// Describe implements [prometheus.Collector].
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, s := range all {
		to <- s.desc
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) { collect(to, c.handler.Status()) }

// collect sends the series of collections.
func collect(to chan<- prometheus.Metric, collections []serve.Status) {
	for _, status := range collections {
		resource := status.Resource + "." + status.Version + "." + status.Group
		for _, s := range all {
			to <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&status), resource)
		}
	}
}
