package lwtest

import (
	"fmt"
	"reflect"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// typed makes objects of type T from the JSON of a collection.
type typed[T lw.Object] struct{ collection *apiserver.Collection }

func newTyped[T lw.Object](c *apiserver.Collection) *typed[T] {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("lwtest: Objects: %v is no pointer to a struct", t))
	}
	return &typed[T]{c}
}

// decode makes a T from the results of a method of the collection. Like a generated client and
// lw.HTTP it empties Kind and APIVersion if T has a TypeMeta; an unstructured object keeps them.
func (t *typed[T]) decode(o apiserver.Object, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if o.Decoded != nil {
		if known, ok := o.Decoded.Load(reflect.TypeFor[T]()); ok {
			return known.(runtime.Object).DeepCopyObject().(T), nil
		}
	}
	obj := reflect.New(reflect.TypeFor[T]().Elem())
	// The names of fields differ by case, as on a server.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, obj.Interface()); err != nil {
		return zero, fmt.Errorf("lwtest: %v does not fit %T: %w", o.Key, zero, err)
	}
	if meta := obj.Elem().FieldByName("TypeMeta"); meta.IsValid() && meta.CanSet() {
		meta.SetZero()
	}
	if known, ok := obj.Interface().(runtime.Object); ok && o.Decoded != nil {
		o.Decoded.Store(reflect.TypeFor[T](), known.DeepCopyObject())
	}
	return obj.Interface().(T), nil
}
