// Package prom shows a [lw.Board] to Prometheus. [Collector] is all of it.
//
// The series and what they mean are in docs/operate.md of lw, with the alerts that matter.
package prom
