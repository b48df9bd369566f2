// Manager is an operator of two kinds that may not be there, and reports what it reconciles. No line
// of it knows of lw.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var version = schema.GroupVersion{Group: "example.com", Version: "v1"}

// A Mouse has a plural that nobody guesses.
type Mouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// A MouseList is a list of mice.
type MouseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Mouse `json:"items"`
}

// DeepCopyObject is part of runtime.Object.
func (m *Mouse) DeepCopyObject() runtime.Object {
	c := *m
	m.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (l *MouseList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1]); err != nil {
		fmt.Println("ended:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &Mouse{}, &MouseList{})
	metav1.AddToGroupVersion(scheme, version)
	mgr, err := ctrl.NewManager(&rest.Config{Host: url}, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{CacheSyncTimeout: 5 * time.Second}, // two minutes, by default
	})
	if err != nil {
		return err
	}
	nest := &metav1.PartialObjectMetadata{}
	nest.SetGroupVersionKind(version.WithKind("Nest"))
	reconciler := reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		var mouse Mouse
		switch err := mgr.GetClient().Get(ctx, r.NamespacedName, &mouse); {
		case err == nil:
			fmt.Println("reconciled", r.Name)
		case apierrors.IsNotFound(err):
			fmt.Println("gone", r.Name)
		default:
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, nil
	})
	if err := ctrl.NewControllerManagedBy(mgr).For(&Mouse{}).Owns(nest).Complete(reconciler); err != nil {
		return err
	}
	fmt.Println("starts")
	return mgr.Start(ctx)
}
