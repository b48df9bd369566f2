// Package builtin gives the built-in kinds the defaults, the rules and the warnings of
// kube-apiserver, by the code of kube-apiserver itself: the scheme fills in the defaults, admission
// plugins admit a write, and a kind's strategy prepares it and refuses it.
package builtin

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"
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
// that it has. A resource that has no strategy here stays as it is. p may be nil.
func Rules(r lwtest.Resource, p *Plugins) lwtest.Resource {
	of := schema.GroupResource{Group: r.Group, Resource: r.Plural}
	by, ok := strategies[of]
	if !ok {
		by, ok = asking(p)[of]
	}
	if !ok {
		return r
	}
	k := &kind{resource: r, strategies: by, plugins: p}
	if k.resource.Version == "" {
		k.resource.Version = "v1"
	}
	r.Default, r.Validate, r.Table = k.fill, k.check, k.table
	return r
}

// A strategy is what kube-apiserver knows of the writes of a kind, or of one of its subresources.
type strategy = rest.RESTUpdateStrategy

// A kind is a resource with the strategies of its objects, "", and of its subresources.
type kind struct {
	resource   lwtest.Resource
	strategies map[string]strategy
	plugins    *Plugins
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
	// No copy: the labels of a Job are the map of its template's, to which its strategy adds.
	w, err := k.open(ctx, a, o, legacyscheme.Scheme.UnsafeConvertToVersion)
	if err != nil {
		return err
	}
	if err := k.plugins.fill(w); err != nil {
		return err
	}
	if w.old != nil {
		by.PrepareForUpdate(w.ctx, w.obj, w.old)
	} else if creates, ok := by.(rest.RESTCreateStrategy); ok {
		creates.PrepareForCreate(w.ctx, w.obj)
	}
	if err := replace(a.Object, w.obj); err != nil {
		return err
	}
	// A stored object is read with its defaults: those of a status come after it was taken out.
	legacyscheme.Scheme.Default(a.Object)
	return nil
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
	k.warn(a)
	by := k.strategyOf(a)
	if by == nil {
		return nil
	}
	o, err := meta.Accessor(a.Object)
	if err != nil {
		return err
	}
	w, err := k.open(ctx, a, o, legacyscheme.Scheme.ConvertToVersion)
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
	return k.plugins.check(w)
}

// warn warns of what kube-apiserver warns of beside a strategy.
func (k *kind) warn(a lwtest.Admission) {
	switch a.Object.(type) {
	case nil:
		options, ok := a.Options.(*metav1.DeleteOptions)
		//lint:ignore SA1019 older clients send it
		if ok && k.resource.Plural == "jobs" && options.PropagationPolicy == nil && options.OrphanDependents == nil {
			a.Warn("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background " +
				"to remove them or set propagationPolicy=Orphan to suppress this warning")
		}
	//lint:ignore SA1019 it is warned of
	case *corev1.Endpoints:
		a.Warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
	}
}

// A write is an Admission as a strategy sees it: the objects are internal ones.
type write struct {
	ctx        context.Context
	obj, old   runtime.Object // old is nil for a new object
	attributes admission.Attributes
}

// A converter makes an object one of another version.
type converter = func(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error)

// open returns the write of a, whose object has the metadata o and is converted by convert.
func (k *kind) open(ctx context.Context, a lwtest.Admission, o metav1.Object, convert converter) (w write, err error) {
	if w.obj, err = convert(a.Object, runtime.InternalGroupVersioner); err != nil {
		return w, fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	if a.Old != nil {
		if w.old, err = legacyscheme.Scheme.ConvertToVersion(a.Old, runtime.InternalGroupVersioner); err != nil {
			return w, fmt.Errorf("lwenvtest: builtin: %w", err)
		}
	}
	ctx = request.WithNamespace(ctx, o.GetNamespace())
	author := Asker(a.User)
	ctx = request.WithUser(ctx, author)
	w.ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: string(a.Verb), APIGroup: k.resource.Group, APIVersion: k.resource.Version,
		Resource: k.resource.Plural, Subresource: a.Subresource, Namespace: o.GetNamespace(), Name: o.GetName(),
	})
	operation := admission.Create
	if w.old != nil {
		operation = admission.Update
	}
	version := schema.GroupVersion{Group: k.resource.Group, Version: k.resource.Version}
	w.attributes = admission.NewAttributesRecord(w.obj, w.old, version.WithKind(k.resource.Kind), o.GetNamespace(), a.Name,
		version.WithResource(k.resource.Plural), a.Subresource, operation, a.Options, a.DryRun, author)
	return w, nil
}

// Asker returns who makes a request, or a write: the server itself if u names nobody.
func Asker(u lwtest.User) user.Info {
	if u.Username == "" {
		return &user.DefaultInfo{Name: user.APIServerUser,
			Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	}
	return &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}
