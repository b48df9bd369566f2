package main

import "testing"

// The demonstration is the test: it fails unless OpenTelemetry gets the log record and the series.
func TestDemo(t *testing.T) {
	if err := demo(t.Context(), t.Output()); err != nil {
		t.Error(err)
	}
}
