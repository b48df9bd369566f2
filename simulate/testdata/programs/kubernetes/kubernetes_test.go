// Package kubernetes runs controllers of kube-controller-manager 1.37.2, which are believed clean.
// They are of client-go, and have no manager.
package kubernetes

import (
	"context"
	"strings"
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

func clean(ctx context.Context, c *rest.Config) error {
	kube := kubernetes.NewForConfigOrDie(c)
	shared := informers.NewSharedInformerFactory(kube, 0)
	cleaner := ttlafterfinished.New(ctx, shared.Batch().V1().Jobs(), kube)
	shared.Start(ctx.Done())
	cleaner.Run(ctx, 2)
	shared.Shutdown()
	return nil
}

func deploy(ctx context.Context, c *rest.Config) error {
	kube := kubernetes.NewForConfigOrDie(c)
	shared := informers.NewSharedInformerFactory(kube, 0)
	sets, pods := shared.Apps().V1().ReplicaSets(), shared.Core().V1().Pods()
	deployments, err := deployment.NewDeploymentController(ctx, shared.Apps().V1().Deployments(), sets, pods, kube)
	if err != nil {
		return err
	}
	replicas := replicaset.NewReplicaSetController(ctx, sets, pods, kube, replicaset.BurstReplicas)
	shared.Start(ctx.Done())
	done := make(chan struct{})
	go func() { defer close(done); replicas.Run(ctx, 1) }()
	deployments.Run(ctx, 1)
	<-done
	shared.Shutdown()
	return nil
}

// Two Jobs end. One is deleted after five seconds and the other after a minute.
func TestTTL(t *testing.T) {
	job := func(name, ttl string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", namespace: default}\nspec:\n  ttlSecondsAfterFinished: " + ttl +
			"\n  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}\n"
	}
	simulate.Run(t, simulate.World{
		Start: clean, Actors: simulate.Actors{simulate.Jobs, simulate.Pods},
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
		Start: deploy, Actors: simulate.Actors{simulate.Pods}, Varies: []string{"replicasets.metadata.annotations"},
		Steps: func(w *simulate.W) {
			w.Apply(web("2", "a"))
			w.Settle()
			w.Apply(web("3", "b"))
			w.Settle()
			w.Apply(web("1", "b"))
		},
	})
}
