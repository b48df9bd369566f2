package registry

import (
	"bytes"
	"cmp"
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

	"github.com/go-lw/lw/internal/wire"
)

// An Object is one version of an object, as JSON in the pieces between which a server writes. It
// must not be changed, except where a comment says so.
type Object struct {
	Meta metav1.ObjectMeta
	// Body is a JSON object of all members but apiVersion, kind, metadata and status. Status is the
	// JSON of the status, or nil. Both are compact, and no object in them has a name twice.
	Body, Status []byte
	// Value is the object as the Kind's Type, or nil if there is none. It is a pointer.
	Value any
	// Outdated is set by a [Store] that has the object in another version than it stores by now: a
	// write that changes nothing stores it anew, which is how stored objects are migrated.
	Outdated bool
}

// Key returns the name and namespace of the object.
func (o *Object) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Meta.Namespace, Name: o.Meta.Name}
}

// Parse returns the object that a server has written as JSON.
func (k *Kind) Parse(data []byte) (*Object, error) {
	data, _, err := tidy(data)
	if err != nil {
		return nil, err
	}
	o, _, err := k.split(data, true, false)
	return o, err
}

// ValueOf returns the object of a value of the Kind's Type.
func (k *Kind) ValueOf(value any) (*Object, error) {
	data, err := k.Type.encode(value)
	if err != nil {
		return nil, err
	}
	m, whole := value.(metav1.Object)
	o, _, err := k.split(data, !whole, false)
	if err != nil {
		return nil, err
	}
	if o.Value = value; whole {
		o.Meta = metaOf(m)
	}
	return o, nil
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

// Field returns what a field selector finds at a path such as spec.nodeName: a string as it is,
// another value as its JSON, and "" if there is nothing. Paths into the metadata find nothing.
func (o *Object) Field(path string) string {
	value, _ := o.find(path)
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// find returns the JSON at a path outside the metadata, or nil. It fails if there is something else
// than an object on the way.
func (o *Object) find(path string) (value []byte, err error) {
	names := strings.Split(path, ".")
	value = o.Body
	if names[0] == SubStatus {
		value, names = o.Status, names[1:]
	}
	for _, name := range names {
		if len(value) == 0 || string(value) == "null" {
			return nil, nil
		}
		from, to, err := wire.FindMember(value, 0, name)
		if err != nil {
			return nil, fmt.Errorf("%.40s is no object", value)
		}
		if value = value[from:to]; from == 0 {
			return nil, nil
		}
	}
	return value, nil
}

// split takes the JSON of an object, which is tidy, to pieces. The metadata is left out unless meta
// is set. With strict the names in it that are not known are returned.
func (k *Kind) split(data []byte, meta, strict bool) (o *Object, unknown []error, err error) {
	o = &Object{}
	if data[0] != '{' {
		return nil, nil, fmt.Errorf("json: cannot unmarshal %.20q into an object", data)
	}
	body := append(make([]byte, 0, len(data)), '{')
	var kind, apiVersion string
	noMeta := false
	walked := wire.Members(data, 0, func(name []byte, from, to int) bool {
		value := data[from:to]
		switch string(name) {
		case "kind":
			err = text(value, "kind", &kind)
		case "apiVersion":
			err = text(value, "apiVersion", &apiVersion)
		case "metadata":
			noMeta = string(value) == "null"
			if value[0] != '{' && !noMeta {
				err = fmt.Errorf("json: cannot unmarshal %.20q into metadata", value)
			} else if meta {
				unknown, err = parseMeta(value, &o.Meta, strict)
			}
		case "status":
			if o.Status = bytes.Clone(value); string(value) == "null" {
				o.Status = nil
			}
		default:
			if len(body) > 1 {
				body = append(body, ',')
			}
			body = append(append(append(append(body, '"'), name...), `":`...), value...)
		}
		return err == nil
	})
	if err = cmp.Or(err, walked); err != nil {
		return nil, nil, err
	}
	o.Body = append(body, '}')
	switch {
	case kind != "" && kind != k.Kind:
		return nil, nil, &kindError{kind, cmp.Or(apiVersion, k.GroupVersion().String()), k}
	case apiVersion != "" && apiVersion != k.GroupVersion().String():
		return nil, nil, &versionError{apiVersion, k.GroupVersion().String()}
	case noMeta && kind == "":
		return nil, nil, errNoKind
	}
	return o, unknown, nil
}

var errNoKind = errors.New("Object 'Kind' is missing")

// A kindError is the error of an object of another kind than its path has.
type kindError struct {
	got, apiVersion string
	want            *Kind
}

// Error says it as kube-apiserver does, which has the kinds as types of packages.
func (e *kindError) Error() string {
	if !BuiltIn(e.want.Group) {
		return fmt.Sprintf("the kind of the object (%s) is not %s", e.got, e.want.Kind)
	}
	version := e.apiVersion[strings.LastIndex(e.apiVersion, "/")+1:]
	group, _, _ := strings.Cut(cmp.Or(e.want.Group, "core"), ".")
	return fmt.Sprintf("converting (%s.%s) to (%s.%s): unknown conversion", version, e.got, group, e.want.Kind)
}

// A versionError is the error of an object of another version than its path.
type versionError struct{ got, want string }

func (e *versionError) Error() string {
	return fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", e.got, e.want)
}

func parseMeta(value []byte, m *metav1.ObjectMeta, strict bool) (unknown []error, err error) {
	if strict {
		unknown, err = kjson.UnmarshalStrict(value, m, kjson.DisallowUnknownFields)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(value, m)
	}
	m.SetSelfLink("")
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
	// Encode replaces json.Marshal.
	Encode func(value any) ([]byte, error)

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

func (t *Type) encode(value any) (data []byte, err error) {
	if t.Encode == nil {
		return encode(value)
	}
	if data, err = t.Encode(value); err == nil {
		data, _, err = tidy(data)
	}
	return data, err
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

// object returns the object in JSON, which is tidy: what the Kind's Type keeps of it, in the form
// in which the Type writes it. With strict the names that are lost are returned, of those that a
// client may set.
func (k *Kind) object(data []byte, strict bool) (o *Object, lost []error, err error) {
	all := k.Type == nil || k.Type.opaque
	var pruned []error
	if k.schema != nil && all {
		if data, pruned, err = k.schema.prune(data); err != nil {
			return nil, nil, err
		} else if !strict {
			pruned = nil
		}
	}
	if o, lost, err = k.split(data, all, strict); err != nil || k.Type == nil {
		return o, append(pruned, lost...), err
	}
	lost = append(pruned, lost...)
	value, unknown, err := k.Type.decode(data, strict)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range unknown {
		if !ours[u.Error()] {
			lost = append(lost, u)
		}
	}
	if o.Value = value; k.Type.opaque {
		return o, lost, nil
	}
	o, err = k.ValueOf(value)
	if _, whole := value.(metav1.Object); err != nil || whole {
		return o, lost, err
	}
	sent, _, err := k.split(data, true, false)
	if err != nil {
		return nil, nil, err
	}
	o.keepIdentity(&sent.Meta)
	return o, lost, nil
}

// keepIdentity gives the object the metadata that the engine needs to know, also of one whose type
// keeps none of it.
func (o *Object) keepIdentity(m *metav1.ObjectMeta) {
	o.Meta.Name, o.Meta.Namespace, o.Meta.GenerateName = m.Name, m.Namespace, m.GenerateName
	o.Meta.UID, o.Meta.ResourceVersion = m.UID, m.ResourceVersion
}

// ours are the errors about members that every object has, also one whose type keeps none of them.
var ours = func() map[string]bool {
	all := map[string]bool{`unknown field "kind"`: true, `unknown field "apiVersion"`: true}
	for _, name := range strings.Fields("name namespace generateName uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds managedFields selfLink") {
		all[fmt.Sprintf("unknown field %q", "metadata."+name)] = true
	}
	return all
}()

// renew takes the pieces of an object from its Value, apart from who it is.
func (k *Kind) renew(o *Object) error {
	written, err := k.ValueOf(o.Value)
	if err == nil {
		written.keepIdentity(&o.Meta)
		*o = *written
	}
	return err
}

// withoutStatus empties the status of an object, as the Kind's Type writes an empty one.
func (k *Kind) withoutStatus(o *Object) error {
	if o.Status, o.Value = nil, nil; k.Type == nil || k.Type.opaque {
		return nil
	}
	if err := k.give(o); err != nil {
		return err
	}
	return k.renew(o)
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
	if o.Value, _, err = k.Type.decode(k.AppendJSON(nil, o), false); err != nil {
		return err
	}
	// A type that decodes itself may tell names apart in another way than the engine.
	if v, ok := o.Value.(named); ok && (v.GetName() != o.Meta.Name || v.GetNamespace() != o.Meta.Namespace) {
		return badRequest("the object is %s/%s for %T, and %s for the request", v.GetNamespace(), v.GetName(), o.Value, o.Key())
	}
	return nil
}

type named interface {
	GetName() string
	GetNamespace() string
}

func metaOf(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), GenerateName: o.GetGenerateName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Generation: o.GetGeneration(), CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: o.GetDeletionGracePeriodSeconds(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		Finalizers: o.GetFinalizers(), OwnerReferences: o.GetOwnerReferences(), ManagedFields: o.GetManagedFields(),
	}
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
	to.SetSelfLink("")
}
