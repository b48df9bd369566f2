package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-lw/lw"
)

// A part is what the informer of the demonstration keeps.
type part struct{ lw.Meta }

// memory is an exporter that keeps the log records. A program has one that sends them.
type memory struct {
	mu      sync.Mutex
	records []log.Record // guarded by mu
}

func (m *memory) Export(_ context.Context, records []log.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		m.records = append(m.records, r.Clone())
	}
	return nil
}

func (*memory) Shutdown(context.Context) error   { return nil }
func (*memory) ForceFlush(context.Context) error { return nil }

// demo runs an informer until it has synced, and returns nil if OpenTelemetry has got a log record
// with the attribute informer, and the series lw_informer_synced with the value 1.
func demo(ctx context.Context, out io.Writer) (err error) {
	logs := &memory{}
	provider := log.NewLoggerProvider(log.WithProcessor(log.NewSimpleProcessor(logs)))
	board := new(lw.Board)
	reader, err := newReader(board)
	if err != nil {
		return err
	}
	metrics := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { err = errors.Join(err, metrics.Shutdown(ctx), provider.Shutdown(ctx)) }()

	parts := lw.NewInformer(lw.NewMemory(&part{lw.Meta{Name: "a"}}), &lw.Options{Name: "parts", Board: board, Logger: newLogger(provider)})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- parts.Run(running) }()
	end := sync.OnceValue(func() error { stop(); return <-ended })
	defer end()
	if err := parts.WaitForSync(ctx); err != nil {
		return err
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &collected); err != nil {
		return err
	}
	synced, ok := gauge(&collected, "lw_informer_synced", "parts")
	if !ok || synced != 1 {
		return fmt.Errorf("lw_informer_synced is %v, there: %v", synced, ok)
	}
	fmt.Fprintln(out, "metric: lw_informer_synced", synced)
	// A wait for the sync may end before the record of it is written, and Run does not.
	if err := end(); err != nil {
		return err
	}
	return logs.print(out)
}

// print writes the bodies of the records. It returns an error if none is of the informer.
func (m *memory) print(out io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := false
	for _, r := range m.records {
		fmt.Fprintln(out, "log:", r.Body().AsString())
		r.WalkAttributes(func(kv otellog.KeyValue) bool {
			found = found || kv.Key == "informer" && kv.Value.AsString() == "parts"
			return true
		})
	}
	if !found {
		return errors.New("no log record has the attribute informer")
	}
	return nil
}

// gauge returns the value of the gauge called name of an informer.
func gauge(all *metricdata.ResourceMetrics, name, informer string) (float64, bool) {
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Gauge[float64])
			if m.Name != name || !ok {
				continue
			}
			for _, point := range data.DataPoints {
				if v, ok := point.Attributes.Value("informer"); ok && v.AsString() == informer {
					return point.Value, true
				}
			}
		}
	}
	return 0, false
}
