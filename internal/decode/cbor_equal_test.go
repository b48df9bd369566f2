package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// A mixed has fields of the types that the API's types have, and that apimachinery writes as CBOR.
type mixed struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              mixedSpec `json:"spec,omitempty"`
}

func (m *mixed) DeepCopyObject() runtime.Object { c := *m; return &c }

type mixedSpec struct {
	Str    string                       `json:"str,omitempty"`
	StrP   *string                      `json:"strP,omitempty"`
	Flag   *bool                        `json:"flag,omitempty"`
	I8     int8                         `json:"i8,omitempty"`
	I64    *int64                       `json:"i64,omitempty"`
	U64    uint64                       `json:"u64,omitempty"`
	F32    float32                      `json:"f32,omitempty"`
	F64    *float64                     `json:"f64,omitempty"`
	Bytes  []byte                       `json:"bytes,omitempty"`
	MB     map[string][]byte            `json:"mb,omitempty"`
	M      map[string]string            `json:"m,omitempty"`
	MQ     map[string]resource.Quantity `json:"mq,omitempty"`
	Strs   []string                     `json:"strs,omitempty"`
	Null   []string                     `json:"null"`
	Qty    *resource.Quantity           `json:"qty,omitempty"`
	Port   *intstr.IntOrString          `json:"port,omitempty"`
	Time   *metav1.Time                 `json:"time,omitempty"`
	Micro  *metav1.MicroTime            `json:"micro,omitempty"`
	Dur    *metav1.Duration             `json:"dur,omitempty"`
	Ext    *runtime.RawExtension        `json:"ext,omitempty"`
	Any    any                          `json:"any,omitempty"`
	Sel    *metav1.LabelSelector        `json:"sel,omitempty"`
	Nested []mixedSpec                  `json:"nested,omitempty"`
}

// A mixedPlace is a projection of a mixed.
type mixedPlace struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Str    string `json:"str"`
		Nested []struct {
			Bytes []byte `json:"bytes"`
			Any   any    `json:"any"`
		} `json:"nested"`
	} `json:"spec"`
}

// drawText draws a string, seldom one that is no UTF-8.
var drawText = rapid.OneOf(rapid.StringN(0, 8, 40), rapid.SampledFrom([]string{"", "a\xffb", "\"\\\n\x00<&", "é水𐅑", "2013-03-21T20:04:00Z", "8Gi", "5"}))

// drawAny draws a value of JSON.
func drawAny(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return drawFloat(t)
	case 4:
		return drawText.Draw(t, "text")
	case 5:
		all := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			all = append(all, drawAny(t, depth-1))
		}
		return all
	}
	return drawMap(t, depth-1)
}

func drawMap(t *rapid.T, depth int) map[string]any {
	all := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		all[rapid.String().Draw(t, "name")] = drawAny(t, depth)
	}
	return all
}

func drawFloat(t *rapid.T) float64 {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, 1.5, 1e20, 1e21, 1e-7, 65504, 1 << 53, math.MaxFloat64, math.SmallestNonzeroFloat64, 5e-5})).
		Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).Draw(t, "float")
}

// maybe draws a pointer to a value, or nil.
func maybe[T any](t *rapid.T, name string, v func() T) *T {
	if !rapid.Bool().Draw(t, name) {
		return nil
	}
	p := v()
	return &p
}

