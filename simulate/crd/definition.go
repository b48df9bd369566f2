package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

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

// A version is the schema of one version.
type version struct {
	schema *structural.Structural
	props  *apiextensions.JSONSchemaProps
	checks func() (*checks, error)
}

// checks are what validates the objects of a version. It takes long to make them.
type checks struct {
	object, status validation.SchemaValidator
	rules          *cel.Validator // nil: there are none
}

// definition returns the Definition of a CustomResourceDefinition that was checked. The versions
// differ by their schemas alone, as with the strategy None: a project's own conversion is for the
// Convert of the Resource.
func definition(crd *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		return nil, err
	}
	names := crd.Spec.Names
	d := &Definition{Name: crd.Name, versions: map[string]*version{}, Resource: lwtest.Resource{
		Group: crd.Spec.Group, Plural: names.Plural, Kind: names.Kind, Cluster: crd.Spec.Scope == apiextensionsv1.ClusterScoped, Managed: true, Versioned: true,
	}}
	r := &d.Resource
	r.Default, r.Validate = d.defaults, d.validate
	for i, cv := range crd.Spec.Versions {
		if !cv.Served {
			continue
		}
		v, err := versionOf(internal, cv.Name)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", cv.Name, err)
		}
		d.versions[crd.Spec.Group+"/"+cv.Name] = v
		if !cv.Storage {
			r.Versions = append(r.Versions, cv.Name)
			continue
		}
		r.Version, d.Shape = cv.Name, shapeOf(v.schema)
		if r.Schema, err = json.Marshal(crd.Spec.Versions[i].Schema.OpenAPIV3Schema); err != nil {
			return nil, err
		}
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

func versionOf(crd *apiextensions.CustomResourceDefinition, name string) (*version, error) {
	props, err := apiextensions.GetSchemaForVersion(crd, name)
	if err != nil {
		return nil, err
	}
	if props == nil || props.OpenAPIV3Schema == nil {
		return nil, errors.New("it has no schema")
	}
	schema, err := structural.NewStructural(props.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(schema); err != nil {
		return nil, err
	}
	v := &version{schema: schema, props: props.OpenAPIV3Schema}
	v.checks = sync.OnceValues(v.newChecks)
	return v, nil
}

// newChecks compiles the rules of the schema.
func (v *version) newChecks() (c *checks, err error) {
	c = &checks{rules: cel.NewValidator(v.schema, true, celconfig.PerCallLimit)}
	if c.object, _, err = validation.NewSchemaValidator(v.props); err != nil {
		return nil, err
	}
	if status, ok := v.props.Properties["status"]; ok {
		c.status, _, err = validation.NewSchemaValidator(&status)
	}
	return c, err
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
		defaulting.PruneNonNullableNullsWithoutDefaults(obj, v.schema)
		defaulting.Default(obj, v.schema)
	}
	return err
}

// validate checks an object against the schema and its CEL rules. What an update leaves as it was
// may stay wrong, as on a server. The metadata of objects within objects is not looked at.
func (d *Definition) validate(ctx context.Context, a lwtest.Admission) error {
	if a.Verb == lwtest.Delete {
		return nil
	}
	obj, v, err := d.content(a.Object)
	if err != nil {
		return err
	}
	c, err := v.checks()
	if err != nil {
		return err
	}
	var old map[string]any
	var was any // old, or nil: rules tell one from the other
	var options []validation.ValidationOption
	var celOptions []cel.Option
	if a.Old != nil {
		if old, _, err = d.content(a.Old); err != nil {
			return err
		}
		was = old
		correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: v.schema})
		options = append(options, validation.WithRatcheting(correlated))
		celOptions = append(celOptions, cel.WithRatcheting(correlated))
	}
	var errs field.ErrorList
	switch {
	case a.Subresource == "status":
		if status, ok := obj["status"]; ok && c.status != nil {
			errs = validation.ValidateCustomResource(field.NewPath("status"), status, c.status)
		}
	case a.Old != nil:
		errs = validation.ValidateCustomResourceUpdate(nil, obj, old, c.object, options...)
	default:
		errs = validation.ValidateCustomResource(nil, obj, c.object)
	}
	if a.Old == nil || len(listtype.ValidateListSetsAndMaps(nil, v.schema, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.schema, obj)...)
	}
	if c.rules != nil && !blocking(errs) {
		more, _ := c.rules.Validate(ctx, nil, v.schema, obj, was, celconfig.RuntimeCELCostBudget, celOptions...)
		errs = append(errs, more...)
	}
	return errs.ToAggregate()
}

// blocking reports whether an object is so wrong that rules would not understand it.
func blocking(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
