// Package kubernetes runs controllers of kube-controller-manager 1.37.2, which are believed clean.
// They are of client-go, and have no manager.
package kubernetes

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
)

// A runner is the Run of a controller.
type runner func(ctx context.Context, workers int)

// manager returns a Start that runs controllers until its context is done.
func manager(make func(ctx context.Context, kube kubernetes.Interface, shared informers.SharedInformerFactory) ([]runner, error)) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, c *rest.Config) error {
		kube := kubernetes.NewForConfigOrDie(c)
		shared := informers.NewSharedInformerFactory(kube, 0)
		controllers, err := make(ctx, kube, shared)
		if err != nil {
			return err
		}
		shared.Start(ctx.Done())
		var running sync.WaitGroup
		for _, run := range controllers {
			running.Go(func() { run(ctx, 1) })
		}
		running.Wait()
		shared.Shutdown()
		return nil
	}
}

// Two Jobs end. One is deleted after five seconds and the other after a minute.
func TestTTL(t *testing.T) {
	job := func(name, ttl string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", namespace: default}\nspec:\n  ttlSecondsAfterFinished: " + ttl +
			"\n  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}\n"
	}
	simulate.Run(t, simulate.World{
		Start: manager(func(ctx context.Context, kube kubernetes.Interface, shared informers.SharedInformerFactory) ([]runner, error) {
			return []runner{ttlafterfinished.New(ctx, shared.Batch().V1().Jobs(), kube).Run}, nil
		}),
		Actors: simulate.Actors{simulate.Jobs, simulate.Pods},
		Steps: func(w *simulate.W) {
			w.Apply(job("a", "5") + "---\n" + job("b", "60"))
			w.Settle()
			w.Pass(2 * time.Minute)
		},
	})
}

// A Deployment rolls out a second image and more replicas, and is then scaled down. A ReplicaSet's
// annotations keep what the controller knew when it wrote them last.
func TestDeployment(t *testing.T) {
	web := func(replicas, image string) string {
		return strings.NewReplacer("REPLICAS", replicas, "IMAGE", image).Replace(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: REPLICAS
  revisionHistoryLimit: 10
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: IMAGE}]}
`)
	}
	simulate.Run(t, simulate.World{
		Start: manager(func(ctx context.Context, kube kubernetes.Interface, shared informers.SharedInformerFactory) ([]runner, error) {
			sets, pods := shared.Apps().V1().ReplicaSets(), shared.Core().V1().Pods()
			deployments, err := deployment.NewDeploymentController(ctx, shared.Apps().V1().Deployments(), sets, pods, kube)
			if err != nil {
				return nil, err
			}
			return []runner{replicaset.NewReplicaSetController(ctx, sets, pods, kube, replicaset.BurstReplicas).Run, deployments.Run}, nil
		}),
		Actors: simulate.Actors{simulate.Pods}, Varies: []string{"replicasets.metadata.annotations"},
		Steps: func(w *simulate.W) {
			w.Apply(web("2", "a"))
			w.Settle()
			w.Apply(web("3", "b"))
			w.Settle()
			w.Apply(web("1", "b"))
		},
	})
}

// A ReplicaSet grows, shrinks, and makes a Pod again that a user deletes.
func TestReplicaSet(t *testing.T) {
	set := func(replicas string) string {
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
			return []runner{replicaset.NewReplicaSetController(ctx, shared.Apps().V1().ReplicaSets(), shared.Core().V1().Pods(), kube, replicaset.BurstReplicas).Run}, nil
		}),
		Actors: simulate.Actors{simulate.Pods},
		Steps: func(w *simulate.W) {
			w.Apply(set("2"))
			w.Settle()
			w.Apply(set("4"))
			w.Settle()
			w.Apply(set("1"))
			w.Settle()
			w.Delete(set("1"))
		},
	})
}
