// Package endpointslicemirroring runs the controller of kube-controller-manager 1.37.2 that mirrors
// Endpoints which somebody has written by hand. It loses a slice for ever when another manager's
// finalizer keeps one.
package endpointslicemirroring

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	mirroring "k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
)

func start(ctx context.Context, c *rest.Config) error {
	kube := kubernetes.NewForConfigOrDie(c)
	shared := informers.NewSharedInformerFactory(kube, 0)
	core := shared.Core().V1()
	mirror := mirroring.NewController(ctx, core.Endpoints(), shared.Discovery().V1().EndpointSlices(), core.Services(), 1000, kube, time.Second)
	shared.Start(ctx.Done())
	mirror.Run(ctx, 1)
	shared.Shutdown()
	return nil
}

// The addresses of a service outside the cluster change, go, and come back.
func TestMirroring(t *testing.T) {
	service := `
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: default}
spec:
  ports: [{name: http, port: 80}]
`
	endpoints := `
apiVersion: v1
kind: Endpoints
metadata: {name: outside, namespace: default}
subsets:
- addresses: [{ip: 192.0.2.1}]
  ports: [{name: http, port: 80}]
`
	simulate.Run(t, simulate.World{
		Start: start,
		Steps: func(w *simulate.W) {
			w.Apply(service)
			w.Apply(endpoints)
			w.Settle()
			w.Apply(strings.Replace(endpoints, "192.0.2.1", "192.0.2.2", 1))
			w.Settle()
			w.Delete(endpoints)
			w.Settle()
			w.Apply(endpoints)
		},
	})
}
