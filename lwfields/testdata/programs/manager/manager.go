// Package manager is a golden program: see ../README.md.
package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type reconciler struct{ client.Client }

// Reconcile reads a pod from the cache.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.Get(ctx, req.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if controllerutil.ContainsFinalizer(&pod, "x") { // want "metadata.finalizers"
		ctrl.Log.Info("has one", "pod", klog.KObj(&pod))
	}
	ctrl.Log.Info(pod.Spec.NodeName) // want "spec.nodeName"
	var node corev1.Node
	if err := load(ctx, r.Client, &node); err != nil {
		return ctrl.Result{}, err
	}
	ctrl.Log.Info("node", "cidr", node.Spec.PodCIDR) // want "Node spec.podCIDR"
	return ctrl.Result{}, nil
}

func load(ctx context.Context, c client.Reader, obj client.Object) error {
	return c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
}

// Setup registers it. A predicate and a mapper are of the kind that they are given for.
func (r *reconciler) Setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return o.GetLabels()["a"] == "b" // want "metadata.labels"
		}))).
		Owns(&corev1.Node{}). // want "Node metadata.ownerReferences"
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			ctrl.Log.Info("service", "annotations", o.GetAnnotations()) // want "Service metadata.annotations"
			return nil
		}), builder.WithPredicates(changed{}, either{})).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(either{})).
		Complete(r)
}

// changed is given for services alone, and so are the events that its helper looks at.
type changed struct{ predicate.Funcs }

func (changed) Update(e event.UpdateEvent) bool { return sameTimes(e) && sameOwners(e) }

func sameTimes(e event.UpdateEvent) bool {
	return e.ObjectOld.GetCreationTimestamp() == e.ObjectNew.GetCreationTimestamp() // want "Service metadata.creationTimestamp"
}

// either is given for two kinds, and has a helper of both of them.
type either struct{ predicate.Funcs }

func (either) Update(e event.UpdateEvent) bool { return sameOwners(e) }

func sameOwners(e event.UpdateEvent) bool {
	return len(e.ObjectNew.GetManagedFields()) == len(e.ObjectOld.GetManagedFields()) // want "Service metadata.managedFields" "Node metadata.managedFields"
}

// anybody is given for nodes, and called with any object as well.
type anybody struct{ predicate.Funcs }

func (anybody) Update(e event.UpdateEvent) bool { return named(e) }

func named(e event.UpdateEvent) bool {
	return e.ObjectNew.GetSelfLink() != "" // want "metadata.selfLink" "Node metadata.selfLink" "Service metadata.selfLink"
}

// Hooks are for whoever asks for them.
func Hooks(mgr ctrl.Manager) (predicate.Funcs, error) {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return named(e) }},
		ctrl.NewControllerManagedBy(mgr).For(&corev1.Node{}, builder.WithPredicates(anybody{})).Complete(&reconciler{})
}

// types: k8s.io/api/core/v1.Pod k8s.io/api/core/v1.Node k8s.io/api/core/v1.Service
