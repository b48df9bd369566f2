package registry

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scaleKind is the kind of the subresource scale.
func (k *Kind) scaleKind() *Kind {
	return &Kind{Group: "autoscaling", Version: "v1", Kind: "Scale", Plural: k.Plural, Cluster: k.Cluster}
}

func splitPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// ScaleOf returns the scale of an object as JSON. It fails if a custom resource does not say how
// many replicas are wanted.
func (k *Kind) ScaleOf(o *Object) ([]byte, error) {
	scale, found, err := k.scaleOf(o)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", k.Scale.Replicas))
	}
	return k.scaleKind().AppendJSON(nil, scale), nil
}

// unsaid is the number of replicas in the scale of an object that does not say one.
const unsaid = math.MinInt32

// scaleOf returns the scale of an object. found says that the object has a number of replicas, or
// has none that is written: the zero of a Go type, or a kind that is built in.
func (k *Kind) scaleOf(o *Object) (scale *Object, found bool, err error) {
	u, err := k.content(o)
	if err != nil {
		return nil, false, err
	}
	spec, status := map[string]any{}, map[string]any{}
	status["replicas"], _, _ = unstructured.NestedInt64(u.Object, splitPath(k.Scale.StatusReplicas)...)
	if k.Scale.Selector != "" {
		if selector, ok, _ := unstructured.NestedString(u.Object, splitPath(k.Scale.Selector)...); ok && selector != "" {
			status["selector"] = selector
		}
	}
	if _, ok := status["selector"]; !ok && BuiltIn(k.Group) {
		if selector := selectorOf(u); selector != "" {
			status["selector"] = selector
		}
	}
	n, found, _ := unstructured.NestedInt64(u.Object, splitPath(k.Scale.Replicas)...)
	if found = found || k.Native || k.Type != nil && !k.Type.opaque; !found {
		n = unsaid
	}
	if n != 0 {
		spec["replicas"] = n
	}
	m := &o.Meta
	return &Object{
		Meta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp},
		Body: mustJSON(map[string]any{"spec": spec}), Status: mustJSON(status),
	}, found, nil
}

// selectorOf returns the selector of the pods of a built-in kind: that of a ReplicationController
// is a map of labels, and of the others a LabelSelector.
func selectorOf(u *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedMap(u.Object, "spec", "selector")
	if u.GetKind() == "ReplicationController" {
		value = map[string]any{"matchLabels": value}
	}
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(value, &selector) != nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return ""
	}
	return parsed.String()
}

// checkScale returns what is wrong with the numbers and the selector of a scale in an object.
func (k *Kind) checkScale(o *Object) (errs field.ErrorList) {
	if k.Scale == nil {
		return nil
	}
	at := func(path string) []byte {
		value, err := o.find(strings.TrimPrefix(path, "."))
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(path), "", err.Error()))
		}
		return value
	}
	for _, path := range []string{k.Scale.Replicas, k.Scale.StatusReplicas} {
		value := at(path)
		if value == nil {
			continue
		}
		if n, err := strconv.ParseInt(string(value), 10, 32); err != nil || n < 0 {
			errs = append(errs, field.Invalid(field.NewPath(path), string(value), fmt.Sprintf("should be a non-negative integer that is less than or equal to %d", math.MaxInt32)))
		}
	}
	if value := at(k.Scale.Selector); value != nil && value[0] != '"' {
		errs = append(errs, field.Invalid(field.NewPath(k.Scale.Selector), string(value), "should be a string"))
	}
	return errs
}

