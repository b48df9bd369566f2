package lw

import (
	"errors"
	"log/slog"
	"strings"
)

// graphLog returns the default of GraphOptions.OnError for the graph called name. It logs each
// error at level Warn.
func graphLog(logger *slog.Logger, name string) func(err error) {
	return func(err error) {
		graph := slog.String("graph", name)
		e, ok := errors.AsType[*Error](err)
		if !ok {
			logger.Warn(err.Error(), graph, slog.Any("error", err))
			return
		}
		collection := slog.String("collection", strings.TrimPrefix(e.Informer, name+"/"))
		warn(logger, e, e.Informer, " failed", []slog.Attr{graph, collection}, nil)
	}
}
