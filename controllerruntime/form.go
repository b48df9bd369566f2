package controllerruntime

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A form is how objects of one kind are cached: in a Go type of their own, or in one that is for
// all kinds, which then say what they are.
type form struct {
	typ  reflect.Type
	kind schema.GroupVersionKind
}

func formOf(obj runtime.Object) form {
	f := form{typ: reflect.TypeOf(obj)}
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		f.kind = obj.GetObjectKind().GroupVersionKind()
	}
	return f
}

// formOfExample returns the form that an example in an option stands for. It is an error if it
// stands for none.
func formOfExample(example client.Object) (form, error) {
	t := reflect.TypeOf(example)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(example).IsNil() {
		return form{}, fmt.Errorf("%#v is no example of an object", example)
	}
	f := formOf(example)
	switch example.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		if f.kind.Empty() {
			return form{}, fmt.Errorf("a %v without a kind says nothing of which objects are meant", f.typ)
		}
	}
	return f, nil
}

func (f form) String() string {
	if f.kind.Empty() {
		return f.typ.String()
	}
	return fmt.Sprintf("%s (%v)", f.kind.Kind, f.typ)
}

// byForm returns the values of an option whose keys are examples of objects, by their forms.
func byForm[T any](option string, byExample map[client.Object]T) (map[form]T, error) {
	by := map[form]T{}
	for example, value := range byExample {
		f, err := formOfExample(example)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", option, err)
		}
		if _, ok := by[f]; ok {
			return nil, fmt.Errorf("%s: two examples of %v", option, f)
		}
		by[f] = value
	}
	return by, nil
}
