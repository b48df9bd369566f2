package lwtest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A filler sets all fields of an object to values that differ from each other.
type filler struct {
	n    int            // of the next value
	open []reflect.Type // the structs around the value
}

// fill sets the value v. It leaves out the kind and the API version, what JSON leaves out, values of
// unknown types that encode themselves, and the second struct of a type within another one.
func (f *filler) fill(v reflect.Value) {
	f.n++
	switch v.Interface().(type) {
	case metav1.TypeMeta:
		return
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Unix(int64(1_700_000_000+f.n), 0)))
		return
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.MicroTime{Time: time.Unix(int64(1_700_000_000+f.n), 5000)}))
		return
	case metav1.Duration:
		v.Set(reflect.ValueOf(metav1.Duration{Duration: time.Duration(f.n) * time.Second}))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse(fmt.Sprint(f.n))))
		return
	case intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.FromInt32(int32(f.n))))
		return
	}
	switch v.Addr().Interface().(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		elem := reflect.New(v.Type().Elem())
		if f.fill(elem.Elem()); !elem.Elem().IsZero() {
			v.Set(elem)
		}
	case reflect.Struct:
		f.fields(v)
	case reflect.Slice:
		elem := reflect.New(v.Type().Elem()).Elem()
		if f.fill(elem); !elem.IsZero() {
			v.Set(reflect.Append(v, elem))
		}
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		if f.fill(elem); v.Type().Key().Kind() == reflect.String && !elem.IsZero() {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key", f.n)).Convert(v.Type().Key()), elem)
		}
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

// fields sets the fields of struct v.
func (f *filler) fields(v reflect.Value) {
	for _, t := range f.open {
		if t == v.Type() {
			return
		}
	}
	f.open = append(f.open, v.Type())
	for i := range v.NumField() {
		if sf := v.Type().Field(i); sf.IsExported() && sf.Tag.Get("json") != "-" {
			f.fill(v.Field(i))
		}
	}
	f.open = f.open[:len(f.open)-1]
}
