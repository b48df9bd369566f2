// Package builtin gives the built-in kinds the defaults, the rules and the warnings of
// kube-apiserver, by the code of kube-apiserver itself: the scheme fills in the defaults, and a
// kind's strategy prepares a write and refuses it.
package builtin

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/go-lw/lw/lwtest"
)

// Suites run as envtest starts kube-apiserver: with --allow-privileged.
func init() { capabilities.Setup(true, 0) }

// Rules returns r with the defaults and rules that kube-apiserver has for it, in the place of those
// that it has. A resource that has no strategy here stays as it is.
func Rules(r lwtest.Resource) lwtest.Resource {
	by, ok := strategies[schema.GroupResource{Group: r.Group, Resource: r.Plural}]
	if !ok {
		return r
	}
	k := &kind{resource: r, strategies: by}
	if k.resource.Version == "" {
		k.resource.Version = "v1"
	}
	r.Default, r.Validate = k.fill, k.check
	return r
}

// A strategy is what kube-apiserver knows of the writes of a kind, or of one of its subresources.
type strategy = rest.RESTUpdateStrategy

// A kind is a resource with the strategies of its objects, "", and of its subresources.
type kind struct {
	resource   lwtest.Resource
	strategies map[string]strategy
}

// strategyOf returns the strategy that is about a, or nil.
func (k *kind) strategyOf(a lwtest.Admission) strategy {
	switch {
	case a.Object == nil: // it is deleted
		return nil
	case a.Subresource == "scale": // which changes the object itself
		return k.strategies[""]
	}
	return k.strategies[a.Subresource]
}

// fill sets what the author of a write has left out, and takes out what it may not set. Filling in
// twice is the same as once.
func (k *kind) fill(ctx context.Context, a lwtest.Admission) error {
	by := k.strategyOf(a)
	if by == nil {
		return nil
	}
	o, err := meta.Accessor(a.Object)
	if err != nil {
		return err
	}
	if a.Verb == lwtest.Create && o.GetUID() == "" {
		o.SetUID(uuid.NewUUID()) // a Job selects its Pods by it
	}
	legacyscheme.Scheme.Default(a.Object)
	w, err := k.open(ctx, a, o)
	if err != nil {
		return err
	}
	if w.old != nil {
		by.PrepareForUpdate(w.ctx, w.obj, w.old)
	} else if creates, ok := by.(rest.RESTCreateStrategy); ok {
		creates.PrepareForCreate(w.ctx, w.obj)
	}
	return replace(a.Object, w.obj)
}

// replace sets o to the internal object from. A field of o that internal objects do not have, such
// as the stringData of a Secret, is empty then.
func replace(o, from runtime.Object) error {
	value := reflect.ValueOf(o).Elem()
	out := reflect.New(value.Type())
	out.Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	if err := legacyscheme.Scheme.Convert(from, out.Interface(), nil); err != nil {
		return err
	}
	value.Set(out.Elem())
	return nil
}

// check refuses a write, and warns of it.
func (k *kind) check(ctx context.Context, a lwtest.Admission) error {
	by := k.strategyOf(a)
	if by == nil {
		return nil
	}
	o, err := meta.Accessor(a.Object)
	if err != nil {
		return err
	}
	w, err := k.open(ctx, a, o)
	if err != nil {
		return err
	}
	var warnings []string
	if w.old != nil {
		if errs := rest.ValidateUpdate(w.ctx, w.obj, w.old, by); len(errs) > 0 {
			return errs.ToAggregate()
		}
		warnings = by.WarningsOnUpdate(w.ctx, w.obj, w.old)
	} else if creates, ok := by.(rest.RESTCreateStrategy); ok {
		if errs := rest.ValidateCreate(w.ctx, w.obj, creates); len(errs) > 0 {
			return errs.ToAggregate()
		}
		warnings = creates.WarningsOnCreate(w.ctx, w.obj)
	}
	for _, text := range warnings {
		a.Warn(text)
	}
	return nil
}

// A write is an Admission as a strategy sees it: the objects are internal ones.
type write struct {
	ctx      context.Context
	obj, old runtime.Object // old is nil for a new object
}

// open returns the write of a, whose object has the metadata o.
func (k *kind) open(ctx context.Context, a lwtest.Admission, o metav1.Object) (w write, err error) {
	if w.obj, err = internal(a.Object); err != nil {
		return w, err
	}
	if a.Old != nil {
		if w.old, err = internal(a.Old); err != nil {
			return w, err
		}
	}
	ctx = request.WithNamespace(ctx, o.GetNamespace())
	ctx = request.WithUser(ctx, &user.DefaultInfo{
		Name: a.User.Username, UID: a.User.UID, Groups: a.User.Groups, Extra: a.User.Extra,
	})
	w.ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: string(a.Verb), APIGroup: k.resource.Group, APIVersion: k.resource.Version,
		Resource: k.resource.Plural, Subresource: a.Subresource, Namespace: o.GetNamespace(), Name: o.GetName(),
	})
	return w, nil
}

func internal(o runtime.Object) (runtime.Object, error) {
	out, err := legacyscheme.Scheme.ConvertToVersion(o, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	return out, nil
}
