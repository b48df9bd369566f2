// Package values checks the values of objects by an OpenAPI schema, as kube-apiserver checks those
// of custom resources.
package values

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Values checks the values of objects by an OpenAPI schema, as a CustomResourceDefinition has it:
// types, bounds, patterns, enums, formats, what is required, what objects within objects are, and
// that sets and maps have nothing twice. The rules of x-kubernetes-validations, which are a language,
// are not looked at.
type Values struct {
	root           *spec.Schema
	rules, objects bool // there are some
}

// New returns the Values of a schema in JSON or YAML.
func New(schema []byte) (*Values, error) {
	var data json.RawMessage
	if err := yaml.Unmarshal(schema, &data); err != nil {
		return nil, err
	}
	root := &spec.Schema{}
	if err := json.Unmarshal(data, root); err != nil {
		return nil, err
	}
	if err := prepare(root, ""); err != nil {
		return nil, err
	}
	for _, name := range []string{"kind", "apiVersion", "metadata"} { // which each object has
		if _, ok := root.Properties[name]; !ok {
			if root.Properties == nil {
				root.Properties = map[string]spec.Schema{}
			}
			root.Properties[name] = spec.Schema{}
		}
	}
	has := func(name string) bool { return bytes.Contains(data, []byte(`"`+name+`"`)) }
	return &Values{root: root, rules: has("x-kubernetes-validations"), objects: has(embeds)}, nil
}

// formats are those of strings that Kubernetes checks, without their hyphens. Others say nothing.
var formats = strings.Fields(`bsonobjectid uri email hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 isbn isbn10 isbn13 creditcard ssn
	hexcolor rgbcolor byte password date duration datetime k8sshortname k8slongname`)

// knowsFormat reports whether Kubernetes checks the format of s.
func knowsFormat(s *spec.Schema) bool {
	known := slices.Contains(formats, strings.ReplaceAll(s.Format, "-", ""))
	if len(s.Type) != 1 {
		return known
	}
	switch s.Type[0] {
	case "integer":
		return s.Format == "int32" || s.Format == "int64"
	case "number":
		return s.Format == "float" || s.Format == "double"
	}
	return known && s.Type[0] == "string"
}

// prepare makes a schema one that the validator understands as Kubernetes does. It fails if no
// object could be checked by it.
func prepare(s *spec.Schema, at string) error {
	if s.Ref.String() != "" {
		return fmt.Errorf("%s has a $ref", strings.TrimPrefix(at+".", "."))
	}
	if _, err := regexp.Compile(s.Pattern); err != nil {
		return fmt.Errorf("the pattern of %s: %w", strings.TrimPrefix(at, "."), err)
	}
	if either, _ := s.Extensions.GetBool("x-kubernetes-int-or-string"); either {
		s.Type = spec.StringOrArray{"integer", "string"}
	}
	if !knowsFormat(s) {
		s.Format = ""
	}
	for name, p := range s.Properties {
		if err := prepare(&p, at+"."+name); err != nil {
			return err
		}
		s.Properties[name] = p
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		if err := prepare(s.AdditionalProperties.Schema, at+".*"); err != nil {
			return err
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		if err := prepare(s.Items.Schema, at+"[]"); err != nil {
			return err
		}
	}
	for _, some := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range some {
			if err := prepare(&some[i], at); err != nil {
				return err
			}
		}
	}
	if s.Not != nil {
		return prepare(s.Not, at)
	}
	return nil
}

// Check returns what is wrong with an object that is to replace old, or nil. What old has as well
// may stay wrong. With onlyStatus the rest is not looked at, as with a write to the subresource.
func (v *Values) Check(object, old map[string]any, onlyStatus bool) field.ErrorList {
	schema, at := v.root, (*field.Path)(nil)
	value, was, had := any(object), any(old), old != nil
	if onlyStatus {
		property, ok := v.root.Properties[status]
		if value, had = object[status]; !ok || !had {
			return nil
		}
		was, had = old[status]
		schema, at = &property, field.NewPath(status)
	}
	errs := fieldErrors(at, (&checked{schema: schema, old: was, had: had}).Validate(value))
	if v.objects && !onlyStatus { // kube-apiserver does not look at the objects within a status that is written alone
		errs = append(errs, embedded(at, schema, value)...)
	}
	if twice := duplicates(at, schema, value); !had || len(duplicates(at, schema, was)) == 0 {
		errs = append(errs, twice...)
	}
	return errs
}

