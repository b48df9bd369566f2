package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"
)

// A Converter makes the JSON of an object that of another version, which is named as [VersionFrom]
// does.
type Converter = func(object []byte, version string) ([]byte, error)

// VersionFrom names a version for objects of a group: by itself in that group, and with its own
// group elsewhere.
func VersionFrom(group string, to schema.GroupVersion) string {
	if to.Group == group {
		return to.Version
	}
	return to.String()
}

// Relate says that the Kinds are one resource in all its versions. Managers of another version are
// then read in that version and by its schema, as kube-apiserver does. convert may be nil: only the
// apiVersion differs. It neither prunes nor fills in: a field that is not in the schema of a
// manager's version fails an apply.
func Relate(convert Converter, kinds ...*Kind) {
	f := &family{kinds: kinds, convert: convert}
	f.lists = sync.OnceValues(f.newLists)
	for _, k := range kinds {
		k.family = f
	}
}

// A family is the Kinds of one resource.
type family struct {
	kinds   []*Kind
	convert Converter
	lists   func() (managedfields.TypeConverter, error)
}

// newLists returns the schemas of all versions. A Kind alone has its own already.
func (f *family) newLists() (managedfields.TypeConverter, error) {
	models := map[string]*spec.Schema{}
	for _, k := range f.kinds {
		own, err := k.readSchema()
		if err != nil {
			return nil, err
		}
		if len(f.kinds) == 1 {
			return own.lists, nil
		}
		if models[k.GroupVersion().String()], err = modelOf(own.root); err != nil {
			return nil, err
		}
	}
	return managedfields.NewTypeConverter(models, false)
}

// readSchema returns the schema that was given to the Kind, or that of its Type.
func (k *Kind) readSchema() (*given, error) {
	if k.schema != nil {
		return k.schema, nil
	}
	return k.newGiven(k.OpenAPI())
}

// lists returns the schemas that managers are read by.
func (k *Kind) lists() (managedfields.TypeConverter, error) {
	if k.family != nil {
		return k.family.lists()
	}
	own, err := k.readSchema()
	if err != nil {
		return nil, err
	}
	return own.lists, nil
}

// relatives returns the Kind in all its versions.
func (k *Kind) relatives() []*Kind {
	if k.family == nil {
		return []*Kind{k}
	}
	return k.family.kinds
}

func modelOf(root document) (*spec.Schema, error) {
	encoded, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	model := &spec.Schema{}
	return model, json.Unmarshal(encoded, model)
}

// converted returns an object in another version.
func (f *family) converted(
	u *unstructured.Unstructured, version schema.GroupVersion,
) (out *unstructured.Unstructured, err error) {
	defer func() {
		if p := recover(); p != nil { // of the user's function
			out, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	out = &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	if f.convert != nil {
		data, err := u.MarshalJSON()
		if err == nil {
			data, err = f.convert(data, VersionFrom(u.GroupVersionKind().Group, version))
		}
		if err == nil {
			out.Object = nil
			err = kjson.UnmarshalCaseSensitivePreserveInts(data, &out.Object)
		}
		if err != nil {
			return nil, err
		}
	}
	out.SetAPIVersion(version.String())
	return out, nil
}