func drawSpec(t *rapid.T, depth int) mixedSpec {
	text := func() string { return drawText.Draw(t, "text") }
	names := rapid.StringMatching(`[a-z./-]{1,6}`)
	at := func() time.Time { return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "second"), 0) }
	s := mixedSpec{
		Str: text(), StrP: maybe(t, "strP", text), Flag: maybe(t, "flag", func() bool { return rapid.Bool().Draw(t, "bool") }),
		I8: rapid.Int8().Draw(t, "i8"), I64: maybe(t, "i64", func() int64 { return rapid.Int64().Draw(t, "int") }), U64: rapid.Uint64().Draw(t, "u64"),
		// Numbers that are as short in 64 bits: an object without a type has no others.
		F32: float32(rapid.IntRange(-1000, 1000).Draw(t, "f32")) / 8, F64: maybe(t, "f64", func() float64 { return drawFloat(t) }),
		Bytes: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes"), MB: rapid.MapOfN(names, rapid.SliceOfN(rapid.Byte(), 0, 4), 0, 2).Draw(t, "mb"),
		M: rapid.MapOfN(names, drawText, 0, 3).Draw(t, "m"), Strs: rapid.SliceOfN(drawText, 0, 3).Draw(t, "strs"),
		Qty: maybe(t, "qty", func() resource.Quantity {
			return *resource.NewQuantity(rapid.Int64().Draw(t, "qty"), resource.DecimalSI)
		}),
		Port: maybe(t, "port", func() intstr.IntOrString {
			return intstr.Parse(rapid.SampledFrom([]string{"80", "http", "-5"}).Draw(t, "port"))
		}),
		Time: maybe(t, "time", func() metav1.Time { return metav1.NewTime(at()) }), Micro: maybe(t, "micro", func() metav1.MicroTime { return metav1.NewMicroTime(at().Add(123 * time.Microsecond)) }),
		Dur: maybe(t, "dur", func() metav1.Duration { return metav1.Duration{Duration: time.Duration(rapid.Int64().Draw(t, "dur"))} }), Any: drawAny(t, 2),
		Ext: maybe(t, "ext", func() runtime.RawExtension {
			raw := mustJSON(t, drawMap(t, 2))
			return runtime.RawExtension{Raw: raw}
		}),
		Sel: maybe(t, "sel", func() metav1.LabelSelector { return metav1.LabelSelector{MatchLabels: map[string]string{"a": text()}} }),
	}
	if depth > 0 {
		for range rapid.IntRange(0, 2).Draw(t, "nested") {
			s.Nested = append(s.Nested, drawSpec(t, depth-1))
		}
	}
	return s
}

func drawMixed(t *rapid.T) *mixed {
	at := metav1.NewTime(time.Unix(1700000000, 0))
	m := &mixed{
		TypeMeta:   metav1.TypeMeta{Kind: "Mixed", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "name"), UID: types.UID("u"), ResourceVersion: "7", CreationTimestamp: at},
		Spec:       drawSpec(t, 1),
	}
	m.Labels = map[string]string{"a": drawText.Draw(t, "label")}
	m.OwnerReferences = []metav1.OwnerReference{{Kind: "K", Name: "o", Controller: m.Spec.Flag}}
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:a":{}}`)}}
	return m
}

// Objects are decoded from CBOR, as apimachinery's serializer writes it, to what they are decoded
// to from JSON: by every sort of type, in lists and in watches.
func TestCBOREqualsJSON(t *testing.T) {
	decoders := map[string]*Decoder{
		"whole":        newDecoder[*mixed](t, Options{}),
		"shared":       newDecoder[*mixed](t, Options{Share: true}),
		"cut":          newDecoder[*mixed](t, Options{Drop: []string{"metadata.managedFields", "spec.nested", "spec.m"}}),
		"projection":   newDecoder[*mixedPlace](t, Options{}),
		"unstructured": newDecoder[*unstructured.Unstructured](t, Options{}),
		"metadata":     newDecoder[*metav1.PartialObjectMetadata](t, Options{Kinds: NewKinds(nil, "Mixed")}),
	}
	scheme := runtime.NewScheme()
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Mixed"}
	scheme.AddKnownTypeWithName(gvk, &mixed{})
	apimachinery := cbor.NewSerializer(scheme, scheme)
	rapid.Check(t, func(t *rapid.T) {
		obj := drawMixed(t)
		inJSON := mustJSON(t, obj)
		encode := apimachinery.Encode
		if rapid.Bool().Draw(t, "shuffled") {
			encode = apimachinery.EncodeNondeterministic
		}
		var b bytes.Buffer
		ok(t, encode(obj, &b))
		inCBOR := b.Bytes()
		stream := map[Encoding]string{JSON: fmt.Sprintf("{\"type\":\"ADDED\",\"object\":%s}\n", inJSON), CBOR: "\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object" + string(inCBOR)}
		list := map[Encoding]string{
			JSON: fmt.Sprintf(`{"kind":"MixedList","metadata":{"continue":"c"},"items":[%s]}`, inJSON),
			CBOR: "\xd9\xd9\xf7\xa3\x44kind\x49MixedList\x48metadata\xa1\x48continue\x41c\x45items\x81" + string(inCBOR[3:]),
		}
		for name, d := range decoders {
			got := map[Encoding][]any{}
			for _, enc := range []Encoding{JSON, CBOR} {
				keep := func(o Object) error {
					got[enc] = append(got[enc], o.Value, o.Ident)
					return o.Err
				}
				meta, err := d.List(strings.NewReader(list[enc]), enc, keep)
				if err != nil || meta.Continue != "c" {
					t.Fatalf("%s: a list of encoding %v: %+v, %v", name, enc, meta, err)
				}
				if err := d.Watch(strings.NewReader(stream[enc]), enc, func(e Event) error { return keep(e.Object) }); err != nil {
					t.Fatalf("%s: a watch of encoding %v: %v", name, enc, err)
				}
			}
			if diff := cmp.Diff(got[JSON], got[CBOR], sameJSON); diff != "" {
				t.Fatalf("%s (-JSON +CBOR):\n%s", name, diff)
			}
			// apimachinery keeps bytes that are no UTF-8, where JSON has U+FFFD.
			if name != "whole" || !json.Valid(inJSON) || bytes.Contains(inCBOR, []byte("a\xffb")) {
				continue
			}
			theirs := &mixed{}
			if _, _, err := apimachinery.Decode(inCBOR, &gvk, theirs); err != nil {
				t.Fatal(err)
			}
			theirs.TypeMeta = metav1.TypeMeta{}
			a := mustJSON(t, theirs)
			b := mustJSON(t, got[CBOR][0])
			if !meansSame(a, b) {
				t.Fatalf("(-apimachinery +CBOR):\n%s", cmp.Diff(string(a), string(b)))
			}
		}
	})
}

// A version of an object takes from the last one what has not changed, as in JSON: what has the
// same bytes and comes behind the name. A list brings the very object if nothing has changed.
func TestCBORReuse(t *testing.T) {
	d := newDecoder[*mixed](t, Options{})
	store := map[string]any{}
	d.ReuseFrom(func(_, name string) any { return store[name] })
	obj := &mixed{TypeMeta: metav1.TypeMeta{Kind: "Mixed", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{"x": "y"}}}
	obj.Spec.Strs = []string{"s", "t"}
	list := func() any {
		item := members(t, "kind", mustCBOR(t, "Mixed"), "metadata", mustCBOR(t, obj.ObjectMeta), "spec", mustCBOR(t, obj.Spec))
		l := members(t, "kind", mustCBOR(t, "MixedList"), "items", array(item))
		var got any
		_, err := d.List(bytes.NewReader(l), CBOR, func(o Object) error { got = o.Value; return o.Err })
		ok(t, err)
		return got
	}
	first := list()
	store["a"] = first
	if again := list(); again != first {
		t.Error("an object that has not changed is another one")
	}
	obj.ResourceVersion = "2"
	next := list().(*mixed)
	if any(next) == first || next.ResourceVersion != "2" || &next.Spec.Strs[0] != &first.(*mixed).Spec.Strs[0] {
		t.Errorf("the spec is not that of the last version: %+v", next)
	}
	obj.Spec.Strs[1] = "u"
	if last := list().(*mixed); last.Spec.Strs[1] != "u" || first.(*mixed).Spec.Strs[1] != "t" {
		t.Errorf("a change of the spec: %+v", last)
	}
}