// Rules reports whether kube-apiserver asks the rules about an object that has the errors errs, and
// answers with what they say as well. Else it returns all that is to answer.
func (v *Values) Rules(errs field.ErrorList) (all field.ErrorList, asked bool) {
	switch {
	case !v.rules:
		return errs, false
	case slices.ContainsFunc(errs, blocks):
		return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; "+
			"correct the existing errors to complete validation")), false
	}
	return errs, true
}

type wrongKey struct{}

// WithWrong returns a context that says what is wrong with the values of an object that the rules
// are asked about.
func WithWrong(ctx context.Context, errs field.ErrorList) context.Context {
	return context.WithValue(ctx, wrongKey{}, errs)
}

// Wrong returns what WithWrong has put into ctx.
func Wrong(ctx context.Context) field.ErrorList {
	errs, _ := ctx.Value(wrongKey{}).(field.ErrorList)
	return errs[:len(errs):len(errs)]
}

// blocks reports whether kube-apiserver asks no rule after an error.
func blocks(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

const status = "status"

// A checked is the check of one value by a schema, which knows the value that is replaced.
type checked struct {
	schema *spec.Schema
	path   string
	old    any
	had    bool // old is there
}

// SetPath implements [validate.ValueValidator]. Nothing calls it.
func (c *checked) SetPath(string) {}

// Applies implements [validate.ValueValidator].
func (c *checked) Applies(any, reflect.Kind) bool { return true }

// Validate implements [validate.ValueValidator].
func (c *checked) Validate(value any) *validate.Result {
	result := validate.NewSchemaValidator(c.schema, nil, c.path, strfmt.Default, func(o *validate.SchemaValidatorOptions) {
		o.NewValidatorForField = func(name string, s *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
			members, _ := c.old.(map[string]any)
			old, had := members[name]
			return optional{&checked{s, path, old, had}}
		}
		o.NewValidatorForIndex = func(i int, s *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
			old, had := c.element(value, i)
			return &checked{s, path, old, had}
		}
	}).Validate(value)
	if c.had && !result.IsValid() && c.same(value) {
		return &validate.Result{}
	}
	return result
}

// same reports whether value is the old one. The elements of a list that is a map have no order.
func (c *checked) same(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		old, ok := c.old.(map[string]any)
		if !ok || len(v) != len(old) {
			return false
		}
		for name, member := range v {
			was, had := old[name]
			if !had || !(&checked{schema: memberOf(c.schema, name), old: was}).same(member) {
				return false
			}
		}
		return true
	case []any:
		old, ok := c.old.([]any)
		if kind, _ := listType(c.schema); kind != "map" {
			break
		}
		if !ok || len(v) != len(old) {
			return false
		}
		for i := range v {
			was, had := c.element(v, i)
			if !had || !(&checked{schema: itemOf(c.schema), old: was}).same(v[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(value, c.old)
}

// memberOf returns the schema of a member, or one that says nothing.
func memberOf(s *spec.Schema, name string) *spec.Schema {
	if p, ok := s.Properties[name]; ok {
		return &p
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		return s.AdditionalProperties.Schema
	}
	return &spec.Schema{}
}

// itemOf returns the schema of the elements of a list, or one that says nothing.
func itemOf(s *spec.Schema) *spec.Schema {
	if s.Items != nil && s.Items.Schema != nil {
		return s.Items.Schema
	}
	return &spec.Schema{}
}

// element returns the old element of the key that element i of a list has, if the list is a map.
func (c *checked) element(value any, i int) (old any, had bool) {
	list, _ := value.([]any)
	was, _ := c.old.([]any)
	kind, keys := listType(c.schema)
	if kind != "map" || i >= len(list) {
		return nil, false
	}
	key := keyOf(list[i], keys)
	at := slices.IndexFunc(was, func(o any) bool { return reflect.DeepEqual(keyOf(o, keys), key) })
	if at < 0 {
		return nil, false
	}
	return was[at], true
}

// optional is the check of a member, whose null is as if it were not there.
type optional struct{ *checked }

func (o optional) Validate(value any) *validate.Result {
	if value == nil && !o.schema.Nullable {
		return &validate.Result{}
	}
	return o.checked.Validate(value)
}

func listType(s *spec.Schema) (kind string, keys []string) {
	kind, _ = s.Extensions.GetString("x-kubernetes-list-type")
	keys, _ = s.Extensions.GetStringSlice("x-kubernetes-list-map-keys")
	return kind, keys
}

// keyOf returns what tells an element of a list that is a map from the others.
func keyOf(element any, keys []string) map[string]any {
	members, _ := element.(map[string]any)
	key := map[string]any{}
	for _, name := range keys {
		if value, ok := members[name]; ok {
			key[name] = value
		}
	}
	return key
}

// within calls visit with each member or element of a value, and what the schema says of it.
func within(at *field.Path, s *spec.Schema, value any, visit func(at *field.Path, s *spec.Schema, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			path := at.Key(name)
			if _, ok := s.Properties[name]; ok {
				path = at.Child(name)
			}
			visit(path, memberOf(s, name), v[name])
		}
	case []any:
		for i, element := range v {
			visit(at.Index(i), itemOf(s), element)
		}
	}
}

// duplicates returns the elements that a set or a map has twice.
func duplicates(at *field.Path, s *spec.Schema, value any) (errs field.ErrorList) {
	list, _ := value.([]any)
	kind, keys := listType(s)
	seen := map[string]int{}
	for i, key := range list {
		if kind == "map" {
			key = keyOf(key, keys)
		}
		if kind == "map" || kind == "set" {
			text := string(asJSON(key))
			if seen[text]++; seen[text] == 2 { // more of the same is not said again
				errs = append(errs, field.Duplicate(at.Index(i), key))
			}
		}
	}
	within(at, s, value, func(at *field.Path, s *spec.Schema, value any) { errs = append(errs, duplicates(at, s, value)...) })
	return errs
}

// fieldErrors returns the errors of a result as kube-apiserver says them.
func fieldErrors(at *field.Path, result *validate.Result) (errs field.ErrorList) {
	for _, err := range result.Errors {
		v, ok := err.(*openapierrors.Validation)
		if !ok {
			errs = append(errs, field.Invalid(at, "", err.Error()))
			continue
		}
		path, value := at, v.Value
		if name := strings.TrimPrefix(v.Name, "."); name != "" {
			path = at.Child(name)
		}
		if value == nil {
			value = ""
		}
		limit, _ := v.Valid.(int64)
		actual, _ := v.Value.(int64)
		switch v.Code() {
		case openapierrors.RequiredFailCode:
			errs = append(errs, field.Required(path, ""))
		case openapierrors.EnumFailCode:
			var allowed []string
			for _, one := range v.Values {
				text, ok := one.(string)
				if !ok {
					text = string(asJSON(one))
				}
				allowed = append(allowed, text)
			}
			errs = append(errs, field.NotSupported(path, v.Value, allowed))
		case openapierrors.TooLongFailCode:
			errs = append(errs, field.TooLong(path, "", int(limit)))
		case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
			errs = append(errs, field.TooMany(path, int(actual), int(limit)))
		case openapierrors.InvalidTypeCode:
			errs = append(errs, field.TypeInvalid(path, value, err.Error()))
		default:
			errs = append(errs, field.Invalid(path, value, err.Error()))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) }) // members have no order
	return errs
}

// asJSON encodes what came from JSON.
func asJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
