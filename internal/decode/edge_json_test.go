package decode

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Strings and numbers at their edges, as apimachinery decodes or refuses them.
func TestEdgesAsApimachinery(t *testing.T) {
	var specs []string
	for _, s := range []string{
		`\u00AB`, `\u00ab`, `\u00aB`, `\uABCD`, `\uFFFD`, `\uFFFF`, `\u0000`, `\u00G0`, `\u00g0`, `\u00:0`, `\u00@0`, "\\u00`0", `\u00/0`, `\u-001`, `\u+001`,
		`\uD83D\uDE00`, `\uD83D\uD83D`, `\uDE00\uD83D`, `\uD83D\u`, `\uD83D\u00`, `\uD83Dx`, `\uD83D`, `\uD83D\n`, "�", "a�b", "\xef\xbf", "\xc0\x80", "\xf4\x90\x80\x80", "é\xff",
		`\v`, `\'`, `\0`, `\U00e9`, `\`, `\u`, `\u1`, `\u12`, `\u123`,
	} {
		specs = append(specs, `{"str":"`+s+`"}`, `{"m":{"`+s+`":"x"}}`, `{"any":"`+s+`"}`, `{"unknown":"`+s+`","str":"after"}`, `{"strs":["`+s+`","`+s+`"]}`)
	}
	for _, n := range []string{
		"0", "-0", "00", "01", "-01", "1.", "1.5", ".5", "-.5", "1e5", "1E5", "1e+5", "1e-5", "1e", "1e+", "1.e1", "1.0e", "-", "--1", "+1", "1-", "1x", "0x1", "1_0",
		"127", "128", "-128", "-129", "255", "256", "32767", "32768", "65535", "65536", "99999999", "999999999", "2147483647", "2147483648", "-2147483648", "-2147483649",
		"4294967295", "4294967296", "12345678901", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615", "18446744073709551616",
		"16777217", "9007199254740993", "0.1", "3.4028235e38", "3.5e38", "1e-50", "1e308", "1e309",
	} {
		for _, name := range []string{"i8", "i16", "i32", "i64P", "u8", "u16", "u32", "u64", "f32", "f64", "any", "number", "unknown", "I"} {
			specs = append(specs, `{"`+name+`":`+n+`}`, `{"`+name+`":`+n+` ,"str":"x"}`)
		}
		specs = append(specs, `{"ma":{"a":`+n+`}}`, `{"ma":{"a":[`+n+`,`+n+`]}}`, `{"deep":[[`+n+`]]}`, `{"quoted":"`+n+`"}`, `{"array":[`+n+`]}`)
	}
	for _, share := range []bool{false, true} {
		d := newDecoder[*sink](t, Options{Share: share})
		for _, spec := range specs {
			checkSame(t, d, []byte(`{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a"},"spec":`+spec+`}`))
		}
	}
}

// No object that is cut off is taken for one, wherever that is.
func TestCutObjects(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, whole := range []string{
		`{"spec":{"str":"a\u00e9\ud83d\ude00b","unknown":"\u00e9\ud83d\ude00"}}`, `{"spec":{"f64":-12.5e-3,"unknown":-12.5e-3,"any":[true,false,null,{"a":1}]}}`, sinkA,
	} {
		for n := range len(whole) {
			if _, err := decodeOne(d, []byte(whole[:n])); err == nil {
				t.Fatalf("%s is taken for an object", whole[:n])
			}
		}
		if _, err := decodeOne(d, []byte(whole)); err != nil {
			t.Errorf("%s: %v", whole, err)
		}
	}
}

// An error says where it is.
func TestOffsets(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, data := range []string{
		`{"unknown":1.#`, `{"unknown":1e+#`, `{"unknown":-#`, `{"unknown":#`, `{"spec":{"f64":1.#`, `{"spec":{"f64":1e#`, `{"spec":{"f64":-#`, `{"unknown":{#`, `{"unknown":[1 #`, `{"unknown":{"a"#`,
		`{"spec":#`, `{#`, `{"spec" #`,
	} {
		at := strings.IndexByte(data, '#')
		_, err := decodeOne(d, []byte(data+` "and so on"}}`))
		e, ok := errors.AsType[*SyntaxError](err)
		if !ok || e.Offset != int64(at) {
			t.Errorf("%s: %v, want an error at byte %d", data, err, at)
		}
	}
}

