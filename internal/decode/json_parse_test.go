package decode

//lint:file-ignore SA5008 Odd tags are what the decoder is tested with.

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/verify/leak"
)

// Strings and numbers at the edges of their rules are decoded or refused as apimachinery does it.
func TestEdgesAsApimachinery(t *testing.T) {
	var specs []string
	for _, s := range []string{
		`\u00AB`, `\u00ab`, `\u00aB`, `\uABCD`, `\uFFFD`, `\uFFFF`, `\u0000`, `\u00G0`, `\u00g0`, `\u00:0`, `\u00@0`,
		"\\u00`0", `\u00/0`, `\u-001`, `\u+001`,
		`\uD83D\uDE00`, `\uD83D\uD83D`, `\uDE00\uD83D`, `\uD83D\u`, `\uD83D\u00`, `\uD83Dx`, `\uD83D`, `\uD83D\n`, "�", "a�b",
		"\xef\xbf", "\xc0\x80", "\xf4\x90\x80\x80", "é\xff",
		`\v`, `\'`, `\0`, `\U00e9`, `\`, `\u`, `\u1`, `\u12`, `\u123`,
	} {
		specs = append(specs, `{"str":"`+s+`"}`, `{"m":{"`+s+`":"x"}}`, `{"any":"`+s+`"}`, `{"unknown":"`+s+
			`","str":"after"}`, `{"strs":["`+s+`","`+s+`"]}`)
	}
	for _, n := range []string{
		"0", "-0", "00", "01", "-01", "1.", "1.5", ".5", "-.5", "1e5", "1E5", "1e+5", "1e-5", "1e", "1e+", "1.e1", "1.0e",
		"-", "--1", "+1", "1-", "1x", "0x1", "1_0",
		"127", "128", "-128", "-129", "255", "256", "32767", "32768", "65535", "65536", "99999999", "999999999", "2147483647",
		"2147483648", "-2147483648", "-2147483649",
		"4294967295", "4294967296", "12345678901", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"18446744073709551615", "18446744073709551616",
		"16777217", "9007199254740993", "0.1", "3.4028235e38", "3.5e38", "1e-50", "1e308", "1e309",
	} {
		for _, name := range []string{"i8", "i16", "i32", "i64P", "u8", "u16", "u32", "u64", "f32", "f64", "any", "number",
			"unknown", "I"} {
			specs = append(specs, `{"`+name+`":`+n+`}`, `{"`+name+`":`+n+` ,"str":"x"}`)
		}
		specs = append(specs, `{"ma":{"a":`+n+`}}`, `{"ma":{"a":[`+n+`,`+n+`]}}`, `{"deep":[[`+n+`]]}`, `{"quoted":"`+n+`"}`,
			`{"array":[`+n+`]}`)
	}
	// What is cut off, or has a comma too many.
	for _, value := range []string{`"flag":tru`, `"flag":truer`, `"flag":fals`, `"flag":falsey`, `"flag":nul`,
		`"m":{"a":"b",}`, `"mq":{"a":"x!"}`, `"mq":{"a":"1","b":[]}`, `"mq":{"a":"1",}`, `"mq":{"a":"1",,}`, `"mq":{,}`,
		`"ma":{"a":1,}`, `"strs":["a",]`} {
		specs = append(specs, `{`+value+`}`, `{`+value+`,"str":"x"}`)
	}
	for _, share := range []bool{false, true} {
		d := newDecoder[*sink](t, Options{Share: share})
		for _, spec := range specs {
			checkSame(t, d, []byte(`{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a"},"spec":`+spec+`}`))
		}
	}
}

// An object that is cut off is an error, wherever it is cut.
func TestCutObjects(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, whole := range []string{
		`{"spec":{"str":"a\u00e9\ud83d\ude00b","unknown":"\u00e9\ud83d\ude00"}}`,
		`{"spec":{"f64":-12.5e-3,"unknown":-12.5e-3,"any":[true,false,null,{"a":1}]}}`, sinkA,
	} {
		for n := range len(whole) + 1 {
			if _, err := decodeOne(d, []byte(whole[:n])); (err == nil) != (n == len(whole)) {
				t.Fatalf("%s: %v", whole[:n], err)
			}
		}
	}
}

