package prom_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/prom"
)

// A board is registered once. What it lists may start and stop at any time.
func ExampleCollector() {
	ctx, cancel := context.WithCancel(context.Background())
	board := new(lw.Board)
	registry := prometheus.NewRegistry() // promhttp.HandlerFor(registry, …) serves it
	registry.MustRegister(prom.Collector(board))

	nodes := lw.NewInformer(lw.NewMemory(newNode("a")), &lw.Options{Name: "nodes", Board: board})
	ran := make(chan error)
	go func() { ran <- nodes.Run(ctx) }()
	_ = nodes.WaitForSync(ctx)

	families, _ := registry.Gather()
	for _, f := range families {
		if f.GetName() == "lw_informer_objects" {
			m := f.GetMetric()[0]
			fmt.Println(f.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue())
		}
	}
	cancel()
	<-ran
	// Output: lw_informer_objects nodes 1
}
