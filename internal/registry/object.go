package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// An Object is one version of an object, as JSON in the pieces between which a server writes. It
// must not be changed, except by those who are told so.
type Object struct {
	Meta metav1.ObjectMeta
	// Body is a JSON object of all members but apiVersion, kind, metadata and status. Status is the
	// JSON of the status, or nil. Both are compact, and no object in them has a name twice.
	Body, Status []byte
	// Value is the object as the Kind's Type, or nil if there is none. It is a pointer.
	Value any
}

// Key returns the name and namespace of the object.
func (o *Object) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Meta.Namespace, Name: o.Meta.Name}
}

// Parse returns the object that a server has written as JSON.
func (k *Kind) Parse(data []byte) (*Object, error) {
	o, _, err := k.parse(data, false)
	return o, err
}

// ValueOf returns the object of a value of the Kind's Type.
func (k *Kind) ValueOf(value any) (*Object, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	o, err := k.Parse(data)
	if err == nil {
		o.Value = value
	}
	return o, err
}

// AppendJSON appends the object.
func (k *Kind) AppendJSON(b []byte, o *Object) []byte {
	return AppendObject(b, k.GroupVersion().String(), k.Kind, &o.Meta, o)
}

// AppendObject appends an object with another apiVersion, kind and metadata than its own.
func AppendObject(b []byte, apiVersion, kind string, m *metav1.ObjectMeta, o *Object) []byte {
	b = append(append(append(b, `{"kind":"`...), kind...), `","apiVersion":"`...)
	b = append(append(append(b, apiVersion...), `","metadata":`...), mustJSON(m)...)
	if len(o.Body) > 2 {
		b = append(append(b, ','), o.Body[1:len(o.Body)-1]...)
	}
	if o.Status != nil {
		b = append(append(b, `,"status":`...), o.Status...)
	}
	return append(b, '}')
}

// Field returns what a field selector finds at a path such as spec.nodeName: a string as it is, another
// value as its JSON, and "" if there is nothing. Paths into the metadata find nothing.
func (o *Object) Field(path string) string {
	names := strings.Split(path, ".")
	value := o.Body
	if names[0] == SubStatus {
		value, names = o.Status, names[1:]
	}
	for _, name := range names {
		var found []byte
		if len(value) > 0 && value[0] == '{' {
			for n, v := range members(value) {
				if string(n) == `"`+name+`"` {
					found = v
				}
			}
		}
		value = found
	}
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// parse takes the JSON of an object to pieces. strict says that names that come twice, and names in
// the metadata that are not known, are returned as well.
func (k *Kind) parse(data []byte, strict bool) (o *Object, unknown []error, err error) {
	if data, unknown, err = tidy(data); err != nil {
		return nil, nil, err
	}
	o = &Object{}
	if data[0] != '{' {
		return nil, nil, fmt.Errorf("json: cannot unmarshal %.20q into an object", data)
	}
	body := append(make([]byte, 0, len(data)), '{')
	var kind, apiVersion string
	noMeta := false
	for name, value := range members(data) {
		switch string(name) {
		case `"kind"`:
			err = text(value, "kind", &kind)
		case `"apiVersion"`:
			err = text(value, "apiVersion", &apiVersion)
		case `"metadata"`:
			var lost []error
			lost, err = k.parseMeta(value, &o.Meta, strict)
			unknown, noMeta = append(unknown, lost...), string(value) == "null"
		case `"status"`:
			if o.Status = bytes.Clone(value); string(value) == "null" {
				o.Status = nil
			}
		default:
			if len(body) > 1 {
				body = append(body, ',')
			}
			body = append(append(append(body, name...), ':'), value...)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	o.Body = append(body, '}')
	switch {
	case kind != "" && kind != k.Kind:
		return nil, nil, fmt.Errorf("the kind of the object (%s) is not %s", kind, k.Kind)
	case apiVersion != "" && apiVersion != k.GroupVersion().String():
		return nil, nil, &versionError{apiVersion, k.GroupVersion().String()}
	case noMeta && kind == "":
		return nil, nil, errors.New("Object 'Kind' is missing")
	}
	return o, unknown, nil
}

// A versionError is the error of an object of another version than its path.
type versionError struct{ got, want string }

func (e *versionError) Error() string {
	return fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", e.got, e.want)
}

func (k *Kind) parseMeta(value []byte, m *metav1.ObjectMeta, strict bool) (unknown []error, err error) {
	if value[0] != '{' && string(value) != "null" {
		return nil, fmt.Errorf("json: cannot unmarshal %.20q into metadata", value)
	}
	if !strict {
		return nil, kjson.UnmarshalCaseSensitivePreserveInts(value, m)
	}
	unknown, err = kjson.UnmarshalStrict(value, m, kjson.DisallowUnknownFields)
	for i, u := range unknown {
		unknown[i] = errors.New(strings.Replace(u.Error(), `"`, `"metadata.`, 1))
	}
	return unknown, err
}

// text decodes a string, or null.
func text(value []byte, name string, into *string) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// content returns the object as an unstructured one, which the caller may change.
func (k *Kind) content(o *Object) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	return u, kjson.UnmarshalCaseSensitivePreserveInts(k.AppendJSON(nil, o), &u.Object)
}

// same reports whether two objects have the same content, whoever manages which field since when.
func same(a, b *Object) bool {
	if !equal(a.Body, b.Body) || !equalStatus(a, b) {
		return false
	}
	x, y := a.Meta, b.Meta
	x.ManagedFields, y.ManagedFields = timeless(x.ManagedFields), timeless(y.ManagedFields)
	return bytes.Equal(mustJSON(&x), mustJSON(&y))
}

// timeless returns entries without their times.
func timeless(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Time = nil
	}
	return out
}

func equalStatus(a, b *Object) bool {
	return (a.Status == nil) == (b.Status == nil) && (a.Status == nil || equal(a.Status, b.Status))
}

// mustJSON encodes types of apimachinery, which always can be encoded.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// A Type is the Go type of a Kind's objects: a pointer to a struct.
type Type struct {
	elem    reflect.Type
	opaque  bool                           // the type decodes itself, and keeps all
	message bool                           // it has protobuf
	patch   strategicpatch.LookupPatchMeta // nil: it has no tags for strategic merge patches
}

// TypeOf returns the Type of t. It fails unless t is a pointer to a struct.
func TypeOf(t reflect.Type) (*Type, error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("registry: %v is no pointer to a struct", t)
	}
	out := &Type{
		elem: t.Elem(), opaque: t.Implements(reflect.TypeFor[json.Unmarshaler]()), message: t.Implements(reflect.TypeFor[message]()),
	}
	if hasTags(t.Elem(), map[reflect.Type]bool{}) {
		patch, err := strategicpatch.NewPatchMetaFromStruct(reflect.New(t.Elem()).Interface())
		if err != nil {
			return nil, fmt.Errorf("registry: %v: %w", t, err)
		}
		out.patch = patch
	}
	return out, nil
}

