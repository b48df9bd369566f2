package decode

import (
	"errors"
	"strings"
	"testing"
)

// Strings and numbers at the edges of their rules are decoded or refused as apimachinery does it.
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
	// What is cut off, or has a comma too many.
	for _, value := range []string{`"flag":tru`, `"flag":truer`, `"flag":fals`, `"flag":falsey`, `"flag":nul`, `"m":{"a":"b",}`, `"mq":{"a":"x!"}`, `"mq":{"a":"1","b":[]}`, `"mq":{"a":"1",}`, `"mq":{"a":"1",,}`, `"mq":{,}`, `"ma":{"a":1,}`, `"strs":["a",]`} {
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

// A syntax error has the offset of the wrong byte.
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
