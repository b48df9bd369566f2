package admission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/builtin"
	"github.com/go-lw/lw/lwtest"
)

// The kinds of subresources that are not those of their resources.
var (
	scale    = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	binding  = schema.GroupVersionKind{Version: "v1", Kind: "Binding"}
	eviction = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
)

// A kind is a resource as the plugins see it: all its objects are unstructured. It implements
// [admission.ObjectInterfaces] and what that returns.
type kind struct {
	resource lwtest.Resource
	mapper   runtime.EquivalentResourceMapper
}

func newKind(r lwtest.Resource, mapper runtime.EquivalentResourceRegistry) *kind {
	r.Version = cmp.Or(r.Version, "v1")
	k := &kind{r, mapper}
	for _, version := range append([]string{r.Version}, r.Versions...) {
		at := schema.GroupVersion{Group: r.Group, Version: version}
		resource := at.WithResource(r.Plural)
		mapper.RegisterKindFor(resource, "", at.WithKind(r.Kind))
		mapper.RegisterKindFor(resource, "status", at.WithKind(r.Kind))
		if r.Scale {
			mapper.RegisterKindFor(resource, "scale", scale)
		}
	}
	return k
}

func (k *kind) GetObjectCreater() runtime.ObjectCreater     { return k }
func (k *kind) GetObjectTyper() runtime.ObjectTyper         { return unstructuredTyper{} }
func (k *kind) GetObjectDefaulter() runtime.ObjectDefaulter { return k }
func (k *kind) GetObjectConvertor() runtime.ObjectConvertor { return k }
func (k *kind) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return k.mapper
}

// New implements [runtime.ObjectCreater].
func (k *kind) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// Default implements [runtime.ObjectDefaulter]. The defaults are filled in after the last plugin.
func (k *kind) Default(runtime.Object) {}

// Convert implements [runtime.ObjectConvertor]: out becomes in, in the version that out has.
func (k *kind) Convert(in, out, _ any) error {
	from, ok := in.(*unstructured.Unstructured)
	to, also := out.(*unstructured.Unstructured)
	if !ok || !also {
		return fmt.Errorf("lwenvtest: admission: a conversion of %T to %T", in, out)
	}
	want := to.GroupVersionKind()
	if from.GroupVersionKind() != want {
		from = from.DeepCopy()
		if k.resource.Convert != nil {
			if err := k.resource.Convert(from, want.Version); err != nil {
				return err
			}
		}
		from.SetGroupVersionKind(want)
	}
	to.Object = from.Object
	return nil
}

// ConvertToVersion implements [runtime.ObjectConvertor].
func (k *kind) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gvk, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if !ok {
		return nil, fmt.Errorf("lwenvtest: admission: no conversion of %v", in.GetObjectKind().GroupVersionKind())
	}
	out, err := k.New(gvk)
	if err == nil {
		err = k.Convert(in, out, nil)
	}
	return out, err
}

// ConvertFieldLabel implements [runtime.ObjectConvertor].
func (k *kind) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

type unstructuredTyper struct{}

// ObjectKinds implements [runtime.ObjectTyper].
func (unstructuredTyper) ObjectKinds(o runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{o.GetObjectKind().GroupVersionKind()}, false, nil
}

// Recognizes implements [runtime.ObjectTyper].
func (unstructuredTyper) Recognizes(schema.GroupVersionKind) bool { return true }

// A view is a write as the plugins see it.
type view struct {
	kind        *kind
	a           lwtest.Admission
	gvk         schema.GroupVersionKind // of the objects
	version     string                  // of the request
	object, old *unstructured.Unstructured
	whole       *unstructured.Unstructured // the object of which object is the scale, or object itself
	birth       map[string]any             // what unborn has taken away
	posted      bool                       // object is of a kind that is nowhere stored; see post
}

func (k *kind) view(a lwtest.Admission) (v *view, err error) {
	v = &view{kind: k, a: a, version: k.resource.Version}
	if v.object, err = k.open(a.Object); err != nil {
		return nil, err
	}
	if v.old, err = k.open(a.Old); err != nil {
		return nil, err
	}
	of := v.object
	if of == nil {
		of = v.old
	}
	v.gvk, v.version, v.whole = of.GroupVersionKind(), of.GroupVersionKind().Version, v.object
	isPod := k.resource.Group == "" && v.object != nil
	switch {
	case a.Subresource == "scale":
		v.gvk = scale
		v.object, v.old = scaleOf(v.object), scaleOf(v.old)
	case a.Subresource == "binding" && isPod:
		v.post(binding)
		node, _, _ := unstructured.NestedString(v.whole.Object, "spec", "nodeName")
		v.object.Object["target"] = map[string]any{"kind": "Node", "name": node}
	case a.Subresource == "eviction" && isPod:
		v.post(eviction)
	}
	return v, nil
}

