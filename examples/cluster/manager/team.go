package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/go-lw/lw/controllerruntime"
)

// teamLabel is on the namespaces that belong to a team, with the team's name.
const teamLabel = "example.dev/team"

// A teamReconciler keeps a ConfigMap named example-team in each namespace of a team. There is
// nothing of lw in it: the client reads from the manager's cache, whatever that is.
type teamReconciler struct{ client.Client }

func (r *teamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var namespace corev1.Namespace
	if err := r.Get(ctx, req.NamespacedName, &namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "example-team"}}
	team, ok := namespace.Labels[teamLabel]
	if !ok {
		err := r.Get(ctx, client.ObjectKeyFromObject(info), info)
		if err == nil && metav1.IsControlledBy(info, &namespace) {
			err = r.Delete(ctx, info)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, info, func() error {
		info.Data = map[string]string{"name": team}
		return controllerutil.SetControllerReference(&namespace, info, r.Scheme())
	})
	return ctrl.Result{}, err
}

// setup adds the reconciler to a manager. The board shows what it is called for.
func (r *teamReconciler) setup(mgr ctrl.Manager, options controllerruntime.Options) error {
	r.Client = mgr.GetClient()
	explained := controllerruntime.Explain(options, r)
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{NewQueue: explained.NewQueue}).Complete(explained)
}
