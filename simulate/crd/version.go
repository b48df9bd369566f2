package crd

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/go-lw/lw/internal/registry/values"
)

// A Version is the schema of one version of a definition, and what a server does by it with
// objects, but for the check of their values.
type Version struct {
	schema *structural.Structural
	rules  func() *cel.Validator // it takes long to make them; nil: there are none
}

// Versions returns those of a definition that a server has taken, by their names.
func Versions(crd *apiextensionsv1.CustomResourceDefinition) (map[string]*Version, error) {
	internal, err := internalOf(crd)
	if err != nil {
		return nil, err
	}
	all := map[string]*Version{}
	for _, v := range crd.Spec.Versions {
		if all[v.Name], err = versionOf(internal, v.Name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func internalOf(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	return out, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil)
}

func versionOf(crd *apiextensions.CustomResourceDefinition, name string) (*Version, error) {
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
	rules := func() *cel.Validator { return cel.NewValidator(schema, true, celconfig.PerCallLimit) }
	return &Version{schema: schema, rules: sync.OnceValue(rules)}, nil
}

// Check returns why a server would refuse a definition, which has its defaults, in the place of
// old, which is nil for a new one.
func Check(ctx context.Context, crd, old *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
	next, err := internalOf(crd)
	if err != nil {
		return nil, err
	}
	for _, v := range next.Spec.Versions {
		if v.Storage && !apiextensions.IsStoredVersion(next, v.Name) { // the server will say that it is
			next.Status.StoredVersions = append(next.Status.StoredVersions, v.Name)
		}
	}
	if old == nil {
		return validation.ValidateCustomResourceDefinition(ctx, next), nil
	}
	was, err := internalOf(old)
	if err != nil {
		return nil, err
	}
	return validation.ValidateCustomResourceDefinitionUpdate(ctx, next, was), nil
}

// Default fills in the defaults of an object.
func (v *Version) Default(obj map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, v.schema)
	defaulting.Default(obj, v.schema)
}

// Prune takes from an object what its schema does not have.
func (v *Version) Prune(obj map[string]any) {
	pruning.Prune(obj, v.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, v.schema)
}

// Validate checks an object in the place of old, which is nil for a new one, by the rules, which an
// update need not obey where it changes nothing. The values of the object are right, or so little
// wrong that a server asks the rules all the same. What [values.Wrong] says of them is among the
// errors.
func (v *Version) Validate(ctx context.Context, obj, old map[string]any) field.ErrorList {
	errs := values.Wrong(ctx)
	rules := v.rules()
	if rules == nil {
		return errs
	}
	var was any // old, or nil: rules tell one from the other
	var options []cel.Option
	if old != nil {
		was = old
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(obj, old, &model.Structural{Structural: v.schema})))
	}
	broken, _ := rules.Validate(ctx, nil, v.schema, obj, was, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, broken...)
}