// A syntax error has the offset of the wrong byte.
func TestOffsets(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, data := range []string{
		`{"unknown":1.#`, `{"unknown":1e+#`, `{"unknown":-#`, `{"unknown":#`, `{"spec":{"f64":1.#`, `{"spec":{"f64":1e#`,
		`{"spec":{"f64":-#`, `{"unknown":{#`, `{"unknown":[1 #`, `{"unknown":{"a"#`,
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

// The end of a value that decodes itself is guessed from its bytes. The bytes may be all that is
// left, be the start of another value, and nest too deep in one place but not in another.
func TestGuessRaw(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	long := `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`
	deep := strings.Repeat("[", maxDepth-10) + strings.Repeat("]", maxDepth-10)
	raw := []string{long, long + " ", long[:len(long)-1], long + "}", long + long, `[` + long + `]`,
		`"` + strings.Repeat("x", 40) + `"`, `"` + strings.Repeat("x", 40) + `\"y"`,
		strings.Repeat("1", 30), strings.Repeat("1", 30) + "5", `null`, `{}`, deep}
	for s := range inTurn(raw, "abaab") {
		checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"fields":`+s+`,"ext":`+s+`,"raw":`+s+`}}`))
		checkSame(t, d, []byte(strings.Repeat(`{"next":`, 20)+`{"spec":{"raw":`+s+`}}`+strings.Repeat("}", 20)))
	}
}

// inTurn has any two of all, a and b, follow each other in the given order.
func inTurn(all []string, order string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, a := range all {
			for _, b := range all {
				for _, which := range order {
					if !yield(map[rune]string{'a': a, 'b': b}[which]) {
						return
					}
				}
			}
		}
	}
}

// Each object guesses its names from the one before. So each of these is decoded behind each other
// one: with names that begin other names, in other orders, twice, with escapes, in another case,
// cut off, and with white space.
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
		`{}`, `{"I":1}`, `{"m":{}}`, `{"str":"a","i8":1`, `{"str`, `{"str"`, `{"str":`, `{"str":"a","st`,
		`{"str":"a" "strP":"b"}`, `{"str":"a",}`,
	}
	for spec := range inTurn(specs, "abaa") {
		checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":`+spec+`}`))
	}
}

// A time in the form that servers write is decoded as time.Parse does it.
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

// Short numbers are decoded without strconv, and to the same values.
func TestShortNumbers(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, n := range []string{"0", "00", "01", "-0", "-1", "7", "10", "1234567", "12345678", "123456789", "2147483647",
		"2147483648", "1.0", "1e2", "1 ", " 1", "1\n", "1x", "", "-"} {
		for _, spec := range []string{`{"i32":%s}`, `{"i64P":%s}`, `{"i8":%s,"str":"x"}`, `{"i32":%s,"i64P":%[1]s}`,
			`{"deep":[[%s],[1,%[1]s,2]]}`, `{"pp":%s}`, `{"intStr":%s}`, `{"i32":%s`} {
			checkSame(t, d, []byte(`{"spec":`+fmt.Sprintf(spec, n)+`}`))
		}
	}
}

func TestIntOrString(t *testing.T) {
	type object struct {
		V intstr.IntOrString  `json:"v"`
		P *intstr.IntOrString `json:"p"`
	}
	d := newDecoder[*object](t, Options{})
	for _, v := range []string{`1`, `"http"`, `""`, `null`, `-0`, `2147483648`, `1.5`, `1e2`, `true`, `{}`,
		`"a\u00e9\ud800"`} {
		checkSameAs[object](t, d, []byte(`{"v":`+v+`,"p":`+v+`}`))
	}
}

// specs are values of spec, each with what makes it special.
var specs = []string{
	`null`, `{}`, `[]`, `"x"`, `1`, `true`,
	`{"str":"a","Str":"b","STR":"c"}`,
	`{"str":null,"strP":null,"flag":null,"flagP":null,"i8":null,"u8":null,"f64":null,"bytes":null,"any":null,"m":null,"strs":null}`,
	`{"strP":"x","flagP":true,"i64P":-9223372036854775808,"u64":18446744073709551615}`,
	`{"I":1}`, `{"i":1}`, `{"i8":127}`, `{"i8":128}`, `{"i8":1.0}`, `{"i8":1e1}`, `{"i8":-0}`, `{"u8":-0}`, `{"u8":-1}`,
	`{"u8":256}`,
	`{"i64P":9223372036854775808}`, `{"u64":18446744073709551616}`, `{"i16":32768}`, `{"u16":65536}`, `{"u32":4294967296}`,
	`{"i32":"1"}`, `{"i32":true}`, `{"i32":{}}`, `{"i32":[]}`, `{"str":1}`, `{"str":{}}`, `{"flag":1}`, `{"flag":"true"}`,
	`{"f64":"1"}`,
	`{"f32":1e39}`, `{"f32":1.5}`, `{"f64":1e400}`, `{"f64":-1.5e-3}`, `{"f64":1E+2}`, `{"f64":01}`, `{"f64":1.}`,
	`{"f64":.1}`, `{"f64":+1}`, `{"f64":-}`,
	`{"bytes":""}`, `{"bytes":"aGk="}`, `{"bytes":"aGk"}`, `{"bytes":"aG\nk="}`, `{"bytes":[1,2]}`, `{"bytes":[256]}`,
	`{"bytes":1}`,
	`{"quoted":"12"}`, `{"quoted":12}`, `{"quoted":null}`, `{"quoted":"x"}`, `{"quotedS":"\"x\""}`, `{"quotedS":"x"}`,
	`{"-":"dash","Ignored":"x"}`, `{"err":null}`, `{"err":"x"}`, `{"func":null}`, `{"func":{}}`,
	`{"number":1.50}`, `{"number":"1"}`, `{"number":"x"}`, `{"number":null}`, `{"dur":5}`, `{"dur":"5s"}`, `{"durM":"5s"}`,
	`{"durM":5}`, `{"durM":null}`,
	`{"time":"2024-01-02T03:04:05Z","timeP":"2024-01-02T03:04:05+02:00","micro":"2024-01-02T03:04:05.123456Z","std":"2024-01-02T03:04:05Z"}`,
	`{"time":null,"timeP":null,"micro":null,"std":null}`, `{"time":""}`, `{"time":5}`, `{"time":"x"}`,
	`{"time":"2024-01-02T03:04:05.123456789Z"}`, `{"time":"2024-\u003001-02T03:04:05Z"}`,
	`{"qty":"100m","qtyP":"1Gi"}`, `{"qty":5}`, `{"qty":1.5}`, `{"qty":""}`, `{"qty":null,"qtyP":null}`, `{"qty":true}`,
	`{"qty":"1"}`, `{"qtyP":"123456789012345678901234567890"}`,
	`{"qtyP":100000000000000000000000}`, `{"qtyP":1000000000000000000000001}`, `{"qtyP":10000000000000000000000.25}`,
	`{"extP":100000000000000000000000}`, `{"extP":1000000000000000000000001}`,
	`{"sel":{"matchLabels":{"a":"a string of some length"}}}`,
	`{"sel":{"matchLabels":{"a":"a string of some length"}},"sel":{"matchLabels":{"b":"c"}}}`,
	`{"strs":["a string of some length","b"],"strs":["c"]}`, `{"m":{"a":"a string of some length"},"m":{"b":"another"}}`,
	`{"m":{"a":"a string of some length"},"m":null}`,
	`{"structs":[{"refKind":"a string of some length"}],"structs":[{"refName":"n"}]}`,
	`{"extP":{"a":"a string of some length"},"extP":null}`,
	`{"intStr":5,"portP":"http"}`, `{"intStr":"5"}`, `{"intStr":null,"portP":null}`, `{"intStr":true}`,
	`{"ext":{"a": 1},"extP":{"b":[1, 2]}}`, `{"ext":null,"extP":null}`, `{"ext":"x"}`, `{"fields":{"f:a":{}}}`,
	`{"fields":null}`, `{"raw":[1, {"x":2}]}`, `{"raw":null}`,
	`{"text":"x"}`, `{"text":1}`, `{"text":null}`, `{"mt":{"a":"b"}}`, `{"mi":{"1":"a","-2":"b"}}`, `{"mi":{"x":"a"}}`,
	`{"strs":[]}`, `{"strs":["a",null,"b"]}`, `{"strs":["a",1]}`, `{"strs":"a"}`, `{"strs":["a","b"],"strs":["c"]}`,
	`{"strs":["a","b"],"strs":[null,null,"c"]}`,
	`{"structs":[{"refKind":"a","refUID":1},{"refKind":"b"}],"structs":[{"refName":"n"},null,{"refKind":"c"}]}`,
	`{"structs":[{"refKind":"a"}],"structs":[]}`, `{"structs":[{"refKind":"a"}],"structs":null}`,
	`{"ptrs":[{"refKind":"a"},null]}`, `{"ptrs":[{"refKind":"a"}],"ptrs":[{"refName":"b"}]}`,
	`{"deep":[[1],[],null,[2,3]]}`, `{"array":[1]}`, `{"array":[1,2,3]}`, `{"array":null}`,
	`{"m":{"a":"b","a":"c"}}`, `{"m":{"a":"b"},"m":{"c":"d"}}`, `{"m":{"a":null}}`, `{"m":{}}`, `{"m":{"a":1}}`,
	`{"m":{"":""}}`, `{"m":{"\u0061":"x","a":"y"}}`,
	`{"mb":{"a":"aGk=","b":null}}`, `{"mq":{"cpu":"1","memory":"2Gi"}}`,
	`{"ms":{"a":{"refKind":"x"},"a":{"refName":"y"}}}`, `{"msl":{"a":["b"],"c":null,"d":[]}}`,
	`{"ma":{"a":1,"b":1.0,"c":1e3,"d":12345678901234567890,"e":-0,"f":"s","g":null,"h":[],"i":{},"j":[1,"x",{"y":true}],"k":false,"l":""}}`,
	`{"any":{"a":1,"a":2}}`, `{"any":[1],"any":{"b":2}}`, `{"any":1e400}`, `{"any":-9223372036854775809}`,
	`{"pp":5}`, `{"pp":null}`, `{"refKind":"promoted"}`, `{"refKind":null}`, `{"refName":"hidden"}`,
	`{"own":"o","inline":"i"}`, `{"refUID":3}`,
	`{"self":{"a":{"self":{"b":{"str":"deep"}},"strs":["x"]},"c":{}}}`,
	`{"list":[{"list":[{"str":"a"},{"m":{"x":"y"}}]},{"strs":["z"]}]}`,
	`{"unknown":{"a":[1,2,{"b":"\u00e9"}]},"str":"after"}`, `{"unknown":tru}`, `{"unknown":"\x"}`, `{"unknown":01}`,
	`{"unknown":[1,]}`, `{"unknown":{"a":1,}}`, `{"unknown":"` + "\x01" + `"}`,
	`{"str":"\ud83d\ude00 \ud83d x \ude00 \ud83d\u0041 \n\t\"\\\/\b\f\r"}`, "{\"str\":\"\xff a \xe2\x82 \xed\xa0\x80 b\"}",
	`{"str":"\u12"}`, `{"str":"\ud83d\u12"}`, "{\"str\":\"a\nb\"}",
	"{\"\xff\":1,\"str\":\"x\"}", `{"s\u0074r":"escaped name"}`, `{"str":"long ` + strings.Repeat("x", 300) + `é` +
		strings.Repeat("y", 50) + `"}`,
	`{"str":"a"`, `{"str":"a`, `{"str"`, `{"str":}`, `{"str" "a"}`, `{,}`, `{"a":1 "b":2}`, `{"a":[1 2]}`, `{'a':1}`,
	`{"any":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
	`{"any":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`, `{"x":` + strings.Repeat(`{"a":`, 10001) +
		`1` + strings.Repeat("}", 10001) + `}`,
	" \t\r\n{ \"str\" : \"a\" , \"m\" : { \"k\" : \"v\" } , \"strs\" : [ \"a\" , \"b\" ] , \"i8\" : 1 } ",
}

func TestSameAsApimachinery(t *testing.T) {
	for _, share := range []bool{false, true} {
		d := newDecoder[*sink](t, Options{Share: share})
		for _, spec := range specs {
			for range 3 {
				checkSame(t, d, []byte(`{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"}},"spec":`+spec+
					`}`))
			}
		}
	}
	d := newDecoder[*sink](t, Options{})
	for _, data := range []string{``, ` `, `null`, `x`, `[]`, `"a"`, `1`, `{}`, `{} x`, `{}}`, `{"kind":1}`,
		`{"kind":null}`, `{"next":{"kind":"a","metadata":{"name":"b"}}}`, `{"status":{}}`} {
		checkSame(t, d, []byte(data))
	}
}

