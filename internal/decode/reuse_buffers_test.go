package decode

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// The memory that a large object needed is given back, because a Decoder lives as long as its
// source.
func TestWorkingMemoryIsGivenBack(t *testing.T) {
	const n = 1 << 17
	many := func(one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	pairs := func(value string) string {
		var b strings.Builder
		for i := range n / 4 {
			fmt.Fprintf(&b, `"%d":%s,`, i, value)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	spec := func(spec string) string {
		return `{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a"},"spec":` + spec + `}`
	}
	big := newCarp(1)
	for range n {
		big.Finalizers = append(big.Finalizers, "some finalizer")
	}
	big.Labels["large"] = strings.Repeat("x", 16*n)
	sinks, carps, untyped := reflect.TypeFor[*sink](), reflect.TypeFor[*carp.Carp](), reflect.TypeFor[*unstructured.Unstructured]()
	for name, tt := range map[string]struct {
		typ  reflect.Type
		data string
		wire *carp.Carp
	}{
		"untyped elements": {untyped, spec(`[` + many("0") + `]`), nil}, "untyped members": {untyped, spec(`{` + pairs("{}") + `}`), nil},
		"strings": {sinks, spec(`{"strs":[` + many(`"a"`) + `]}`), nil}, "structs": {sinks, spec(`{"list":[` + many(`{}`)[:3*n/16-1] + `]}`), nil}, "a map": {sinks, spec(`{"m":{` + pairs(`"a"`) + `}}`), nil},
		"a string": {sinks, spec(`{"str":"` + strings.Repeat("xxxxxxxx", n) + `\n"}`), nil}, "no more than a large one": {sinks, spec(`{"unknown":"` + strings.Repeat("xxxxxxxx", n) + `"}`), nil},
		"structs by the thousand": {sinks, spec(`{"list":[` + many(`{}`)[:3*1000-1] + `],"structs":[` + many(`{}`)[:3*1000-1] + `],"self":{"a":{"list":[` + many(`{}`)[:3*1000-1] + `]}}}`), nil},
		"protobuf":                {carps, "", big},
	} {
		if tt.typ == sinks && !validJSON(tt.data) {
			t.Fatalf("%s: the test's own data is no JSON", name)
		}
		for _, live := range []bool{false, true} {
			d := decoderOf(t, tt.typ, Options{Workers: -1})
			small, large, enc := spec(`{"str":"x\n","strs":["a"],"m":{"a":"b"},"list":[{}]}`), tt.data, JSON
			frame := func(data string) io.Reader { return strings.NewReader(`{"type":"ADDED","object":` + data + "}\n") }
			if tt.wire != nil {
				enc, small, large = Protobuf, string(protobufOf(t, newCarp(1))), string(protobufOf(t, tt.wire))
				frame = func(data string) io.Reader { return bytes.NewReader(frameOf(t, "ADDED", []byte(data))) }
			}
			// after is called when data has been read, and while the next event is awaited if live.
			read := func(data string, after func()) {
				rs := []io.Reader{frame(data)}
				if live {
					// The last event comes together with the start of a small one. Both are in one
					// piece of memory.
					rs = append(rs, frame(small), readFunc(func([]byte) (int, error) { after(); return 0, io.EOF }))
				}
				if err := d.Watch(io.MultiReader(rs...), enc, func(Event) error { return nil }); err != nil {
					t.Error(err)
				}
				if !live {
					after()
				}
			}
			var before uint64
			for range 2 {
				read(small, func() {})
			}
			read(small, func() { before = heapNow() })
			read(large, func() {
				if after := heapNow(); after > before+1<<20 {
					t.Errorf("%s, live %v: %d bytes are kept after an object of %d", name, live, after-before, len(large))
				}
			})
			runtime.KeepAlive(d)
			runtime.KeepAlive(large)
		}
	}
}

// The items behind a large one in a list do not keep its bytes alive.
func TestListBufferIsGivenBack(t *testing.T) {
	large := `{"metadata":{"name":"` + strings.Repeat("x", 4<<20) + `"}}`
	list := `{"kind":"SinkList","items":[` + large + `],"metadata":{"resourceVersion":"1"}}`
	d := newDecoder[*sink](t, Options{Workers: -1})
	if _, err := d.List(strings.NewReader(list), JSON, func(Object) error { return nil }); err != nil || d.p.data != nil || d.buf.data != nil {
		t.Errorf("error %v; %d bytes of the parser and %d of the buffer are kept", err, cap(d.p.data), cap(d.buf.data))
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func validJSON(s string) bool { p := &parser{}; p.reset([]byte(s), 0); return p.wholeValue() == nil }