// scale decides about a write to the scale of an object, which changes the replicas in the object.
func (w *Write) scale(ctx context.Context, old *Object) (Outcome, error) {
	k := w.kind
	inner := &Write{kind: k.scaleKind(), req: w.req, opts: w.opts, patch: w.patch, attempts: w.attempts}
	if w.req.Verb == Update {
		sent, err := inner.decode(w.req.Body)
		if err == nil {
			err = inner.checkName(sent)
		}
		if err != nil {
			return Outcome{}, err
		}
		inner.sent = sent
	}
	if old == nil {
		return Outcome{}, apierrors.NewNotFound(k.GroupResource(), w.req.Key.Name)
	}
	before, found, err := k.scaleOf(old)
	if err != nil {
		return Outcome{}, err
	}
	// The type of the path stays unnamed: see filtersOf.
	version, paths := k.GroupVersion(), managedfields.ResourcePathMappings{}
	for _, other := range k.relatives() {
		if other.Scale == nil {
			continue
		}
		of := other.GroupVersion().String()
		for _, name := range splitPath(other.Scale.Replicas) {
			path := managedfields.ResourcePathMappings{"": {{FieldName: &name}}}[""]
			paths[of] = append(paths[of], path...)
		}
	}
	handler := managedfields.NewScaleHandler(old.Meta.ManagedFields, version, paths)
	if before.Meta.ManagedFields, err = handler.ToSubresource(); err != nil {
		return Outcome{}, err
	}
	after, err := inner.changed(ctx, before)
	w.Warnings = append(w.Warnings, inner.Warnings...)
	if err != nil {
		return Outcome{}, err
	}
	if after.Meta.ResourceVersion != "" {
		if err := w.checkVersion(after, old); err != nil {
			return Outcome{}, err
		}
	}
	replicas, err := w.replicas(after, found)
	if err != nil {
		return Outcome{}, err
	}
	o, err := k.withReplicas(old, replicas)
	if err != nil {
		return Outcome{}, err
	}
	if inner.isApply() {
		if o.Meta.ManagedFields, err = handler.ToParent(after.Meta.ManagedFields); err != nil {
			return Outcome{}, err
		}
	}
	out, err := w.replace(ctx, o, old)
	if err == nil {
		out.Scale, err = k.ScaleOf(out.Object)
	}
	return out, err
}

// replicas returns what the client's Scale wants, or why that cannot be. found reports whether the
// object has replicas.
func (w *Write) replicas(scale *Object, found bool) (int64, error) {
	k := w.kind
	replicas, err := replicasOf(scale)
	switch {
	case err != nil && w.req.Verb == Patch && !w.isApply():
		return 0, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(scale.Body), err.Error())})
	case err != nil:
		return 0, badRequest("Scale in version \"v1\" cannot be handled as a Scale: %v", err)
	case replicas == unsaid && !found:
		return 0, badRequest("the spec replicas field %q cannot be empty", k.Scale.Replicas)
	case replicas < 0 && !BuiltIn(k.Group):
		return 0, k.invalid(w.req.Key.Name, field.ErrorList{field.Invalid(field.NewPath(k.Scale.Replicas), replicas, "should be a non-negative integer")})
	case replicas < 0:
		scale := &Kind{Group: "autoscaling", Kind: "Scale"}
		return 0, scale.invalid(w.req.Key.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), replicas, "must be greater than or equal to 0")})
	}
	return replicas, nil
}

// scaleToJSON returns a Scale in protobuf as JSON. Its status is not read: no client may set it.
func scaleToJSON(body []byte) ([]byte, error) {
	var m metav1.ObjectMeta
	var replicas uint64
	err := messages(body, func(number uint64, value []byte) error {
		switch {
		case number == 1:
			return m.Unmarshal(value)
		case number == 2 && len(value) > 1 && value[0] == 1<<3:
			replicas, _ = binary.Uvarint(value[1:])
		}
		return nil
	})
	return mustJSON(map[string]any{"metadata": m, "spec": map[string]any{"replicas": int32(replicas)}}), err
}

// replicasOf returns what a Scale wants.
func replicasOf(o *Object) (int64, error) {
	var body struct {
		Spec struct {
			Replicas int32 `json:"replicas"`
		} `json:"spec"`
	}
	err := json.Unmarshal(o.Body, &body)
	return int64(body.Spec.Replicas), err
}

// withReplicas returns old with another number of replicas.
func (k *Kind) withReplicas(old *Object, n int64) (*Object, error) {
	u, err := k.content(old)
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(u.Object, n, splitPath(k.Scale.Replicas)...); err != nil {
		return nil, badRequest("%v", err)
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	o, _, err := k.object(data, false)
	return o, err
}