// genSpec draws a value of spec: mostly one that its fields can hold, sometimes not.
func genSpec(t *rapid.T, depth int) string {
	names := []string{"str", "named", "strP", "flag", "flagP", "i8", "i64P", "u16", "f32", "f64", "bytes", "any", "number",
		"time", "qty", "qtyP", "intStr",
		"ext", "fields", "strs", "labels", "structs", "ptrs", "deep", "array", "m", "mb", "mq", "ms", "msl", "mi", "ma", "pp",
		"sel", "self", "list", "refKind", "refName", "inline", "other"}
	values := []string{`null`, `"a"`, `"é\u00e9"`, `1`, `-2`, `3.5`, `1e2`, `true`, `false`, `"aGk="`,
		`"2024-01-02T03:04:05Z"`, `"100m"`,
		`{}`, `[]`, `["a","b"]`, `1000000000000000000000000`, `10000000000000000000000005`, `["a string of some length","b"]`,
		`{"refKind":"a string of some length"}`, `{"matchLabels":{"a":"some length"}}`, `[1,2,3]`, `[[1],[2,3]]`,
		`{"a":"b","c":"d"}`, `{"1":"b"}`, `{"a":["b"]}`, `{"a":{"refKind":"x","refUID":2}}`, `[{"refName":"x"},{"refUID":1}]`,
		`{"cpu":"1"}`, `[null]`, `{"a":null}`}
	var b strings.Builder
	b.WriteString("{")
	for i := range rapid.IntRange(0, 5).Draw(t, "members") {
		if i > 0 {
			b.WriteString(",")
		}
		name := rapid.SampledFrom(names).Draw(t, "name")
		fmt.Fprintf(&b, "%q:", name)
		switch {
		case depth > 0 && name == "self":
			fmt.Fprintf(&b, `{"k":%s}`, genSpec(t, depth-1))
		case depth > 0 && name == "list":
			fmt.Fprintf(&b, `[%s,%s]`, genSpec(t, depth-1), genSpec(t, depth-1))
		default:
			b.WriteString(rapid.SampledFrom(values).Draw(t, "value"))
		}
	}
	b.WriteString("}")
	return b.String()
}

