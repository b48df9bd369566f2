package decode

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"
)

// Names are guessed by what came last, so each of these is decoded behind each other: names that begin others, in other orders,
// twice, escaped, in another case, cut off and with white space.
func TestGuessNames(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	specs := []string{
		`{"str":"a","strP":"b","strs":["c"],"structs":[{"refKind":"k"}],"i8":1}`,
		`{"strP":"b","str":"a","i8":1,"structs":[],"strs":["c"]}`,
		`{"str":"a","str":"b","strP":"c","strP":"d"}`,
		`{"str":"a","st\u0072P":"b","\u0073trs":["c"]}`,
		`{"str":"a","STRP":"b","Strs":["c"],"StrP":"d"}`,
		`{"str":"a","strP" :"b","strs"
			:["c"], "structs":null , "i8":2}`,
		`{"str":"a","strPP":"b","strsx":["c"],"st":1,"s":2,"":3}`,
		`{"str":"a","unknown":{"str":"x"},"strP":"b","u8":3}`,
		`{}`, `{"I":1}`, `{"m":{}}`, `{"str":"a","i8":1`, `{"str`, `{"str"`, `{"str":`, `{"str":"a","st`, `{"str":"a" "strP":"b"}`, `{"str":"a",}`,
	}
	for _, a := range specs {
		for _, b := range specs {
			for _, spec := range []string{a, b, a, a} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":`+spec+`}`))
			}
		}
	}
}

// Strings are guessed by what came last in their field. What stands for another string than its own bytes must not be.
func TestGuessStrings(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	raw := []string{`"a"`, `"ab"`, `"\u0061"`, `"a\"b"`, `"a\\"`, `"a\\","str":"b"`, "\"\xff\"", `"\ufffd"`, "\"\ufffd\"", `"é"`, `"\n"`, "\"\n\"", `"a`, `null`, `""`, ` "a" `, `1`}
	for _, a := range raw {
		for _, b := range raw {
			for _, s := range []string{a, b, a, b, b} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"str":`+s+`,"strs":[`+s+`,`+s+`],"m":{"k":`+s+`}}}`))
				if strings.HasPrefix(s, `"`) && strings.Count(s, ":") == 0 {
					checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"m":{`+s+`:"v","z":"y",`+s+`:"w"}}}`))
				}
			}
		}
	}
}

// The ends of values that decode themselves are guessed by their bytes. They may be all that is left, be the beginning of others,
// and nest too deep in one place but not in another.
func TestGuessRaw(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	long := `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`
	deep := strings.Repeat("[", maxDepth-10) + strings.Repeat("]", maxDepth-10)
	raw := []string{long, long + " ", long[:len(long)-1], long + "}", long + long, `[` + long + `]`, `"` + strings.Repeat("x", 40) + `"`, `"` + strings.Repeat("x", 40) + `\"y"`,
		strings.Repeat("1", 30), strings.Repeat("1", 30) + "5", `null`, `{}`, deep}
	for _, a := range raw {
		for _, b := range raw {
			for _, s := range []string{a, b, a, a, b} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"fields":`+s+`,"ext":`+s+`,"raw":`+s+`}}`))
				checkSame(t, d, []byte(strings.Repeat(`{"next":`, 20)+`{"spec":{"raw":`+s+`}}`+strings.Repeat("}", 20)))
			}
		}
	}
}

// Times of the form that servers write are what time.Parse makes of them.
func TestTimes(t *testing.T) {
	check := func(s string) {
		want, err := time.Parse(time.RFC3339, s)
		if got, ok := utc([]byte(s)); ok && (err != nil || !reflect.DeepEqual(want.Local(), got)) {
			t.Fatalf("%s: got %v, want %v, error %v", s, got, want, err)
		} else if !ok && err == nil && len(s) == 20 && strings.Count(s, "-") == 2 {
			t.Fatalf("%s is left to time.Parse", s)
		}
	}
	for _, year := range []int{0, 1, 1900, 1969, 1970, 2000, 2023, 2024, 2100, 9999} {
		for month := range 14 {
			for day := range 33 {
				check(fmt.Sprintf("%04d-%02d-%02dT03:04:05Z", year, month, day))
			}
		}
	}
	for n := range 100 {
		check(fmt.Sprintf("2024-02-29T%02d:00:00Z", n))
		check(fmt.Sprintf("2024-02-29T00:%02d:00Z", n))
		check(fmt.Sprintf("2024-02-29T00:00:%02dZ", n))
	}
	rapid.Check(t, func(t *rapid.T) {
		b := []byte("2024-02-29T23:59:58Z")
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		check(string(b))
	})
}

