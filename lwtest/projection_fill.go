package lwtest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A filler sets all fields of an object to values that differ from each other, or, if empty is set,
// to values that have something in them only at the next level.
type filler struct {
	empty bool

	n    int            // of the next value
	open []reflect.Type // the structs around the value
}

// fill sets the value v. It leaves out the kind and the API version, what JSON leaves out, values
// of unknown types that encode themselves, and the second struct of a type within another one.
func (f *filler) fill(v reflect.Value) {
	f.n++
	if _, ok := v.Interface().(metav1.TypeMeta); ok || f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if elem := f.elem(v.Type().Elem()); elem.IsValid() {
			v.Set(elem.Addr())
		}
		return
	case reflect.Struct:
		f.fields(v)
		return
	case reflect.Slice:
		if elem := f.elem(v.Type().Elem()); elem.IsValid() {
			v.Set(reflect.Append(v, elem))
		}
		return
	case reflect.Map:
		if elem := f.elem(v.Type().Elem()); elem.IsValid() && v.Type().Key().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key", f.n)).Convert(v.Type().Key()), elem)
		}
		return
	}
	if f.empty {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("s", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Uint8:
		v.Set(reflect.ValueOf(f.n % 100).Convert(v.Type()))
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		v.Set(reflect.ValueOf(f.n).Convert(v.Type()))
	}
}

// special sets the value v if its type encodes itself, and reports whether it does.
func (f *filler) special(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
	default:
		return false
	}
	if f.empty {
		return true
	}
	switch v := v.Addr().Interface().(type) {
	case *metav1.Time:
		*v = metav1.Unix(int64(1_700_000_000+f.n), 0)
	case *metav1.MicroTime:
		*v = metav1.MicroTime{Time: time.Unix(int64(1_700_000_000+f.n), 5000)}
	case *metav1.Duration:
		v.Duration = time.Duration(f.n) * time.Second
	case *resource.Quantity:
		*v = resource.MustParse(fmt.Sprint(f.n))
	case *intstr.IntOrString:
		*v = intstr.FromInt32(int32(f.n))
	}
	return true
}

// elem returns a new value of type t. It returns none where that would be a null in JSON, or have
// no end.
func (f *filler) elem(t reflect.Type) (elem reflect.Value) {
	elem = reflect.New(t).Elem()
	f.fill(elem)
	switch {
	case !elem.IsZero():
		return elem
	case !f.empty, t.Kind() == reflect.Uint8, t.Kind() == reflect.Pointer, f.special(elem), slices.Contains(f.open, t):
		return reflect.Value{}
	}
	return elem
}

// fields sets the fields of struct v.
func (f *filler) fields(v reflect.Value) {
	if slices.Contains(f.open, v.Type()) {
		return
	}
	f.open = append(f.open, v.Type())
	for i := range v.NumField() {
		if sf := v.Type().Field(i); sf.IsExported() && sf.Tag.Get("json") != "-" {
			f.fill(v.Field(i))
		}
	}
	f.open = f.open[:len(f.open)-1]
}
