package decode

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/verify/leak"
)

// fromHex returns the bytes that s has in hexadecimal digits, between which may be spaces.
func fromHex(t fataler, s string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	ok(t, err)
	return data
}

func transcode(data []byte, lenient bool) (string, error) {
	var w cborWalk
	if done, err := w.walk(data); err != nil {
		return "", fmt.Errorf("%w: %v", errCBOR, err)
	} else if !done {
		return "", io.ErrUnexpectedEOF
	} else if w.n < len(data) {
		return "", fmt.Errorf("%w: more", errCBOR)
	}
	c := cborToJSON{data: data, limit: MaxObject, lenient: lenient}
	err := c.value(plainText)
	return string(c.out), err
}

// The examples of RFC 8949, appendix A, and others of each sort of item.
func TestCBORItems(t *testing.T) {
	for data, want := range map[string]string{
		"00": "0", "17": "23", "1818": "24", "1903e8": "1000", "1a000f4240": "1000000", "1b000000e8d4a51000": "1000000000000",
		"1bffffffffffffffff": "18446744073709551615", "3bffffffffffffffff": "-18446744073709551616", "20": "-1", "3863": "-100", "3903e7": "-1000",
		"f90000": "0", "f98000": "-0", "f93c00": "1", "fb3ff199999999999a": "1.1", "f93e00": "1.5", "f97bff": "65504", "fa47c35000": "100000",
		"fa7f7fffff": "3.4028234663852886e+38", "fb7e37e43c8800759c": "1e+300", "f90001": "5.960464477539063e-08", "f90400": "0.00006103515625", "f9c400": "-4",
		"fbc010666666666666": "-4.1", "f4": "false", "f5": "true", "f6": "null",
		"60": `""`, "6161": `"a"`, "6449455446": `"IETF"`, "62225c": `"\"\\"`, "62c3bc": `"ü"`, "63e6b0b4": `"水"`, "64f0908591": `"𐅑"`, "43 000a1f": `"\u0000\u000a\u001f"`,
		"40": `""`, "4401020304": `"\u0001\u0002\u0003\u0004"`, "80": "[]", "83010203": "[1,2,3]", "8301820203820405": "[1,[2,3],[4,5]]",
		"a0": "{}", "a26161016162820203": `{"a":1,"b":[2,3]}`, "826161a161626163": `["a",{"b":"c"}]`, "a1 4161 f6": `{"a":null}`,
		// Of indefinite length.
		"5f42010243030405ff": `"\u0001\u0002\u0003\u0004\u0005"`, "7f657374726561646d696e67ff": `"streaming"`, "7fff": `""`, "9fff": "[]",
		"9f018202039f0405ffff": "[1,[2,3],[4,5]]", "bf61610161629f0203ffff": `{"a":1,"b":[2,3]}`, "bfff": "{}", "a17f6161ff01": `{"a":1}`,
		// Tags: the mark of CBOR, times, encodings of bytes, which hold for all that is within, and
		// one without a meaning.
		"d9d9f7 01": "1", "d9d9f7 d9d9f7 80": "[]", "c0 74 323031332d30332d32315432303a30343a30305a": `"2013-03-21T20:04:00Z"`,
		"c1 1a514b67b0": `"2013-03-21T20:04:00Z"`, "c1 fb41d452d9ec200000": `"2013-03-21T20:04:00.5Z"`, "c1 20": `"1969-12-31T23:59:59Z"`,
		"d6 43 fbff00": `"+/8A"`, "d6 41 00": `"AA=="`, "d5 43 fbff00": `"-_8A"`, "d5 41 00": `"AA"`, "d7 43 fbff00": `"fbff00"`, "d6 82 4100 6100": `["AA==","\u0000"]`,
		"d6 a1 4161 4100": `{"a":"AA=="}`, "d818 41 61": `"a"`, "d6 d5 4100": `"AA"`, "d6 5f 4100 4100 ff": `"AAA="`,
	} {
		got, err := transcode(fromHex(t, data), false)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", data, got, err, want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: %s is no JSON", data, got)
		}
	}
}

