package registry

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"

	"github.com/go-lw/lw/internal/registry/values"
)

// A given is the schema of a Kind's objects that somebody has given, as CustomResourceDefinitions
// have it. It says which fields there are, how lists merge, and which values they may have.
type given struct {
	root   document
	lists  managedfields.TypeConverter
	values *values.Values // nil: it is made of a Type, whose values are free
}

const (
	preserves = "x-kubernetes-preserve-unknown-fields"
	embeds    = "x-kubernetes-embedded-resource"
)

// SetSchema gives the Kind a schema of OpenAPI, of version 3, in JSON or YAML.
func (k *Kind) SetSchema(data []byte) error {
	var root document
	err := yaml.Unmarshal(data, &root)
	if err == nil {
		k.schema, err = k.newGiven(root)
	}
	if err == nil {
		k.schema.values, err = values.New(data)
	}
	if err != nil {
		return fmt.Errorf("the schema: %w", err)
	}
	return nil
}

// newGiven returns the schema root, which it changes, with the members that every object has.
func (k *Kind) newGiven(root document) (*given, error) {
	if root["type"] != "object" {
		return nil, fmt.Errorf("it is of the type %v, and must be of an object", root["type"])
	}
	properties, ok := root["properties"].(document)
	if !ok && root["properties"] != nil {
		return nil, fmt.Errorf("its properties are %v", root["properties"])
	}
	if properties == nil {
		properties = document{}
	}
	properties["metadata"] = openAPI(reflect.TypeFor[metav1.ObjectMeta](), nil)
	properties["kind"], properties["apiVersion"] = document{"type": "string"}, document{"type": "string"}
	root["properties"] = properties
	root["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}}
	model, err := modelOf(root)
	if err != nil {
		return nil, err
	}
	lists, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"root": model}, false)
	return &given{root: root, lists: lists}, err
}

// prune returns the JSON of an object without what the schema does not have, and the errors about
// that.
func (s *given) prune(data []byte) ([]byte, []error, error) {
	var root any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &root); err != nil {
		return nil, nil, err
	}
	object, ok := root.(map[string]any)
	if !ok {
		return data, nil, nil // which is refused as what it is
	}
	metadata := object["metadata"] // whose fields are checked where they are decoded
	delete(object, "metadata")
	var unknown []error
	pruneValue(object, s.root, "", &unknown)
	if metadata != nil {
		object["metadata"] = metadata
	}
	data, err := encode(root)
	return data, unknown, err
}

func pruneValue(value any, schema document, path string, unknown *[]error) {
	if schema == nil {
		return // it may be anything, of any depth
	}
	switch v := value.(type) {
	case []any:
		items, _ := schema["items"].(document)
		for i := range v {
			pruneValue(v[i], items, path+"["+strconv.Itoa(i)+"]", unknown)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := name
			if path != "" {
				at = path + "." + name
			}
			pruneMember(v, name, schema, at, unknown)
		}
	}
}

// pruneMember prunes the member name of an object, which stands at the path at.
func pruneMember(object map[string]any, name string, schema document, at string, unknown *[]error) {
	properties, _ := schema["properties"].(document)
	property, known := properties[name].(document)
	if others, some := schema["additionalProperties"]; !known && some && others != false {
		property, _ = others.(document)
		known = true
	}
	within := schema[embeds] == true
	switch {
	case within && name == "metadata" && object[name] != nil:
		pruneMeta(object, at, unknown)
	case known && object[name] == nil && property != nil && property["nullable"] != true:
		delete(object, name) // as what is not there
	case within && (name == "apiVersion" || name == "kind" || name == "metadata"):
	case known:
		pruneValue(object[name], property, at, unknown)
	case schema[preserves] == true:
	default:
		delete(object, name)
		*unknown = append(*unknown, fmt.Errorf("unknown field %q", at))
	}
}

// pruneMeta removes the unknown fields of the metadata of an object within another, whatever the
// schema says of it.
func pruneMeta(object map[string]any, at string, unknown *[]error) {
	var m metav1.ObjectMeta
	strict, err := kjson.UnmarshalStrict(mustJSON(object["metadata"]), &m)
	if err != nil {
		return // the check of values says so
	}
	for _, err := range strict {
		if of, ok := err.(kjson.FieldError); ok {
			*unknown = append(*unknown, fmt.Errorf("unknown field %q", at+"."+of.FieldPath()))
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
	if err != nil {
		return
	}
	if m.CreationTimestamp.IsZero() {
		delete(content, "creationTimestamp")
	}
	object["metadata"] = content
}