// quotedAll has each sort of field that may come in quotes, and those that may not.
type quotedAll struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`

	B    bool     `json:"b,string"`
	I    int      `json:"i,string"`
	I8   int8     `json:"i8,string"`
	I16  int16    `json:"i16,string"`
	I32  int32    `json:"i32,string"`
	I64  int64    `json:"i64,string"`
	U    uint     `json:"u,string"`
	U8   uint8    `json:"u8,string"`
	U16  uint16   `json:"u16,string"`
	U32  uint32   `json:"u32,string"`
	U64  uint64   `json:"u64,string"`
	F32  float32  `json:"f32,string"`
	F64  float64  `json:"f64,string"`
	S    string   `json:"s,string"`
	P    *int32   `json:"p,string"`
	PP   **int32  `json:"pp,string"`
	List []int32  `json:"list,string"`
	Any  any      `json:"any,string"`
	St   struct{} `json:"st,string"`
}

// outer has fields that come from structs behind pointers.
type outer struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	*Middle
	*hidden
}

type Middle struct {
	*Reference `json:",inline"`
	Between    int `json:"between"`
}

type hidden struct {
	Secret string `json:"secret"`
}

// sameAs checks that data is decoded into a T as apimachinery does.
func sameAs[T any](t *testing.T, data string) {
	t.Helper()
	want := new(T)
	wantErr := unmarshal([]byte(data), want)
	reflect.ValueOf(want).Elem().FieldByName("TypeMeta").SetZero()
	got, err := decodeOne(newDecoder[*T](t, Options{}), []byte(data))
	switch {
	case (err == nil) != (wantErr == nil):
		t.Errorf("%s:\n got error %v\nwant error %v", data, err, wantErr)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Errorf("%s:\n got %+v\nwant %+v", data, got, want)
	}
}

func TestQuotedFields(t *testing.T) {
	for _, name := range []string{"b", "i", "i8", "i16", "i32", "i64", "u", "u8", "u16", "u32", "u64", "f32", "f64", "s", "p", "list", "any", "st"} {
		for _, value := range []string{`"1"`, `1`, `"true"`, `true`, `"x"`, `"\"x\""`, `null`, `"null"`, `""`, `"300"`, `"-1"`, `[1]`, `"[1]"`, `{}`} {
			sameAs[quotedAll](t, `{"metadata":{"name":"a"},"`+name+`":`+value+`}`)
		}
	}
}

func TestEmbeddedPointers(t *testing.T) {
	for _, members := range []string{
		`"between":1`, `"refKind":"k"`, `"refName":"n","between":2,"refUID":3`, `"refKind":null`, `"between":null`, `"secret":"s"`, `"secret":null`, `"other":1`, `"between":1,"secret":"s"`,
	} {
		sameAs[outer](t, `{"metadata":{"name":"a"},`+members+`}`)
	}
}

// An item of an unstructured list has the kind that the list tells, unless it has one of its own.
func TestUnstructuredItems(t *testing.T) {
	const list = `{"kind":"FishList","apiVersion":"v1","items":[
		{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"5"}}, {"kind":"Fish","apiVersion":"v2","metadata":{"name":"b"}},
		{"kind":"Fish","metadata":{"name":"c"}}, {"apiVersion":"v3","metadata":{"name":"d"}}, {"n":12345678901,"f":1.5,"big":12345678901234567890,"small":7}]}`
	d := newDecoder[*unstructured.Unstructured](t, Options{})
	var got []string
	var last map[string]any
	if _, err := d.List(strings.NewReader(list), JSON, func(o Object) error {
		line := "a " + o.Ident.Kind + " of " + o.Ident.APIVersion
		if o.Err != nil {
			line += " " + o.Ident.Name + ": " + o.Err.Error()
		} else {
			u := o.Value.(*unstructured.Unstructured)
			last = u.Object
			line += " says " + strconv.Quote(u.GetKind()) + " " + u.GetName()
		}
		got = append(got, line)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`a Fish of v1 says "Fish" a`, `a Fish of v2 says "Fish" b`, `a Fish of  says "Fish" c`, `a  of v3 d: the object has no kind`, `a Fish of v1 says "Fish" `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	numbers := map[string]any{"kind": "Fish", "apiVersion": "v1", "n": int64(12345678901), "f": 1.5, "big": 12345678901234567890.0, "small": int64(7)}
	if diff := cmp.Diff(numbers, last); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

// What else a list has, of whatever sort, before its items and behind them, is passed.
func TestUnknownMembersOfLists(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, value := range []string{`[1,[2],{"a":"]"}]`, `[]`, `{}`, `{"a":{"b":"}"}}`, `"x"`, `""`, `"\"]"`, `1`, `-1.5e3`, `true`, `false`, `null`} {
		for _, list := range []string{
			`{"kind":"SinkList","other":` + value + `,"metadata":{"resourceVersion":"5"},"items":[` + sinkA + `]}`,
			`{"kind":"SinkList","metadata":{"resourceVersion":"5"},"items":[` + sinkA + `],"other":` + value + `}`,
			`{"other":` + value + ` , "items" : [` + sinkA + `] , "metadata":{"resourceVersion":"5"},"kind":"SinkList"}`,
		} {
			n := 0
			meta, err := d.List(strings.NewReader(list), JSON, func(o Object) error { n++; return o.Err })
			if err != nil || n != 1 || meta.ResourceVersion != "5" {
				t.Errorf("%s: %d items at %q, error %v", list, n, meta.ResourceVersion, err)
			}
		}
	}
}
