package clientgo

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// records is the slog.Handler of an informer's lw.Options.Logger. It writes to the logger of the
// context that the informer runs with. lw logs that an informer has synced, and that requests work
// again after failures. Failures themselves go to the WatchErrorHandler.
type records struct {
	to atomic.Pointer[klog.Logger] // nil until the informer runs
}

// Enabled implements [slog.Handler].
func (r *records) Enabled(context.Context, slog.Level) bool { return r.to.Load() != nil }

// Handle implements [slog.Handler]. It logs a sync without failures at V(2), as client-go does.
func (r *records) Handle(_ context.Context, record slog.Record) error {
	level := 0
	if strings.HasSuffix(record.Message, ": synced") {
		level = 2
	}
	var attrs []any
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "failures" && a.Value.Int64() > 0 {
			level = 0
		}
		attrs = append(attrs, a.Key, a.Value.Any())
		return true
	})
	r.to.Load().V(level).Info(record.Message, attrs...)
	return nil
}

// WithAttrs implements [slog.Handler]. lw does not call it.
func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup implements [slog.Handler]. lw does not call it.
func (r *records) WithGroup(string) slog.Handler { return r }