func TestSameAsApimachineryDrawn(t *testing.T) {
	decoders := []*Decoder{newDecoder[*sink](t, Options{}), newDecoder[*sink](t, Options{Share: true})}
	rapid.Check(t, func(t *rapid.T) {
		data := `{"metadata":{"name":"a"},"spec":` + genSpec(t, 2)
		if rapid.Bool().Draw(t, "twice") {
			data += `,"spec":` + genSpec(t, 2)
		}
		for _, d := range decoders {
			// Values that come again are kept.
			for range 3 {
				checkSame(t, d, []byte(data+`}`))
			}
		}
	})
}

func TestUnstructured(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{})
	for _, spec := range specs {
		data := []byte(`{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a"},"spec":` + spec + `}`)
		checkSameAs[unstructured.Unstructured](t, d, data)
	}
}

func FuzzJSON(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	for _, spec := range specs {
		f.Add([]byte(`{"metadata":{"name":"a"},"spec":` + spec + `}`))
	}
	// A decoder guesses from what it has read. So it reads something of every sort first, and then
	// the data.
	before := []byte(`{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"},"creationTimestamp":"2024-01-02T03:04:05Z"},"spec":{"str":"a",` +
		`"named":"b","strP":"x","flag":true,"i32":12,"i64P":5,"qty":"100m","ext":{"a":1,"b":"some more bytes"},"fields":{"f:metadata":{"f:labels":{}}},"strs":["a","b"],` +
		`"structs":[{"refKind":"a","refUID":1},{"refKind":"b"},{"refKind":"a"}],"ptrs":[{"refKind":"a"}],"m":{"k":"v","l":"w"},"mq":{"cpu":"1"},"list":[{"str":"a"},{"strs":["z"]}]}}`)
	f.Add(before)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, share := range []bool{false, true} {
			d := newDecoder[*sink](t, Options{Share: share})
			for _, data := range [][]byte{before, before, before, data, data, before, data} {
				checkSame(t, d, data)
			}
			checkSame(t, d, before)
		}
	})
}

