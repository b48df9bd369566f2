package registry

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// scaleKind is the kind of the subresource scale.
func (k *Kind) scaleKind() *Kind {
	return &Kind{Group: "autoscaling", Version: "v1", Kind: "Scale", Plural: k.Plural, Cluster: k.Cluster}
}

func splitPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// ScaleOf returns the scale of an object as JSON.
func (k *Kind) ScaleOf(o *Object) ([]byte, error) {
	scale, err := k.scaleOf(o)
	if err != nil {
		return nil, err
	}
	return k.scaleKind().AppendJSON(nil, scale), nil
}

func (k *Kind) scaleOf(o *Object) (*Object, error) {
	u, err := k.content(o)
	if err != nil {
		return nil, err
	}
	number := func(path string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, splitPath(path)...)
		return n
	}
	status := map[string]any{"replicas": number(k.Scale.StatusReplicas)}
	if k.Scale.Selector != "" {
		if selector, ok, _ := unstructured.NestedString(u.Object, splitPath(k.Scale.Selector)...); ok && selector != "" {
			status["selector"] = selector
		}
	}
	spec := map[string]any{}
	if n := number(k.Scale.Replicas); n != 0 {
		spec["replicas"] = n
	}
	m := &o.Meta
	return &Object{
		Meta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp},
		Body: mustJSON(map[string]any{"spec": spec}), Status: mustJSON(status),
	}, nil
}

// scale decides about a write to the scale of an object, which changes the replicas in the object.
func (w *Write) scale(ctx context.Context, old *Object) (Outcome, error) {
	k := w.kind
	if old == nil {
		return Outcome{}, apierrors.NewNotFound(k.GroupResource(), w.req.Key.Name)
	}
	before, err := k.scaleOf(old)
	if err != nil {
		return Outcome{}, err
	}
	var path fieldpath.Path
	for _, name := range splitPath(k.Scale.Replicas) {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	version := k.GroupVersion()
	handler := managedfields.NewScaleHandler(old.Meta.ManagedFields, version, managedfields.ResourcePathMappings{version.String(): path})
	if before.Meta.ManagedFields, err = handler.ToSubresource(); err != nil {
		return Outcome{}, err
	}
	inner := &Write{kind: k.scaleKind(), req: w.req, opts: w.opts, patch: w.patch, attempts: w.attempts}
	inner.req.Subresource = ""
	if w.req.Verb == Update {
		if inner.sent, err = inner.decode(w.req.Body); err == nil {
			err = inner.checkName(inner.sent)
		}
		if err != nil {
			return Outcome{}, err
		}
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
	replicas, err := replicasOf(after)
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
	if err := json.Unmarshal(o.Body, &body); err != nil {
		return 0, badRequest("Scale in version \"v1\" cannot be handled as a Scale: %v", err)
	}
	n := body.Spec.Replicas
	if n < 0 {
		scale := &Kind{Group: "autoscaling", Kind: "Scale"}
		return 0, scale.invalid(o.Meta.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), n, "should be a non-negative integer")})
	}
	return int64(n), nil
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
