package stress

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// A gen makes objects at random, and changes them.
type gen struct {
	*rand.Rand
	leafOnly bool // only the values of leaves change, and the shape stays
	noZero   bool // no time is zero: a pointer to one is null in JSON
}

var words = []string{"", "a", "app", "name", "null", "true", "0", "web-server", "kube-system",
	"example.com/very-long-label-name-of-some-kind", "größe", "日本語", "\u2028", "a\"b\\c", "\x01\t\n", "<&>", "😀",
	"IfNotPresent", "Always"}

func (g *gen) str() string {
	switch g.Intn(200) {
	case 0:
		return strings.Repeat(words[1+g.Intn(len(words)-1)], 1+g.Intn(200))
	case 1:
		b := make([]byte, g.Intn(5000))
		for i := range b {
			b[i] = byte(' ' + g.Intn(95))
		}
		return string(b)
	}
	if g.Intn(4) == 0 {
		return words[g.Intn(len(words))]
	}
	b := make([]byte, 1+g.Intn(24))
	for i := range b {
		b[i] = byte('a' + g.Intn(26))
	}
	return string(b)
}

// random returns a new object of a type, with changes in so many places.
func (g *gen) random(typ reflect.Type, changes int) any {
	v := reflect.New(typ)
	g.leafOnly = false
	for range changes {
		g.mutate(v.Elem(), 0)
	}
	return v.Interface()
}

var quantities = []string{"0", "1", "100m", "1Gi", "128Mi", "1e3", "12345678901234567890", "0.5", "1500n", "-3",
	"9223372036854775807", "1Ei", "1234567.891", "3Ki"}
var raws = []string{`{}`, `{"a":1}`, `{"f:metadata":{"f:labels":{"f:app":{}}}}`,
	`{"kind":"E","list":[1,2,{"x":"y"}],"apiVersion":"v1"}`, `{"k":"` + strings.Repeat("v", 300) + `"}`, `"text"`,
	`[1,2,3]`, `17`, `true`}

func (g *gen) num() int64 {
	switch g.Intn(6) {
	case 0:
		return math.MaxInt64
	case 1:
		return math.MinInt64
	case 2:
		return 0
	case 3:
		return int64(g.Intn(100))
	case 4:
		return int64(g.Int31())
	}
	return g.Int63()
}

// set sets a value of a type that is not that of its fields, and reports whether v is one.
func (g *gen) set(v reflect.Value) bool {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if !g.noZero && g.Intn(8) == 0 {
			*p = metav1.Time{}
		} else {
			*p = metav1.Unix(int64(1600000000+g.Intn(200000000)), 0)
		}
	case *metav1.MicroTime:
		if !g.noZero && g.Intn(8) == 0 {
			*p = metav1.MicroTime{}
		} else {
			*p = metav1.NewMicroTime(time.Unix(int64(1600000000+g.Intn(200000000)), int64(g.Intn(1000000))*1000))
		}
	case *metav1.Duration:
		p.Duration = time.Duration(g.Int63n(1 << 40))
	case *resource.Quantity:
		*p = resource.MustParse(quantities[g.Intn(len(quantities))])
	case *intstr.IntOrString:
		if g.Intn(2) == 0 {
			*p = intstr.FromInt32(int32(g.num()))
		} else {
			*p = intstr.FromString(g.str())
		}
	case *runtime.RawExtension:
		p.Raw = []byte(raws[g.Intn(5)])
	case *metav1.FieldsV1:
		*p = *metav1.NewFieldsV1(raws[g.Intn(4)])
	case *json.RawMessage:
		*p = json.RawMessage(raws[g.Intn(len(raws))])
	case *map[string]any:
		*p = nil
		_ = json.Unmarshal([]byte(raws[g.Intn(5)]), p)
	default:
		return false
	}
	return true
}

// mutate changes something in v, which is settable.
func (g *gen) mutate(v reflect.Value, depth int) {
	if g.set(v) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for range 4 {
			i := g.Intn(v.NumField())
			f := v.Type().Field(i)
			if !f.IsExported() || f.Name == "TypeMeta" {
				continue
			}
			if f.Type.Kind() == reflect.Interface {
				continue
			}
			g.mutate(v.Field(i), depth+1)
			return
		}
	case reflect.Pointer:
		switch {
		case v.IsNil():
			if depth > 12 {
				return
			}
			v.Set(reflect.New(v.Type().Elem()))
			g.mutate(v.Elem(), depth+1)
		case !g.leafOnly && g.Intn(6) == 0:
			v.SetZero()
		default:
			g.mutate(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(g.str()))
			return
		}
		if g.leafOnly && v.Len() > 0 || v.Len() > 0 && g.Intn(3) > 0 {
			g.mutate(v.Index(g.Intn(v.Len())), depth+1)
			return
		}
		if depth > 10 {
			return
		}
		switch g.Intn(8) {
		case 0:
			v.SetZero()
		case 1:
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		case 2:
			if v.Len() > 0 {
				v.Set(v.Slice(0, g.Intn(v.Len())))
			}
		case 3:
			n := g.Intn(40) / depth
			for range n {
				e := reflect.New(v.Type().Elem()).Elem()
				if v.Len() > 0 && g.Intn(2) == 0 && e.Kind() != reflect.Pointer {
					e.Set(v.Index(0))
				} else if e.Kind() == reflect.Pointer {
					e.Set(reflect.New(e.Type().Elem()))
				}
				v.Set(reflect.Append(v, e))
			}
		default:
			e := reflect.New(v.Type().Elem()).Elem()
			if e.Kind() == reflect.Pointer {
				e.Set(reflect.New(e.Type().Elem()))
			}
			for range 3 {
				g.mutate(e, depth+1)
			}
			v.Set(reflect.Append(v, e))
		}
	case reflect.Map:
		key := reflect.ValueOf(words[1+g.Intn(8)] + strconv.Itoa(g.Intn(3))).Convert(v.Type().Key())
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		switch {
		case !g.leafOnly && g.Intn(8) == 0:
			v.SetZero()
		case !g.leafOnly && g.Intn(8) == 0:
			v.Set(reflect.MakeMap(v.Type()))
		case v.Len() > 0 && g.Intn(4) == 0:
			v.SetMapIndex(v.MapKeys()[0], reflect.Value{})
		default:
			if depth > 10 {
				return
			}
			e := reflect.New(v.Type().Elem()).Elem()
			if e.Kind() == reflect.Pointer {
				e.Set(reflect.New(e.Type().Elem()))
			}
			g.mutate(e, depth+1)
			v.SetMapIndex(key, e)
		}
	case reflect.String:
		v.SetString(g.str())
	case reflect.Bool:
		v.SetBool(g.Intn(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(g.num())
		if v.OverflowInt(v.Int()) {
			v.SetInt(0)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(g.Intn(256)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, 1, 1.5, -2e30, 1e-9, math.MaxFloat64}[g.Intn(6)])
	}
}

// clone copies by JSON, so that nothing is shared.
func clone(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", v, err))
	}
	out := reflect.New(reflect.TypeOf(v).Elem()).Interface()
	if err := utiljson.Unmarshal(b, out); err != nil {
		panic(err)
	}
	return out
}
