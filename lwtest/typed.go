package lwtest

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
)

// typed reads and writes a collection in objects of type T.
type typed[T lw.Object] struct{ collection *apiserver.Collection }

func newTyped[T lw.Object](c *apiserver.Collection) *typed[T] {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("lwtest: Objects: %v is no pointer to a struct", t))
	}
	return &typed[T]{c}
}

// decode makes a T of what a collection returns. As with a generated client, and as from lw.HTTP, Kind and APIVersion are empty
// where T has a struct for them, and stay in an unstructured one.
func (t *typed[T]) decode(o apiserver.Object, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	obj := reflect.New(reflect.TypeFor[T]().Elem())
	if err := json.Unmarshal(o.JSON, obj.Interface()); err != nil {
		return zero, fmt.Errorf("lwtest: %v does not fit %T: %w", o.Key, zero, err)
	}
	if meta := obj.Elem().FieldByName("TypeMeta"); meta.IsValid() && meta.CanSet() {
		meta.SetZero()
	}
	return obj.Interface().(T), nil
}