// Those of protobuf are what (*metav1.Time).Unmarshal makes of them.
func TestSeconds(t *testing.T) {
	known := 0
	check := func(data []byte) {
		second, ok := seconds(data)
		if !ok {
			return
		}
		known++
		var want metav1.Time
		if err := want.Unmarshal(data); err != nil || !reflect.DeepEqual(want, metav1.Unix(second, 0)) {
			t.Fatalf("%x: got %v, want %v, error %v", data, metav1.Unix(second, 0), want, err)
		}
	}
	for _, second := range []int64{0, 1, 127, 128, 1700000000, -1, -62135596800, 253402300799, math.MaxInt64, math.MinInt64} {
		data := mustMarshal(t, &metav1.Timestamp{Seconds: second})
		check(data)
		check(mustMarshal(t, &metav1.Timestamp{Seconds: second, Nanos: 5}))
		check(append(data, data...))
		for n := range data {
			check(data[:n])
		}
	}
	if known != 20 { // with no nanoseconds as servers write them, and with none at all
		t.Errorf("%d times were known", known)
	}
}

// Short numbers are read without strconv.
func TestShortNumbers(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, n := range []string{"0", "00", "01", "-0", "-1", "7", "10", "1234567", "12345678", "123456789", "2147483647", "2147483648", "1.0", "1e2", "1 ", " 1", "1\n", "1x", "", "-"} {
		for _, spec := range []string{`{"i32":%s}`, `{"i64P":%s}`, `{"i8":%s,"str":"x"}`, `{"i32":%s,"i64P":%[1]s}`, `{"deep":[[%s],[1,%[1]s,2]]}`, `{"pp":%s}`, `{"intStr":%s}`, `{"i32":%s`} {
			checkSame(t, d, []byte(`{"spec":`+fmt.Sprintf(spec, n)+`}`))
		}
	}
}

// The values of one object that are made in one piece are not those of another, nor of each other: everything that was decoded is
// the same at the end, and nobody can append to one slice into the next.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := New(reflect.TypeFor[*sink](), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got, want []any
		few := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return genSpec(t, 2) }), 1, 3).Draw(t, "specs")
		for range 12 {
			data := []byte(`{"metadata":{"name":"a"},"spec":` + rapid.SampledFrom(few).Draw(t, "spec") + `}`)
			v, err := decodeOne(d, data)
			if err != nil {
				continue
			}
			full(t, reflect.ValueOf(v))
			w := &sink{}
			if err := unmarshal(data, w); err != nil {
				t.Fatal(err)
			}
			w.TypeMeta = metav1.TypeMeta{}
			got, want = append(got, v), append(want, w)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)))
		}
	})
}

// The same in protobuf, with as many of each as chance has it.
func TestBatchesOfMessages(t *testing.T) {
	for _, share := range []bool{false, true} {
		d := newDecoder[*carp.Carp](t, Options{Share: share})
		var got, want []any
		for i := range 100 {
			c := newCarp(i)
			few := i / 4 * 7
			c.OwnerReferences = slices.Repeat(c.OwnerReferences, few%5)
			c.ManagedFields = slices.Repeat(c.ManagedFields, few%3)
			c.Status.Conditions = slices.Repeat(c.Status.Conditions, few%4)
			c.Status.Infos = slices.Repeat(c.Status.Infos, few%6)
			data := mustMarshal(t, c)
			w := &carp.Carp{}
			if err := w.Unmarshal(data); err != nil {
				t.Fatal(err)
			}
			o := messageOf(d, data)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			full(t, reflect.ValueOf(o.Value))
			got, want = append(got, o.Value), append(want, w)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("share %v: (-want +got):\n%s", share, diff)
		}
	}
}

// What is shared is guessed by what came last in its field, too.
func TestGuessShared(t *testing.T) {
	d := newDecoder[*sink](t, Options{Share: true})
	long := `{"refKind":"a kind of some length","refName":"x"}`
	raw := []string{`[` + long + `]`, `[` + long + `,` + long + `]`, `[` + long + ` ]`, `[` + long, `[` + long + `]]`, `[]`, `null`,
		strings.Repeat("1", 30), `"` + strings.Repeat("x", 40) + `"`, `[` + strings.Replace(long, "x", "y", 1) + `]`}
	for _, a := range raw {
		for _, b := range raw {
			for _, s := range []string{a, a, b, b, a, b, a} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"structs":`+s+`,"strs":["`+strings.Repeat("z", 30)+`"]}}`))
			}
		}
	}
}

// full checks that no slice of structs in v has room behind its elements.
func full(t interface{ Fatalf(string, ...any) }, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			full(t, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			full(t, v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct && v.Cap() > v.Len() {
			t.Fatalf("%v of %d has room for %d", v.Type(), v.Len(), v.Cap())
		}
		for i := range v.Len() {
			full(t, v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			full(t, v.MapIndex(k))
		}
	}
}

// A type of which objects have different numbers of values is not made in one piece for long.
func TestBatchesGiveUp(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	m := batchOf(reflect.TypeFor[Reference]())
	unused := 0
	for i := range 20 * trial {
		d.objects++
		for range 1 + 30*(i/2%2) { // 1 1 31 31 1 1 …
			m.take(d, 1)
		}
		unused += m.left.len
	}
	if most := 20 * trial * 16 / maxUnused; unused > most {
		t.Errorf("%d values were made in vain, want no more than %d", unused, most)
	}
}
