package lw

import (
	"context"
	"errors"
	"log/slog"
	"strings"
)

// graphLog returns the default of GraphOptions.OnError for the graph called name. It logs each
// error at level Warn.
func graphLog(logger *slog.Logger, name string) func(err error) {
	return func(err error) {
		attrs := []slog.Attr{slog.String("graph", name)}
		msg := err.Error()
		if e, ok := errors.AsType[*Error](err); ok {
			msg = "lw: " + e.Informer + ": " + e.Op
			collection := strings.TrimPrefix(e.Informer, name+"/")
			attrs = append(attrs, slog.String("collection", collection), slog.String("op", e.Op))
			if e.Key != (Key{}) {
				msg += " of " + keyString(e.Key)
				attrs = append(attrs, slog.String("key", keyString(e.Key)))
			}
			msg += " failed"
		}
		attrs = append(attrs, slog.Any("error", err))
		logger.LogAttrs(context.Background(), slog.LevelWarn, msg, attrs...)
	}
}
