package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	otelprom "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/prom"
)

// newLogger returns a logger for Options.Logger, whose records go to provider.
func newLogger(provider *log.LoggerProvider) *slog.Logger {
	return otelslog.NewLogger("github.com/go-lw/lw", otelslog.WithLoggerProvider(provider))
}

// newReader returns a reader of the metrics of all that board lists. A program that pushes its
// metrics gives the same producer to metric.NewPeriodicReader, with its exporter.
func newReader(board *lw.Board) (*metric.ManualReader, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(prom.Collector(board)); err != nil {
		return nil, err
	}
	producer := otelprom.NewMetricProducer(otelprom.WithGatherer(registry))
	return metric.NewManualReader(metric.WithProducer(producer)), nil
}