// What is well-formed and has no JSON is the error of a value, with the way to it, and null if it
// is to be passed over.
func TestCBORInvalidItems(t *testing.T) {
	for data, want := range map[string]struct{ path, text, lenient string }{
		"f97c00": {"", "CBOR: the number +Inf", "null"}, "f97e00": {"", "CBOR: the number NaN", "null"}, "fbfff0000000000000": {"", "CBOR: the number -Inf", "null"},
		"faffc00000": {"", "CBOR: the number NaN", "null"}, "f7": {"", "CBOR: undefined", "null"}, "f0": {"", "CBOR: simple value 16", "null"}, "f8ff": {"", "CBOR: simple value 255", "null"},
		"c249010000000000000000": {"", "CBOR: a number of more than 64 bits", "null"}, "c3 41 00": {"", "CBOR: a number of more than 64 bits", "null"},
		"61ff": {"", "CBOR: text that is no UTF-8", "null"}, "7f 61c3 61bc ff": {"", "CBOR: text that is no UTF-8", "null"},
		"c1 6161": {"", "CBOR: no time", "null"}, "c1 f97e00": {"", "CBOR: no time", "null"}, "c1 1b7fffffffffffffff": {"", "CBOR: a time in the year", "null"}, "c1 c1 00": {"", "CBOR: no time", "null"},
		"c1 1bffffffffffffffff": {"", "CBOR: no time", "null"}, "c1 3bffffffffffffffff": {"", "CBOR: no time", "null"},
		"a1 01 02": {"", "CBOR: a key that is no string", `{"null":2}`}, "a1 d6 4161 02": {"", "CBOR: a key that is no string", `{"null":2}`}, "a1 a0 02": {"", "CBOR: a key that is no string", `{"null":2}`},
		"a1 61ff 02": {"", "CBOR: text that is no UTF-8", `{"null":2}`}, "a1 82f7a0 02": {"", "CBOR: a key that is no string", `{"null":2}`},
		"a2 4161 82 01 a1 4162 f7 4163 03": {"a[1].b", "CBOR: undefined", `{"a":[1,{"b":null}],"c":3}`}, "9f 01 c2 9f 01 ff ff": {"[1]", "CBOR: a number", "[1,null]"},
	} {
		raw := fromHex(t, data)
		_, err := transcode(raw, false)
		var e *FieldError
		if !errors.As(err, &e) || e.Path() != want.path || !strings.HasPrefix(e.Err.Error(), want.text) || !strings.Contains(err.Error(), "CBOR") {
			t.Errorf("%s: %v, want %q at %q", data, err, want.text, want.path)
		}
		if got, err := transcode(raw, true); err != nil || got != want.lenient || !json.Valid([]byte(got)) {
			t.Errorf("%s, leniently: %s, %v, want %s", data, got, err, want.lenient)
		}
	}
}

// What is not well-formed is told apart from what has not come yet (RFC 8949, appendix F).
func TestCBORMalformed(t *testing.T) {
	for _, data := range []string{
		"1c", "1d", "1e", "3c", "5d", "7e", "9c", "bd", "dc", "fc", "fd", "fe", "f800", "f818", "f81f", "ff", "1f", "3f", "df",
		"81ff", "8200ff", "a1ff", "a100ff", "a20000ff", "bf00ff", "bf000000ff", "9f81ff", "9f829f819f9fffffffff", "c0ff", "9fc0ff",
		"5f00ff", "5f21ff", "5f6100ff", "5f80ff", "5fa0ff", "5fc000ff", "5fe0ff", "7f4100ff", "5f5f4100ffff", "7f7f6100ffff", "bbffffffffffffffff",
	} {
		raw := fromHex(t, data)
		for n := range raw {
			if _, err := transcode(raw[:n], false); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errCBOR) {
				t.Errorf("%s: the first %d bytes: %v", data, n, err)
			}
		}
		if _, err := transcode(raw, false); !errors.Is(err, errCBOR) {
			t.Errorf("%s: %v", data, err)
		}
		// The walk alone finds it, so that the end of an item is never one of another item.
		if _, err := new(cborWalk).walk(raw); err == nil {
			t.Errorf("%s: the walk finds nothing wrong", data)
		}
		if got := CBORToJSON(raw); len(got) > 0 && json.Valid(got) && data[0] != 'f' {
			t.Errorf("%s: %s, as if it were whole", data, got)
		}
	}
	for _, data := range []string{"18", "19", "1a", "1b", "1901", "1a0102", "1b01020304050607", "38", "58", "98", "b8", "d8", "f8", "f900", "fa0000", "fb000000", "41", "61", "5affffffff00", "5bffffffffffffffff010203", "7b7fffffffffffffff010203", "81", "818181818181818181", "8200", "a1", "a20102", "a100", "a2000000", "5f4100", "7f6100", "9f", "9f0102", "bf", "bf01020102", "819f", "9f8000", "9f9f9f9f9fffffffff", "9f819f819f9fffffff", "c0", "d9d9f7", "9bffffffffffffffff"} {
		if _, err := transcode(fromHex(t, data), false); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// An item may nest as deep as JSON, and an error in it has a limit as in JSON.
func TestCBORNesting(t *testing.T) {
	for _, open := range []string{"\x81", "\x9f", "\xa1\x61a", "\xbf\x61a"} {
		for depth, fine := range map[int]bool{maxDepth: true, maxDepth + 1: false, 10 * maxDepth: false} {
			data := []byte(strings.Repeat(open, depth) + "\xf6")
			if open[0]&31 == 31 {
				data = append(data, bytes.Repeat([]byte{cborBreak}, depth)...)
			}
			got, err := transcode(data, false)
			if (err == nil) != fine || !fine && !strings.Contains(err.Error(), "more than 10000 levels") {
				t.Errorf("%q, %d deep: %v", open, depth, err)
			}
			if fine && !json.Valid([]byte(got)) {
				t.Errorf("%q, %d deep: no JSON", open, depth)
			}
			if _, err := new(cborWalk).walk(data); (err == nil) != fine {
				t.Errorf("%q, %d deep: the walk says %v", open, depth, err)
			}
			_ = CBORToJSON(data)
		}
	}
	// Tags are passed over one by one.
	if got, err := transcode(append(bytes.Repeat([]byte{0xd8, 0x18}, 1<<20), 0), false); got != "0" || err != nil {
		t.Errorf("behind many tags: %s, %v", got, err)
	}
}

// JSON may take more bytes than CBOR. Its limit is that of an object in JSON.
func TestCBORLimitOfJSON(t *testing.T) {
	for n, fine := range map[int]bool{98: true, 99: false} {
		c := cborToJSON{data: append([]byte{0x58, byte(n)}, bytes.Repeat([]byte{'a'}, n)...), limit: 100}
		err := c.value(plainText)
		if (err == nil) != fine || !fine && (!errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), "more than 100 bytes of JSON")) {
			t.Errorf("%d: %v", n, err)
		}
	}
	c := cborToJSON{data: append([]byte{0x98, 200}, bytes.Repeat([]byte{0xf6}, 200)...), limit: 100}
	if err := c.value(plainText); !errors.Is(err, errTooLarge) || len(c.out) > 110 {
		t.Errorf("%v after %d bytes", err, len(c.out))
	}
}

