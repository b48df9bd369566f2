package kubernetes

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
)

// A Service has the addresses of a Deployment's Pods, which grows and shrinks, and gets another
// port.
func TestEndpointSlice(t *testing.T) {
	service := `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80}]
`
	web := func(replicas string) string {
		return `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: default}
spec:
  replicas: ` + replicas + `
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: a}]}
`
	}
	simulate.Run(t, simulate.World{
		Start: manager(func(ctx context.Context, kube kubernetes.Interface, shared informers.SharedInformerFactory) ([]runner, error) {
			core := shared.Core().V1()
			return []runner{endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), shared.Discovery().V1().EndpointSlices(), 100, kube, time.Second).Run}, nil
		}),
		Actors: simulate.Actors{simulate.ReplicaSets, simulate.Nodes, simulate.Pods},
		Steps: func(w *simulate.W) {
			w.Apply(node("n1", "worker") + "---\n" + node("n2", "worker"))
			w.Apply(service)
			w.Apply(web("2"))
			w.Settle()
			w.Apply(web("3"))
			w.Apply(strings.Replace(service, "port: 80", "port: 81", 1))
			w.Settle()
			w.Apply(web("1"))
			w.Settle()
			w.Delete(service)
		},
	})
}
