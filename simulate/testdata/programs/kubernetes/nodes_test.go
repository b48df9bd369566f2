package kubernetes

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
)

func node(name, role string) string {
	return "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + ", labels: {role: " + role + ", kubernetes.io/hostname: " + name + "}}\n"
}

// A DaemonSet has a Pod on each worker, while nodes come, become workers and go, and gets another
// image.
func TestDaemonSet(t *testing.T) {
	agent := `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {role: worker}
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: a}]
`
	simulate.Run(t, simulate.World{
		Start: manager(func(ctx context.Context, kube kubernetes.Interface, shared informers.SharedInformerFactory) ([]runner, error) {
			core, apps := shared.Core().V1(), shared.Apps().V1()
			sets, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), kube, flowcontrol.NewBackOff(time.Second, 15*time.Minute))
			if err != nil {
				return nil, err
			}
			return []runner{sets.Run}, nil
		}),
		Actors: simulate.Actors{simulate.Nodes, simulate.Pods},
		Steps: func(w *simulate.W) {
			w.Apply(node("n1", "worker") + "---\n" + node("n2", "worker") + "---\n" + node("n3", "master"))
			w.Apply(agent)
			w.Settle()
			w.Apply(strings.Replace(agent, "image: a", "image: b", 1))
			w.Settle()
			w.Apply(node("n3", "worker"))
			w.Settle()
			w.Apply(node("n1", "master"))
		},
	})
}