type message interface {
	Unmarshal(data []byte) error
	Marshal() ([]byte, error)
}

// hasTags reports whether a struct, or one within it, says how it is patched.
func hasTags(t reflect.Type, seen map[reflect.Type]bool) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return false
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if _, ok := f.Tag.Lookup("patchStrategy"); ok || f.IsExported() && hasTags(f.Type, seen) {
			return true
		}
	}
	return false
}

// Protobuf reports whether the Type has protobuf. A nil Type has none.
func (t *Type) Protobuf() bool { return t != nil && t.message }

// Message returns the protobuf message of an object that is given as JSON.
func (t *Type) Message(object []byte) ([]byte, error) {
	value, _, err := t.decode(object, false)
	if err != nil {
		return nil, err
	}
	return value.(message).Marshal()
}

// decode returns the value of the Type in data, and the names in it that the Type does not have.
func (t *Type) decode(data []byte, strict bool) (value any, unknown []error, err error) {
	value = reflect.New(t.elem).Interface()
	if strict && !t.opaque {
		unknown, err = kjson.UnmarshalStrict(data, value, kjson.DisallowUnknownFields)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, value)
	}
	if o, ok := value.(interface{ GetObjectKind() schema.ObjectKind }); ok && !t.opaque {
		// As with a generated client, the kind of a typed object is empty.
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return value, unknown, err
}

// prune leaves of an object what the Type knows, in the form in which the Type writes it. It returns
// the names that are lost, of those that a client may set.
func (k *Kind) prune(o *Object, strict bool) (lost []error, err error) {
	if k.Type == nil {
		return nil, nil
	}
	value, unknown, err := k.Type.decode(k.AppendJSON(nil, o), strict)
	if err != nil {
		return nil, err
	}
	for _, u := range unknown {
		if !ours[u.Error()] {
			lost = append(lost, u)
		}
	}
	o.Value = value
	if k.Type.opaque {
		return lost, nil
	}
	return lost, k.renew(o)
}

// ours are the errors about members that every object has, also one whose type keeps none of them.
var ours = func() map[string]bool {
	all := map[string]bool{`unknown field "kind"`: true, `unknown field "apiVersion"`: true}
	for _, name := range strings.Fields("name namespace generateName uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds managedFields selfLink") {
		all[fmt.Sprintf("unknown field %q", "metadata."+name)] = true
	}
	return all
}()

// renew takes the pieces of an object from its Value, apart from what only the engine needs to know
// of the metadata.
func (k *Kind) renew(o *Object) error {
	written, err := k.ValueOf(o.Value)
	if err != nil {
		return err
	}
	m := &written.Meta
	m.UID, m.ResourceVersion, m.GenerateName = o.Meta.UID, o.Meta.ResourceVersion, o.Meta.GenerateName
	m.Name, m.Namespace = o.Meta.Name, o.Meta.Namespace
	*o = *written
	return nil
}

// give makes the Value of an object that is about to be stored, from its pieces.
func (k *Kind) give(o *Object) (err error) {
	if k.Type == nil {
		return nil
	}
	if m, ok := o.Value.(metav1.Object); ok && !k.Type.opaque {
		// The pieces come from this Value, and only the metadata has changed since.
		setMeta(m, &o.Meta)
		return nil
	}
	o.Value, _, err = k.Type.decode(k.AppendJSON(nil, o), false)
	return err
}

func setMeta(to metav1.Object, m *metav1.ObjectMeta) {
	to.SetNamespace(m.Namespace)
	to.SetName(m.Name)
	to.SetGenerateName(m.GenerateName)
	to.SetUID(m.UID)
	to.SetResourceVersion(m.ResourceVersion)
	to.SetGeneration(m.Generation)
	to.SetCreationTimestamp(m.CreationTimestamp)
	to.SetDeletionTimestamp(m.DeletionTimestamp)
	to.SetDeletionGracePeriodSeconds(m.DeletionGracePeriodSeconds)
	to.SetLabels(m.Labels)
	to.SetAnnotations(m.Annotations)
	to.SetFinalizers(m.Finalizers)
	to.SetOwnerReferences(m.OwnerReferences)
	to.SetManagedFields(m.ManagedFields)
}
