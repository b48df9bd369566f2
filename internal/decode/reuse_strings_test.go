package decode

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// A string is guessed from the one before it in its field. One that has an escape in JSON must not
// be guessed.
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

func TestIntern(t *testing.T) {
	d := newDecoder[*pod](t, Options{})
	a, b := mustDecode[*pod](t, d, podJSON(1)), mustDecode[*pod](t, d, podJSON(2))
	// A slot of the table has one string, so two strings may displace each other by chance.
	shared, all := 0, 0
	for name, value := range a.Labels {
		if all++; sameMemory(value, b.Labels[name]) {
			shared++
		}
	}
	if shared < all/2 {
		t.Errorf("%d of %d equal strings share memory", shared, all)
	}
	long := fmt.Sprintf(`{"metadata":{"name":"%s"}}`, strings.Repeat("x", maxIntern+1))
	if sameMemory(mustDecode[*pod](t, d, []byte(long)).Name, mustDecode[*pod](t, d, []byte(strings.Replace(long, "x", "y", 1))).Name) {
		t.Error("different strings share memory")
	}
}

// No string of an object is a part of the bytes that it was read from: those are overwritten.
func TestNothingAliasesTheInput(t *testing.T) {
	for _, opts := range []Options{{}, {Share: true}} {
		d := newDecoder[*sink](t, opts)
		for _, spec := range specs {
			data := []byte(`{"metadata":{"name":"a"},"spec":` + spec + `}`)
			got, err := decodeOne(d, data)
			if err != nil {
				continue
			}
			want, _ := decodeOne(newDecoder[*sink](t, Options{}), []byte(string(data)))
			for i := range data {
				data[i] = '#'
			}
			clear(d.p.scratch[:cap(d.p.scratch)])
			if !reflect.DeepEqual(want, got) {
				t.Errorf("share %v: %s changed with its input", opts.Share, spec)
			}
		}
	}
}

// sameMemory reports whether two strings are one.
func sameMemory(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }
