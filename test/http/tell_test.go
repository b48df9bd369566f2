package http_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// A meter is what the program writes, and a dial what it reads of it.
type meter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size  int    `json:"size"`
		Color string `json:"color"`
	} `json:"spec"`
}

type dial struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		Size int `json:"size"`
	} `json:"spec"`
}

func newMeter() *meter {
	m := &meter{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "a", UID: "u", ResourceVersion: "7", Labels: map[string]string{"app": "web"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	m.Spec.Size, m.Spec.Color = 3, "red"
	return m
}

// TestHTTPTold: an object that was told becomes what a list would have yielded, in memory of its
// own.
func TestHTTPTold(t *testing.T) {
	all := "http://host/apis/lw.test/v1/meters"
	in := "http://host/prefix/apis/lw.test/v1/namespaces/"
	projected := &dial{Meta: lw.Meta{Namespace: "blue", Name: "a", UID: "u", ResourceVersion: "7"}}
	projected.Spec.Size = 3
	dropped := newMeter()
	dropped.ManagedFields, dropped.Spec.Color = nil, ""
	only := newMeter()
	only.ManagedFields, only.Labels, only.Spec.Color = nil, nil, ""
	one := func(src lw.Source[*meter]) func(lw.Identified) (any, bool, error) {
		return func(obj lw.Identified) (any, bool, error) { return src.(lw.Teller[*meter]).Told(obj) }
	}
	unstructuredMeter := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "lw.test/v1", "kind": "Meter",
		"metadata": map[string]any{"namespace": "blue", "name": "a", "uid": "u", "resourceVersion": "7"},
		"spec":     map[string]any{"size": int64(3)},
	}}
	for _, tt := range []struct {
		name string
		told func(lw.Identified) (any, bool, error)
		obj  lw.Identified
		want any // nil: it is left out
		err  error
	}{
		{"whole", one(&lw.HTTP[*meter]{URL: all}), newMeter(), newMeter(), nil},
		{"without fields", one(&lw.HTTP[*meter]{URL: all, Drop: []string{"metadata.managedFields", "spec.color"}}), newMeter(), dropped, nil},
		{"only some fields", one(&lw.HTTP[*meter]{URL: all, Only: lw.Fields{"spec.size"}}), newMeter(), only, nil},
		{"a projection", func(obj lw.Identified) (any, bool, error) { return (&lw.HTTP[*dial]{URL: all}).Told(obj) }, newMeter(), projected, nil},
		{"of an untyped object", func(obj lw.Identified) (any, bool, error) { return (&lw.HTTP[*dial]{URL: all}).Told(obj) }, unstructuredMeter, projected, nil},
		{"untyped", func(obj lw.Identified) (any, bool, error) {
			return (&lw.HTTP[*unstructured.Unstructured]{URL: all}).Told(obj)
		}, unstructuredMeter, unstructuredMeter, nil},
		{"of its namespace", one(&lw.HTTP[*meter]{URL: in + "blue/meters"}), newMeter(), newMeter(), nil},
		{"of another namespace", one(&lw.HTTP[*meter]{URL: in + "green/meters"}), newMeter(), nil, nil},
		{"of its labels", one(&lw.HTTP[*meter]{URL: all + "?labelSelector=app%3Dweb"}), newMeter(), newMeter(), nil},
		{"of other labels", one(&lw.HTTP[*meter]{URL: all + "?labelSelector=app%3Ddb"}), newMeter(), nil, nil},
		{"of another name", one(&lw.HTTP[*meter]{URL: all + "?fieldSelector=metadata.name!%3Da"}), newMeter(), nil, nil},
		{"of its name", one(&lw.HTTP[*meter]{URL: all + "?fieldSelector=metadata.name%3Da,spec.size%3D4"}), newMeter(), newMeter(), nil},
		{"options that leave it out", one(lw.WithListOptions(lw.Source[*meter](&lw.HTTP[*meter]{URL: all}), func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.namespace=green"
		})), newMeter(), nil, nil},
		{"labels that nobody knows", one(&lw.HTTP[*meter]{URL: all + "?labelSelector=app"}), projected, nil, errors.ErrUnsupported},
		{"a shard", one(lw.Shard[*meter](&lw.HTTP[*meter]{URL: all}, 1, 2)), newMeter(), newMeter(), nil},
		{"another shard", one(lw.Shard[*meter](&lw.HTTP[*meter]{URL: all}, 0, 2)), newMeter(), nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, stays, err := tt.told(tt.obj)
			if !errors.Is(err, tt.err) || err != nil && tt.err == nil || stays != (tt.want != nil) {
				t.Fatalf("stays %v, error %v", stays, err)
			}
			if !stays {
				return
			}
			if m, ok := tt.obj.(*meter); ok {
				m.Labels["app"], m.Spec.Size = "changed", 99
			}
			rig.Same(t, "", tt.want, got)
		})
	}
	if _, _, err := (&lw.HTTP[*unstructured.Unstructured]{URL: all}).Told(newMeter()); err == nil {
		t.Error("an untyped object is made without a kind")
	}
}