// post makes v the creation of an object of another kind, by which the object of the resource is
// changed or deleted.
func (v *view) post(gvk schema.GroupVersionKind) {
	v.gvk, v.old, v.posted = gvk, nil, true
	v.object = &unstructured.Unstructured{Object: map[string]any{}}
	v.object.SetGroupVersionKind(gvk)
	v.object.SetName(v.whole.GetName())
	v.object.SetNamespace(v.whole.GetNamespace())
	if o, ok := v.a.Options.(*metav1.UpdateOptions); ok {
		options := &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
		options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
		v.a.Options = options
	}
}

// open returns an object of the resource as the plugins see it.
func (k *kind) open(o runtime.Object) (*unstructured.Unstructured, error) {
	if o == nil {
		return nil, nil
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: k.resource.Group, Version: k.resource.Version, Kind: k.resource.Kind})
	if data, err = u.MarshalJSON(); err == nil {
		err = u.UnmarshalJSON(data) // which keeps integers
	}
	return u, err
}

// scaleOf returns the scale of an object, as the subresource shows it.
func scaleOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	s := &unstructured.Unstructured{Object: map[string]any{}}
	s.SetGroupVersionKind(scale)
	s.SetName(o.GetName())
	s.SetNamespace(o.GetNamespace())
	s.SetUID(o.GetUID())
	s.SetResourceVersion(o.GetResourceVersion())
	s.SetCreationTimestamp(o.GetCreationTimestamp())
	for _, path := range [][]string{{"spec", "replicas"}, {"status", "replicas"}, {"status", "selector"}} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(o.Object, path...); ok {
			_ = unstructured.SetNestedField(s.Object, value, path...) // its parents are objects
		}
	}
	return s
}

// unborn takes from a new object what kube-apiserver gives it after the mutating plugins: a
// generated name, and when and how it came to be.
func (v *view) unborn(name string) {
	meta, ok := v.object.Object["metadata"].(map[string]any)
	if !ok {
		return
	}
	v.birth = map[string]any{}
	take := []string{"creationTimestamp", "generation", "uid"}
	if name == "" {
		take = append(take, "name")
	}
	for _, member := range take {
		if value, ok := meta[member]; ok {
			v.birth[member] = value
			delete(meta, member)
		}
	}
}

// attributes returns the write for a plugin.
func (v *view) attributes() admission.Attributes {
	r := v.kind.resource
	of := v.object
	if of == nil {
		of = v.old
	}
	namespace := of.GetNamespace()
	if r.Group == "" && r.Plural == "namespaces" {
		namespace = of.GetName()
	}
	var object, old runtime.Object // which are nil where there is none
	operation := admission.Update
	if v.object != nil {
		object = v.object
	} else {
		operation = admission.Delete
	}
	if v.old != nil {
		old = v.old
	} else {
		operation = admission.Create
	}
	resource := schema.GroupVersionResource{Group: r.Group, Version: v.version, Resource: r.Plural}
	return admission.NewAttributesRecord(object, old, v.gvk, namespace, of.GetName(), resource, v.a.Subresource,
		operation, v.a.Options, v.a.DryRun, builtin.Asker(v.a.User))
}

func equal(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

// close makes the object of the write what the plugins have made of it.
func (v *view) close() error {
	changed := v.object
	if v.whole != v.object {
		if n, ok, _ := unstructured.NestedFieldCopy(v.object.Object, "spec", "replicas"); ok {
			if err := unstructured.SetNestedField(v.whole.Object, n, "spec", "replicas"); err != nil {
				return err
			}
		}
		changed = v.whole
	}
	for member, value := range v.birth {
		if err := unstructured.SetNestedField(changed.Object, value, "metadata", member); err != nil {
			return err
		}
	}
	if u, ok := v.a.Object.(*unstructured.Unstructured); ok {
		u.Object = changed.Object
		return nil
	}
	data, err := changed.MarshalJSON()
	if err != nil {
		return err
	}
	to := reflect.ValueOf(v.a.Object).Elem()
	next := reflect.New(to.Type())
	if err := json.Unmarshal(data, next.Interface()); err != nil {
		return err
	}
	to.Set(next.Elem())
	if o, ok := v.a.Object.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as the engine's own
	}
	return nil
}
