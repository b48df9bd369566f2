package main

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/simulate"
)

const namespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: a, labels: {example.dev/team: red}}
---
apiVersion: v1
kind: Namespace
metadata: {name: b, labels: {example.dev/team: blue}}
`

const handedOver = `
apiVersion: v1
kind: Namespace
metadata: {name: b, labels: {example.dev/team: green}}
`

// TestSimulate runs the manager under every order, staleness and crash.
func TestSimulate(t *testing.T) {
	simulate.Run(t, simulate.World{
		Start: func(ctx context.Context, c *rest.Config) error {
			mgr, err := newManager(c, ctrl.Options{
				Metrics:    metricsserver.Options{BindAddress: "0"},
				Controller: controllerconfig.Controller{SkipNameValidation: new(true)},
			}, new(lw.Board), prometheus.NewRegistry())
			if err != nil {
				return err
			}
			return mgr.Start(ctx)
		},
		Steps: func(w *simulate.W) {
			w.Apply(namespaces)
			w.Settle()
			w.Apply(handedOver)
		},
	})
}
