package decode

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An error deep inside an object costs no more than the object's bytes. It is short, and its path
// has both ends.
func TestDeepErrors(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("name-%d-%s", i, strings.Repeat("x", 200)) }
	deep := func(levels int, last string) []byte {
		var b strings.Builder
		for i := range levels {
			fmt.Fprintf(&b, `{%q:`, name(i))
		}
		return []byte(b.String() + last + strings.Repeat("}", levels))
	}
	const levels = 4000
	for how, tt := range map[string]struct {
		d    *Decoder
		data func(levels int) []byte
		// The parts that the error must have.
		ends []string
	}{
		"anything": {
			newDecoder[*sink](t, Options{}), func(levels int) []byte { return []byte(`{"spec":{"any":` + string(deep(levels, "1e400")) + `}}`) },
			[]string{"spec.any.name-0-", "strconv.ParseFloat: parsing \"1e400\": value out of range"},
		},
		"untyped": {newDecoder[*unstructured.Unstructured](t, Options{}), func(levels int) []byte { return deep(levels, "[0,1e400]") }, []string{"name-0-", "value out of range"}},
		"a large name": {
			newDecoder[*sink](t, Options{}), func(levels int) []byte {
				return []byte(`{"spec":{"any":{"` + strings.Repeat("é", levels*100) + `":1e400}}}`)
			}, []string{"spec.any.éé", "value out of range"},
		},
		"a large value": {
			newDecoder[*sink](t, Options{}), func(levels int) []byte { return []byte(`{"spec":{"any":` + strings.Repeat("9", levels*200) + `}}`) }, []string{"spec.any: at byte ", ellipsis},
		},
		"protobuf": {
			newDecoder[*nest](t, Options{Share: true}), func(levels int) []byte { return nested(2*levels, 4, []byte{4<<3 | wireBytes, 9}) }, []string{"named.named.", "unexpected EOF"},
		},
	} {
		read := func(levels int) (o Object, bytes uint64) {
			data := tt.data(levels)
			bytes = allocated(func() {
				if tt.d.root.typ == reflect.TypeFor[*nest]() {
					o = messageOf(tt.d, data)
				} else if _, err := decodeOne(tt.d, data); err != nil {
					o.Err = err
				}
			})
			return o, bytes
		}
		_, few := read(levels / 4)
		o, many := read(levels)
		if _, ok := o.Err.(*FieldError); !ok {
			t.Errorf("%s: %T %.200v", how, o.Err, o.Err)
			continue
		}
		text := o.Err.Error()
		if len(text) > 6<<10 || !strings.HasPrefix(text, tt.ends[0]) || !strings.HasSuffix(text, tt.ends[1]) && !strings.Contains(text, tt.ends[1]) {
			t.Errorf("%s: %d bytes of error: %.300s … %s", how, len(text), text, text[max(0, len(text)-200):])
		}
		if many > 8*few+1<<20 {
			t.Errorf("%s: %d bytes are allocated, and %d for a fourth of it", how, many, few)
		}
	}
}

func TestPath(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a": {"a"}, "spec.containers[0].image": {"spec", "containers", "[0]", "image"}, "[0][1]": {"[0]", "[1]"}, "[0].a": {"[0]", "a"},
		"a." + strings.Repeat("x", maxName) + ellipsis: {"a", strings.Repeat("x", maxName+1)}, strings.Repeat("y", maxName): {strings.Repeat("y", maxName)},
		strings.Repeat("z", maxName-1) + ellipsis: {strings.Repeat("z", maxName-1) + "éé"},
	} {
		var e error = &FieldError{}
		for i := len(names) - 1; i >= 0; i-- {
			e = in(names[i], e)
		}
		if got := e.(*FieldError).Path(); got != want {
			t.Errorf("%q: %s", names, got)
		}
	}
	// Of a long path both ends are shown, without the middle.
	e := &FieldError{}
	for i := 999; i >= 0; i-- {
		_ = in(fmt.Sprint(i), e)
	}
	path := e.Path()
	if !strings.HasPrefix(path, "0.1.2.3.") || !strings.HasSuffix(path, ".997.998.999") || !strings.Contains(path, "."+ellipsis+".") || len(path) < maxPath*2/3 || len(path) > 2*maxPath {
		t.Errorf("%d bytes: %s", len(path), path)
	}
	// A path that just fits is shown as a whole.
	e = &FieldError{}
	for range 2 * maxPath / maxName / 2 {
		_ = in(strings.Repeat("n", maxName), e)
	}
	if path := e.Path(); strings.Contains(path, ellipsis) || strings.Count(path, "n") != maxPath {
		t.Errorf("%d bytes: %s", len(path), path)
	}
}