// FuzzCBORItem compares what this package takes for CBOR with what apimachinery does: the same
// bytes are well-formed, and what apimachinery decodes is decoded here, to the same value.
func FuzzCBORItem(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	for _, seed := range []string{
		"a26161016162820203", "5f42010243030405ff", "7f657374726561646d696e67ff", "bf61610161629f0203ffff", "d9d9f7a14161d643fbff00", "fb3ff199999999999a", "f97e00", "c11a514b67b0",
		"c249010000000000000000", "a1f7f7", "a2416101416102", "61ff", "3bffffffffffffffff", "9f018202039f0405ffff", "f818", "c074323031332d30332d32315432303a30343a30305a",
	} {
		f.Add(fromHex(f, seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		strict, err := transcode(data, false)
		_ = CBORToJSON(data)
		wellFormed := !errors.Is(err, errCBOR) && err != io.ErrUnexpectedEOF
		if _, theirs := direct.Diagnose(data); (theirs == nil) != wellFormed && !forAnotherReason(theirs) {
			t.Fatalf("%x: %v, apimachinery says %v", data, err, theirs)
		}
		if wellFormed {
			lenient, err := transcode(data, true)
			if err != nil || !json.Valid([]byte(lenient)) {
				t.Fatalf("%x, leniently: %s, %v", data, lenient, err)
			}
		}
		var want any
		if direct.Unmarshal(data, &want) != nil {
			return
		}
		// A null as a key is the empty name for apimachinery.
		if err != nil && strings.Contains(err.Error(), errCBORKey) {
			return
		}
		if err != nil {
			t.Fatalf("%x: %v, apimachinery decodes %v", data, err, want)
		}
		// As a server writes it that has this value.
		theirs := mustJSON(t, want)
		var a, b any
		if err := errors.Join(unmarshal([]byte(strict), &a), unmarshal(theirs, &b)); err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		if fmt.Sprint(a) != fmt.Sprint(b) && !bytes.Contains(data, []byte{0xc0}) && !bytes.Contains(data, []byte{0xc1}) {
			t.Fatalf("%x: %s, apimachinery decodes %s", data, strict, theirs)
		}
	})
}

// forAnotherReason reports whether err is not about the form: text that is no UTF-8, what a
// tag is before, or a limit.
func forAnotherReason(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "exceeded max") || strings.Contains(err.Error(), "invalid UTF-8") || strings.Contains(err.Error(), "tag number"))
}

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

// What apimachinery writes as CBOR is decoded to what it is from JSON, in lists and in watches.
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
		for name, d := range decoders {
			got := map[Encoding][]any{}
			for _, data := range [][]byte{inJSON, inCBOR} {
				form := map[bool]string{true: "JSON", false: "CBOR"}[data[0] == '{']
				event, list, enc := streamsOf(t, "Mixed", form, data)
				keep := func(o Object) error {
					got[enc] = append(got[enc], o.Value, o.Ident)
					return o.Err
				}
				meta, err := d.List(bytes.NewReader(list), enc, keep)
				if err != nil || meta.Continue != "c" {
					t.Fatalf("%s: a list of encoding %v: %+v, %v", name, enc, meta, err)
				}
				ok(t, d.Watch(bytes.NewReader(event), enc, func(e Event) error { return keep(e.Object) }))
			}
			if diff := cmp.Diff(got[JSON], got[CBOR], sameJSON); diff != "" {
				t.Fatalf("%s (-JSON +CBOR):\n%s", name, diff)
			}
			// apimachinery keeps bytes that are no UTF-8, where JSON has U+FFFD.
			if name != "whole" || !json.Valid(inJSON) || bytes.Contains(inCBOR, []byte("a\xffb")) {
				continue
			}
			theirs := &mixed{}
			_, _, err := apimachinery.Decode(inCBOR, &gvk, theirs)
			ok(t, err)
			theirs.TypeMeta = metav1.TypeMeta{}
			a, b := mustJSON(t, theirs), mustJSON(t, got[CBOR][0])
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
