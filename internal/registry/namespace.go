package registry

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Namespace has one of two phases.
const (
	active      = "Active"
	Terminating = "Terminating"
)

// begin gives a new Namespace what kube-apiserver does: its finalizer, its phase and its label.
func (k *Kind) begin(o *Object) error {
	u, err := k.content(o)
	if err != nil {
		return err
	}
	spec := in(u.Object, "spec")
	finalizers, _ := spec["finalizers"].([]any)
	if !slices.Contains(finalizers, any("kubernetes")) {
		spec["finalizers"] = append(finalizers, "kubernetes")
	}
	u.Object["status"] = document{"phase": active}
	if o.Meta.Labels = maps.Clone(o.Meta.Labels); o.Meta.Labels == nil {
		o.Meta.Labels = map[string]string{}
	}
	o.Meta.Labels["kubernetes.io/metadata.name"] = o.Meta.Name
	return k.become(o, u.Object)
}

// held reports whether a Namespace has a finalizer in its spec, which keeps it from going.
func (k *Kind) held(o *Object) bool {
	if !k.Ends {
		return false
	}
	finalizers := o.Field("spec.finalizers")
	return finalizers != "" && finalizers != "[]" && finalizers != "null"
}

var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// checkImmortal refuses to delete the Namespaces that a cluster needs.
func (k *Kind) checkImmortal(o *Object) error {
	if k.Ends && slices.Contains(immortal, o.Meta.Name) {
		return apierrors.NewForbidden(k.GroupResource(), o.Meta.Name, errors.New("this namespace may not be deleted"))
	}
	return nil
}

// end decides about the DELETE of a Namespace: it is Terminating until it is not held any more.
func (w *Write) end(old *Object) (Outcome, error) {
	k := w.kind
	switch {
	case old.Meta.DeletionTimestamp != nil && (k.held(old) || len(old.Meta.Finalizers) > 0):
		return Outcome{Action: Nothing, Object: old, Code: http.StatusOK}, nil
	case old.Meta.DeletionTimestamp != nil:
		return Outcome{Action: Remove, Object: old, Code: http.StatusOK, Gone: true}, nil
	}
	o := *old
	o.Meta.Finalizers = w.finalizers(old)
	t := now()
	o.Meta.DeletionTimestamp = &t
	u, err := k.content(&o)
	if err != nil {
		return Outcome{}, err
	}
	in(u.Object, "status")["phase"] = Terminating
	if err := k.become(&o, u.Object); err != nil {
		return Outcome{}, err
	}
	return Outcome{Action: Replace, Object: &o, Code: http.StatusOK}, k.give(&o)
}

// checkHome refuses a new object in a namespace that takes none.
func (w *Write) checkHome(m *metav1.ObjectMeta) error {
	if w.home == nil || w.req.Whole || w.kind.Cluster {
		return nil
	}
	err := w.home(m.Namespace)
	if err != ErrTerminating {
		return err
	}
	name := m.Name
	if w.req.Verb == Create && w.generates() {
		name = m.GenerateName
	}
	ns := m.Namespace
	refused := apierrors.NewForbidden(w.kind.GroupResource(), name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", ns))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", ns), Field: "metadata.namespace",
	})
	return refused
}

// ErrTerminating says of a namespace that it is Terminating; see [Housed].
var ErrTerminating = errors.New("registry: the namespace is terminating")
