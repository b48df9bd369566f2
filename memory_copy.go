package lw

import (
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A copier copies a T and writes a UID and a resource version into the copy.
type copier[T Identified] struct {
	meta []int // the reflect index of the embedded Meta; nil if T is a metav1.Object
}

// newCopier fails if T cannot be copied, or has no UID and resource version to write. A
// metav1.Object is copied by its DeepCopyObject if it is a runtime.Object, else as a struct; any
// other T is a pointer to a struct that embeds Meta.
func newCopier[T Identified]() (copier[T], error) {
	t := reflect.TypeFor[T]()
	if t.Implements(reflect.TypeFor[metav1.Object]()) {
		if t.Implements(reflect.TypeFor[runtime.Object]()) || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
			return copier[T]{}, nil
		}
	}
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		if index := embeddedMeta(t.Elem()); index != nil {
			return copier[T]{meta: index}, nil
		}
	}
	return copier[T]{}, fmt.Errorf("%s has neither metav1.Object nor an embedded lw.Meta", typeName[T]())
}

// embeddedMeta returns the reflect index of the Meta that struct t embeds, directly or through
// other embedded structs, or nil. It does not follow pointers: two copies would share what they
// point to.
func embeddedMeta(t reflect.Type) []int {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous || f.Type.Kind() != reflect.Struct {
			continue
		}
		if f.Type == reflect.TypeFor[Meta]() {
			return f.Index
		}
		// Only through an exported field: reflect cannot write into an unexported one.
		if index := embeddedMeta(f.Type); index != nil && f.IsExported() {
			return append([]int{i}, index...)
		}
	}
	return nil
}

// withIdentity returns a copy of obj that has uid and resourceVersion.
func (c copier[T]) withIdentity(obj T, uid types.UID, resourceVersion string) (T, error) {
	if c.meta != nil {
		out, v := shallow(obj)
		m := v.FieldByIndex(c.meta).Addr().Interface().(*Meta)
		m.UID, m.ResourceVersion = uid, resourceVersion
		return out, nil
	}
	var out T
	if o, ok := any(obj).(runtime.Object); ok {
		copied := o.DeepCopyObject()
		if out, ok = copied.(T); !ok {
			return out, fmt.Errorf("DeepCopyObject of %T returned %T", obj, copied)
		}
	} else {
		out, _ = shallow(obj)
	}
	m := any(out).(metav1.Object)
	m.SetUID(uid)
	m.SetResourceVersion(resourceVersion)
	return out, nil
}

// shallow copies the struct that obj points to. It returns the pointer to the copy, and the copy as
// a settable Value.
func shallow[T any](obj T) (T, reflect.Value) {
	from := reflect.ValueOf(obj)
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	return to.Interface().(T), to.Elem()
}

// labeled is implemented by objects that have labels.
type labeled interface{ GetLabels() map[string]string }

// labelsOf returns the labels of obj, or nil if T has no GetLabels.
func labelsOf[T any](obj T) map[string]string {
	if l, ok := any(obj).(labeled); ok {
		return l.GetLabels()
	}
	return nil
}

// selectable returns an error if opts has a label selector and T has no labels. Without this error
// such a selector would silently select nothing.
func selectable[T Identified](opts metav1.ListOptions) error {
	if opts.LabelSelector == "" || reflect.TypeFor[T]().Implements(reflect.TypeFor[labeled]()) {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("label selector %q: %s has no GetLabels", opts.LabelSelector, typeName[T]()))
}

// nameRequired is what an API server answers to an object without a name.
var nameRequired = field.ErrorList{field.Required(field.NewPath("metadata", "name"), "an object needs a name")}
