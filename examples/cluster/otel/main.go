// Command otel sends the logs and the metrics of an informer to OpenTelemetry. lw has no module for
// that: its logs are those of log/slog, and prom.Collector is a source of metrics. OpenTelemetry
// has a bridge for each.
//
//	go run .
//
// runs an informer on a server in memory, prints what OpenTelemetry has got, and exits with 0 if a
// log record and a series of the informer are there.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := demo(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
