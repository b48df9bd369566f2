// Package samplecontroller runs k8s.io/sample-controller 0.37.0, a controller of client-go without
// a manager. Its controller.go is of a package main, so internal/programs puts it here by an
// overlay.
package samplecontroller

import (
	"context"
	"testing"

	"github.com/go-lw/lw/simulate"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
)

func start(ctx context.Context, c *rest.Config) error {
	kube, sample := kubernetes.NewForConfigOrDie(c), clientset.NewForConfigOrDie(c)
	kubes, samples := kubeinformers.NewSharedInformerFactory(kube, 0), informers.NewSharedInformerFactory(sample, 0)
	controller := NewController(ctx, kube, sample, kubes.Apps().V1().Deployments(), samples.Samplecontroller().V1alpha1().Foos())
	kubes.Start(ctx.Done())
	samples.Start(ctx.Done())
	err := controller.Run(ctx, 2)
	kubes.Shutdown()
	samples.Shutdown()
	return err
}

// A Foo is scaled, deleted, and made again.
func TestFoo(t *testing.T) {
	simulate.Run(t, simulate.World{
		CRDs: "testdata/crds", Start: start, Actors: simulate.Actors{simulate.Deployments, simulate.ReplicaSets, simulate.Pods}, Histories: 1000,
		Steps: func(w *simulate.W) {
			w.Apply(foo(1))
			w.Settle()
			w.Apply(foo(2))
			w.Settle()
			w.Delete(foo(2))
			w.Settle()
			w.Apply(foo(1))
		},
	})
}

func foo(replicas int) string {
	return "apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: foo, namespace: default}\nspec: {deploymentName: foo, replicas: " + string(rune('0'+replicas)) + "}"
}