func TestPodsSameAsApimachinery(t *testing.T) {
	for _, opts := range []Options{{}, {Share: true}} {
		d := newDecoder[*pod](t, opts)
		i := 0
		err := d.Watch(bytes.NewReader(podFrames(500)), JSON, func(e Event) error {
			want := &pod{}
			ok(t, unmarshal(podJSON(i), want))
			want.TypeMeta = metav1.TypeMeta{}
			wantJSON, gotJSON := mustJSON(t, want), mustJSON(t, e.Object.Value)
			if e.Object.Err != nil || !bytes.Equal(wantJSON, gotJSON) {
				t.Fatalf("share %v, pod %d: %v\n got %s\nwant %s", opts.Share, i, e.Object.Err, gotJSON, wantJSON)
			}
			i++
			return nil
		})
		if err != nil || i != 500 {
			t.Fatalf("share %v: %d events, error %v", opts.Share, i, err)
		}
	}
}

// An error says which sort of value came.
func TestWrongTypes(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for value, want := range map[string]string{
		`{}`: "an object", `[]`: "an array", `"a"`: "a string", `true`: "a boolean", `false`: "a boolean", `1`: "a number",
	} {
		for _, field := range []string{"i8", "str", "flag", "strs", "m"} {
			_, err := decodeOne(d, []byte(`{"spec":{"`+field+`":`+value+`}}`))
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: %v, want %q", field, value, err, want)
			}
		}
		if _, err := decodeOne(d, []byte(`{"spec":`+value+`}`)); (err == nil) != (value == "{}") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("spec: %s: %v, want %q", value, err, want)
		}
	}
}

