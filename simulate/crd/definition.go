package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/registry/values"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/internal/shape"
)

// A Definition is one CustomResourceDefinition.
type Definition struct {
	Name string // such as jobs.example.com
	// Resource is what a server needs to know of it. Its functions are those of the schemas.
	Resource lwtest.Resource
	// Shape says which lists of the version that is stored have no order.
	Shape *shape.Shape

	versions map[string]*version // by apiVersion; those that are served
}

// A version is one of a definition.
type version struct {
	*Version
	values *values.Values // nil: the server has checked them, by the Schema of the Resource
}

// definition returns the Definition of a CustomResourceDefinition that was checked. The versions
// differ by their schemas alone, as with the strategy None: a project's own conversion is for the
// Convert of the Resource.
func definition(crd *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	internal, err := internalOf(crd)
	if err != nil {
		return nil, err
	}
	names := crd.Spec.Names
	d := &Definition{Name: crd.Name, versions: map[string]*version{}, Resource: lwtest.Resource{
		Group: crd.Spec.Group, Plural: names.Plural, Kind: names.Kind, Cluster: crd.Spec.Scope == apiextensionsv1.ClusterScoped, Managed: true, Versioned: true,
	}}
	r := &d.Resource
	r.Default, r.Validate = d.defaults, d.validate
	for _, cv := range crd.Spec.Versions {
		if !cv.Served {
			continue
		}
		of, err := versionOf(internal, cv.Name)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", cv.Name, err)
		}
		v := &version{Version: of}
		d.versions[crd.Spec.Group+"/"+cv.Name] = v
		given, err := json.Marshal(cv.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, err
		}
		if !cv.Storage {
			if v.values, err = values.New(given); err != nil {
				return nil, fmt.Errorf("version %s: %w", cv.Name, err)
			}
			r.Versions = append(r.Versions, cv.Name)
			continue
		}
		r.Version, r.Schema, d.Shape = cv.Name, given, shapeOf(v.schema)
		if s := cv.Subresources; s != nil {
			r.Status, r.Scale = s.Status != nil, s.Scale != nil
		}
		for _, f := range cv.SelectableFields {
			r.Fields = append(r.Fields, strings.TrimPrefix(f.JSONPath, "."))
		}
	}
	if r.Version == "" {
		return nil, errors.New("the version that is stored is not served: set served of the one with storage: true")
	}
	return d, nil
}

// content returns the content of an object, and the version that it is of.
func (d *Definition) content(obj runtime.Object) (map[string]any, *version, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil, fmt.Errorf("simulate: %s: %T is not unstructured", d.Name, obj)
	}
	v := d.versions[u.GetAPIVersion()]
	if v == nil {
		return nil, nil, fmt.Errorf("simulate: %s: no version %s", d.Name, u.GetAPIVersion())
	}
	return u.Object, v, nil
}

// defaults fills in the defaults of the schema.
func (d *Definition) defaults(_ context.Context, a lwtest.Admission) error {
	obj, v, err := d.content(a.Object)
	if err == nil {
		v.Default(obj)
	}
	return err
}

// validate checks an object against the rules of its schema, and its values where the server has
// not done so. What an update leaves as it was may stay wrong, as on a server.
func (d *Definition) validate(ctx context.Context, a lwtest.Admission) error {
	if a.Verb == lwtest.Delete {
		return nil
	}
	obj, v, err := d.content(a.Object)
	if err != nil {
		return err
	}
	var old map[string]any
	if a.Old != nil {
		if old, _, err = d.content(a.Old); err != nil {
			return err
		}
	}
	if v.values != nil {
		wrong := v.values.Check(obj, old, a.Subresource == "status")
		wrong, asked := v.values.Rules(wrong)
		if len(wrong) > 0 && !asked {
			return wrong.ToAggregate() // rules would not understand it
		}
		ctx = values.WithWrong(ctx, wrong)
	}
	return v.Validate(ctx, obj, old).ToAggregate()
}
