package lwtest

import (
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
)

// Definitions returns the resources customresourcedefinitions and apiservices, for a [Server] that
// serves what its CustomResourceDefinitions define, as a real one does:
//
//	server := lwtest.NewServer(t, append(lwtest.Definitions(), …)...)
//
// When a definition is written, its names are accepted, unless another one has the kind; it is
// established, served in its versions, and in discovery; and it has an APIService. A change of its
// spec ends the watches. A definition that is deleted is Terminating, and served, until the last of
// its objects that have finalizers is gone. All this has happened when the write returns. A schema
// is used as Resource.Schema is. There are no conversions: versions differ by their apiVersion
// alone, and defaults and rules of a schema have no effect, unless Resource.Define of the first
// resource says otherwise.
//
// [Objects] knows a resource while it is served.
func Definitions() []Resource {
	return []Resource{
		{Group: "apiextensions.k8s.io", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Cluster: true,
			Status: true, defines: true},
		{Group: "apiregistration.k8s.io", Plural: "apiservices", Kind: "APIService", Cluster: true},
	}
}

// converter returns a conversion of JSON; nil, if convert is.
func (r Resource) converter(convert func(*unstructured.Unstructured, string) error) registry.Converter {
	if convert == nil {
		return nil
	}
	return func(data []byte, version string) ([]byte, error) {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(data); err != nil {
			return nil, err
		}
		if err := convert(obj, version); err != nil {
			return nil, err
		}
		if !strings.Contains(version, "/") {
			version = schema.GroupVersion{Group: r.Group, Version: version}.String()
		}
		obj.SetAPIVersion(version)
		return obj.MarshalJSON()
	}
}

// table is Table of JSON.
func (r Resource) table(data []byte) (*metav1.Table, error) {
	obj := runtime.Object(&unstructured.Unstructured{})
	if r.Type != nil {
		obj = reflect.New(reflect.TypeOf(r.Type).Elem()).Interface().(runtime.Object)
	}
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, err
	}
	return r.Table(obj)
}

// define asks Define about what the server has read in a definition.
func (r Resource) define(definition []byte, res *apiserver.Resource) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(definition); err != nil {
		return // cannot happen: the server has written it
	}
	of := r.Define(u, Resource{
		Group: res.Group, Version: res.Version, Versions: res.Versions, Plural: res.Resource, Kind: res.Kind, Cluster: res.Cluster,
		Status: res.Status, Scale: res.Scale != nil, ShortNames: res.ShortNames, Fields: res.Fields, Managed: res.Managed, Versioned: res.Versioned,
	})
	res.Extend, res.Convert, res.ConvertManaged = of.extend, of.converter(of.Convert), of.converter(of.ConvertManaged)
	if of.Table != nil {
		res.Table = of.table
	}
}