// fieldRules has fields among which encoding/json chooses because they have one name, or which it
// leaves out.
type fieldRules struct {
	Left
	*Right
	deeper
	Twice1
	Twice2
	Tagged  string `json:"tagged"`
	Untaggd string
	Bad     string `json:"bad\"name"`
	Good    string `json:"good name/$"`
	Hidden  string `json:"-"`
	//lint:ignore U1000 The decoder must not see it.
	hidden  string
	Quoted  **int          `json:"quoted,string"`
	QuotedP *int           `json:"quotedP,string,omitempty"`
	QuotedM map[string]int `json:"quotedM,string"`
	Num
	Iface
}

type (
	Left struct {
		Same, OnlyLeft string
		Tag            string `json:"Chosen"`
	}
	Right struct {
		Same, OnlyRight string
		Chosen          string
	}
	deeper struct {
		Left
		Last
		Deep     string
		OnlyLeft string
	}
	Last   struct{ InLast string }
	Twice1 struct{ Shared }
	Twice2 struct{ Shared }
	Shared struct{ InShared string }
	Num    int
	Iface  interface{ F() }
)

func TestFieldRules(t *testing.T) {
	d := newDecoder[*fieldRules](t, Options{})
	for _, name := range []string{
		"Same", "OnlyLeft", "OnlyRight", "Chosen", "Tag", "Deep", "InLast", "Last", "InShared", "Shared", "Left", "Right",
		"deeper", "Tagged", "tagged", "Untaggd", "Bad", "bad\\\"name", "Good", "good name/$",
		"Hidden", "hidden", "-", "Quoted", "quoted", "quotedP", "quotedM", "Num", "Iface",
	} {
		for _, value := range []string{`"1"`, `1`, `null`, `{"a":1}`, `{"InShared":"x","Same":"y"}`} {
			checkSameAs[fieldRules](t, d, []byte(`{"`+name+`":`+value+`,"Untaggd":"behind"}`))
		}
	}
}

// quotedAll has a field of each type for which the option "string" holds, and some others.
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
	UP   uintptr  `json:"up,string"`
	F32  float32  `json:"f32,string"`
	F64  float64  `json:"f64,string"`
	S    string   `json:"s,string"`
	P    *int32   `json:"p,string"`
	PP   **int32  `json:"pp,string"`
	List []int32  `json:"list,string"`
	Any  any      `json:"any,string"`
	St   struct{} `json:"st,string"`
}

// outer has fields that are promoted from structs behind pointers.
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

func TestQuotedFields(t *testing.T) {
	for _, name := range []string{"b", "i", "i8", "i16", "i32", "i64", "u", "u8", "u16", "u32", "u64", "f32", "f64", "s",
		"p", "list", "any", "st"} {
		for _, value := range []string{`"1"`, `1`, `"true"`, `true`, `"x"`, `"\"x\""`, `null`, `"null"`, `""`, `"300"`,
			`"-1"`, `[1]`, `"[1]"`, `{}`} {
			checkSameAs[quotedAll](t, newDecoder[*quotedAll](t, Options{}), []byte(`{"metadata":{"name":"a"},"`+name+`":`+
				value+`}`))
		}
	}
}

func TestEmbeddedPointers(t *testing.T) {
	for _, members := range []string{
		`"between":1`, `"refKind":"k"`, `"refName":"n","between":2,"refUID":3`, `"refKind":null`, `"between":null`,
		`"secret":"s"`, `"secret":null`, `"other":1`, `"between":1,"secret":"s"`,
	} {
		checkSameAs[outer](t, newDecoder[*outer](t, Options{}), []byte(`{"metadata":{"name":"a"},`+members+`}`))
	}
}
