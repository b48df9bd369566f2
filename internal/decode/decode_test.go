package decode

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// An error of yield ends a list and a watch, and is returned as it is.
func TestYieldEnds(t *testing.T) {
	stop := errors.New("enough")
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	list := `{"kind":"SinkList","items":[` + manyOf(3, sinkA) + `]}`
	d := newDecoder[*sink](t, Options{})
	for n := range 4 {
		left := n
		yield := func() error {
			if left--; left < 0 {
				return stop
			}
			return nil
		}
		_, listErr := d.List(strings.NewReader(list), JSON, func(Object) error { return yield() })
		left = n
		watchErr := d.Watch(strings.NewReader(event+event+event), JSON, func(Event) error { return yield() })
		for name, err := range map[string]error{"list": listErr, "watch": watchErr} {
			if !errors.Is(err, stop) && n < 3 || err != nil && n == 3 {
				t.Errorf("%s, ended at %d: %v", name, n, err)
			}
		}
	}
}

// TestOne decodes single objects one after another, from memory that is overwritten then.
func TestOne(t *testing.T) {
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a",
		Labels: map[string]string{"k": "v"}}}
	const text = `{"kind":"Thing","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","labels":{"k":"v"}}}`
	wire := string(messageFor(t, "Thing", "v1", want))
	d := newDecoder[*metav1.PartialObjectMetadata](t, Options{})
	for range 2 {
		for enc, data := range map[Encoding][]byte{JSON: []byte(" " + text + "\n"), Protobuf: []byte(wire)} {
			got := d.One(data, enc)
			clear(data)
			if got.Err != nil || got.Ident.Kind != "Thing" || got.Ident.APIVersion != "v1" {
				t.Fatalf("encoding %d: %v, %v", enc, got.Ident, got.Err)
			}
			checkDiff[any](t, fmt.Sprintf("encoding %d", enc), want, got.Value)
		}
		for enc, bad := range map[Encoding][]string{
			JSON:     {"", "{", text + "{}", "null x", `{"metadata":{"name":1}}`},
			Protobuf: {"", text, "k8s\x00\xff", wire[:len(wire)-1]},
		} {
			for _, data := range bad {
				if got := d.One([]byte(data), enc); got.Err == nil || got.Value != nil {
					t.Errorf("%q: %v", data, got)
				}
			}
		}
	}
}

// An item of an unstructured list has the kind that follows from the list, or one of its own.
func TestUnstructuredItems(t *testing.T) {
	const list = `{"kind":"FishList","apiVersion":"v1","items":[
		{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"5"}}, {"kind":"Fish","apiVersion":"v2","metadata":{"name":"b"}},
		{"kind":"Fish","metadata":{"name":"c"}}, {"apiVersion":"v3","metadata":{"name":"d"}}, {"n":12345678901,"f":1.5,"big":12345678901234567890,"small":7}]}`
	d := newDecoder[*unstructured.Unstructured](t, Options{})
	var got []string
	var last map[string]any
	_, err := d.List(strings.NewReader(list), JSON, func(o Object) error {
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
	})
	ok(t, err)
	want := []string{
		`a Fish of v1 says "Fish" a`, `a Fish of v2 says "Fish" b`, `a Fish of  says "Fish" c`,
		`a  of v3 d: the object has no kind`, `a Fish of v1 says "Fish" `,
	}
	checkDiff(t, "items", want, got)
	numbers := map[string]any{"kind": "Fish", "apiVersion": "v1", "n": int64(12345678901), "f": 1.5,
		"big": 12345678901234567890.0, "small": int64(7)}
	checkDiff(t, "numbers", numbers, last)
}

func TestProtobufIsCompiled(t *testing.T) {
	for _, d := range []*Decoder{newDecoder[*carp.Carp](t, Options{}), newDecoder[*metav1.PartialObjectMetadata](t,
		Options{}), newDecoder[*metav1.Status](t, Options{})} {
		if err := d.root.compileMessage(); err != nil || d.root.message == nil {
			t.Errorf("%v is not compiled: %v", d.root.typ, err)
		}
	}
}

func TestOnlyOneEncodingIsCompiled(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{})
	if o := messageOf(d, mustMarshal(t, newCarp(1))); o.Err != nil || d.root.json != nil || d.root.message == nil {
		t.Errorf("error %v; JSON is compiled: %v, protobuf: %v", o.Err, d.root.json != nil, d.root.message != nil)
	}
	d = newDecoder[*carp.Carp](t, Options{})
	if _, err := decodeOne(d, []byte(`{"metadata":{"name":"a"}}`)); err != nil || d.root.json == nil ||
		d.root.messageCompiled {
		t.Errorf("error %v; JSON is compiled: %v, protobuf: %v", err, d.root.json != nil, d.root.messageCompiled)
	}
}

// A body that is a whole Status is one, in each encoding.
func TestWholeStatus(t *testing.T) {
	whole := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
		Message: "m", Code: 409}
	wire, other, cbor := string(messageFor(t, "Status", "v1", whole)), string(messageFor(t, "Pod", "v1", whole)),
		string(mustCBOR(t, whole))
	for enc, bodies := range map[Encoding]map[string]bool{
		JSON: {`{"kind":"Status","status":"Failure","message":"m","code":409}`: true,
			`{"kind":"Pod","message":"m"}`: false, `{"kind":"Status"`: false, `[]`: false},
		Protobuf: {wire: true, other: false, wire[:len(wire)-3]: false, wire[:3]: false, "k9s" + wire[3:]: false},
		CBOR: {cbor: true, cbor[:len(cbor)-3]: false, cbor[:3]: false, string(cborOfJSON(t, `{"kind":"Pod"}`)): false,
			"\xf7": false, "<html>": false, "": false},
	} {
		for data, want := range bodies {
			if s, ok := Status([]byte(data), enc); ok != want || ok && (s.Message != "m" || s.Code != 409) {
				t.Errorf("encoding %d, %q: %+v, %v", enc, data, s, ok)
			}
		}
	}
}

// A decoding that is stopped ends soon, in any object. The error is not the object's.
func TestStopWhen(t *testing.T) {
	const n = 20 * tickEvery
	list := func(item string) []byte { return []byte(`{"kind":"SinkList","items":[` + item + `]}`) }
	spec := func(spec string) []byte { return list(`{"metadata":{"name":"a"},"spec":` + spec + `}`) }
	many := func(one string) string { return manyOf(n, one) }
	finalizers, labels := slices.Repeat([]string{"x"}, n), map[string]string{}
	for i := range n {
		labels[fmt.Sprint(i)] = "y"
	}
	sinks, fish := reflect.TypeFor[*sink](), reflect.TypeFor[*carp.Carp]()
	whole := func(meta metav1.ObjectMeta) []byte {
		return protobufOf(t, &carp.CarpList{TypeMeta: carps(0).TypeMeta, Items: []carp.Carp{{ObjectMeta: meta}}})
	}
	pairs := membersOf(n, `"x"`)
	for name, tt := range map[string]struct {
		typ  reflect.Type
		data []byte
	}{
		"elements": {sinks, spec(`{"deep":[[` + many("1") + `]]}`)}, "strings": {sinks,
			spec(`{"strs":[` + many(`"x"`) + `]}`)}, "structs": {sinks, spec(`{"structs":[` + many("{}") + `]}`)},
		"a map of strings":    {sinks, spec(`{"m":{` + pairs + `}}`)},
		"a map":               {sinks, spec(`{"mb":{` + strings.ReplaceAll(pairs, `"x"`, `"eHg="`) + `}}`)},
		"anything":            {sinks, spec(`{"any":[` + many("1") + `]}`)},
		"members of anything": {sinks, spec(`{"any":{` + pairs + `}}`)},
		"what is not wanted":  {sinks, spec(`{"unknown":[` + many("[]") + `]}`)},
		"untyped": {reflect.TypeFor[*unstructured.Unstructured](),
			list(`{"kind":"Sink","x":[` + many("1") + `]}`)},
		"after what does not fit": {sinks, spec(`{"i8":300,"any":[` + many("1") + `],"unknown":[` + many("[]") + `]}`)},
		"fields":                  {fish, whole(metav1.ObjectMeta{Finalizers: finalizers})},
		"entries":                 {fish, whole(metav1.ObjectMeta{Labels: labels})},
		"messages": {reflect.TypeFor[*nest](), append(enveloped(t, "NestList", uint64(n*4+4)),
			fieldOfBytes(2, bytes.Repeat([]byte{3<<3 | wireBytes, 2, 1<<3 | wireBytes, 0}, n))...)},
	} {
		enc := JSON
		if bytes.HasPrefix(tt.data, []byte(magic)) {
			enc = Protobuf
		}
		for _, opts := range []Options{{Workers: -1}, {Workers: -1, Share: true}, {Workers: 2}} {
			d := decoderOf(t, tt.typ, opts)
			enough := errors.New("enough")
			var asked int
			d.StopWhen(func() error { asked++; return enough })
			yielded := 0
			_, err := d.List(bytes.NewReader(tt.data), enc, func(Object) error { yielded++; return nil })
			if !errors.Is(err, enough) || yielded > 0 || asked > 6 && opts.Workers < 0 {
				t.Errorf("%s, %+v: error %v, asked %d times, %d objects", name, opts, err, asked, yielded)
			}
			d.StopWhen(nil)
			if _, err := d.List(bytes.NewReader(tt.data), enc, func(Object) error { yielded++; return nil }); err != nil ||
				yielded != 1 {
				t.Errorf("%s, %+v: %d objects when it may go on, error %v", name, opts, yielded, err)
			}
		}
	}
}

// A value that may be shared is parsed once more than others, but not again at each level around
// it. The lines of an event that comes in small pieces are parsed a few times each. So the work
// grows with the bytes, not with their square.
func TestLooksAreLinear(t *testing.T) {
	for how, data := range map[string]func(n int) string{
		"unknown members": func(n int) string {
			return strings.Repeat(`{"next":{"spec":{"strs":["a","b"]},"x":`, n) + "1" + strings.Repeat("}}", n)
		},
		"values": func(n int) string {
			return strings.Repeat(`{"spec":{"self":{"a":{"list":[{"ptrs":[{}]}]}}},"next":`, n) + "{}" + strings.Repeat("}", n)
		},
		"lines": func(n int) string {
			return `{"type":"ADDED","object":{"kind":"Sink","metadata":{},"x":[` + strings.Repeat("\n[],", n) + "\n[]]}}\n"
		},
	} {
		ticks := func(n int) uint64 {
			d := newDecoder[*sink](t, Options{Share: how != "lines"})
			if how == "lines" {
				r := iotest.OneByteReader(strings.NewReader(data(n)))
				ok(t, d.Watch(r, JSON, func(Event) error { return nil }))
			} else {
				mustDecode[*sink](t, d, []byte(data(n)))
			}
			return d.p.ticks
		}
		if few, many := ticks(1000), ticks(4000); many > 6*few {
			t.Errorf("%s: %d brackets are looked at, and %d of a fourth of it", how, many, few)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An error deep in an object costs no more than its bytes. It is short, and its path has both ends.
func TestDeepErrors(t *testing.T) {
	deep := func(levels int, last string) string {
		var b strings.Builder
		for i := range levels {
			fmt.Fprintf(&b, `{"name-%d-%s":`, i, strings.Repeat("x", 200))
		}
		return b.String() + last + strings.Repeat("}", levels)
	}
	const levels = 4000
	for how, tt := range map[string]struct {
		d    *Decoder
		data func(levels int) string
		// The parts that the error must have.
		ends []string
	}{
		"anything": {
			newDecoder[*sink](t, Options{}), func(levels int) string { return `{"spec":{"any":` + deep(levels, "1e400") + `}}` },
			[]string{"spec.any.name-0-", "strconv.ParseFloat: parsing \"1e400\": value out of range"},
		},
		"untyped": {
			newDecoder[*unstructured.Unstructured](t, Options{}), func(levels int) string { return deep(levels, "[0,1e400]") },
			[]string{"name-0-", "value out of range"},
		},
		"a large name": {
			newDecoder[*sink](t, Options{}),
			func(levels int) string { return `{"spec":{"any":{"` + strings.Repeat("é", levels*100) + `":1e400}}}` },
			[]string{"spec.any.éé", "value out of range"},
		},
		"a large value": {
			newDecoder[*sink](t, Options{}),
			func(levels int) string { return `{"spec":{"any":` + strings.Repeat("9", levels*200) + `}}` },
			[]string{"spec.any: at byte ", ellipsis},
		},
		"protobuf": {
			newDecoder[*nest](t, Options{Share: true}),
			func(levels int) string { return string(nested(2*levels, 4, []byte{4<<3 | wireBytes, 9})) },
			[]string{"named.named.", "unexpected EOF"},
		},
	} {
		read := func(levels int) (bytes uint64, err error) {
			data := []byte(tt.data(levels))
			bytes = allocated(func() { _, err = decodeAs(tt.d, how, data) })
			return bytes, err
		}
		few, _ := read(levels / 4)
		many, err := read(levels)
		if _, ok := err.(*FieldError); !ok {
			t.Errorf("%s: %T %.200v", how, err, err)
			continue
		}
		text := err.Error()
		if len(text) > 6<<10 || !strings.HasPrefix(text, tt.ends[0]) || !strings.HasSuffix(text, tt.ends[1]) &&
			!strings.Contains(text, tt.ends[1]) {
			t.Errorf("%s: %d bytes of error: %.300s … %s", how, len(text), text, text[max(0, len(text)-200):])
		}
		if many > 8*few+1<<20 {
			t.Errorf("%s: %d bytes are allocated, and %d for a fourth of it", how, many, few)
		}
	}
}

func TestPath(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a": {"a"}, "spec.containers[0].image": {"spec", "containers", "[0]", "image"}, "[0][1]": {"[0]", "[1]"},
		"[0].a": {"[0]", "a"},
		"a." + strings.Repeat("x", maxName) + ellipsis: {"a", strings.Repeat("x", maxName+1)},
		strings.Repeat("y", maxName):                   {strings.Repeat("y", maxName)},
		strings.Repeat("z", maxName-1) + ellipsis:      {strings.Repeat("z", maxName-1) + "éé"},
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
	if !strings.HasPrefix(path, "0.1.2.3.") || !strings.HasSuffix(path, ".997.998.999") ||
		!strings.Contains(path, "."+ellipsis+".") || len(path) < maxPath*2/3 || len(path) > 2*maxPath {
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

// mostPassed is how many allocations one of many objects that nobody wants may cost.
var mostPassed = 0.2

// What nobody wants is yielded with its version and nothing else; what is wanted is as ever.
func TestPassOver(t *testing.T) {
	const n = 40
	wanted := func(_, name string) bool { return strings.HasSuffix(name, "7") }
	var lines, frames, cbor []byte
	var jsonItems []string
	type seen struct {
		name   string
		passed uint64
	}
	var want []seen
	for i := range n {
		c := newCarp(i)
		object := map[string]any{"kind": "Carp", "apiVersion": "testapigroup.apimachinery.k8s.io/v1",
			"metadata": map[string]any{
				"name": c.Name, "namespace": c.Namespace, "resourceVersion": c.ResourceVersion,
				"labels": map[string]any{"a": "\"}"}}}
		text := mustJSON(t, object)
		jsonItems = append(jsonItems, string(text))
		lines = append(lines, fmt.Sprintf(`{"type":"MODIFIED","object":%s}`+"\n", text)...)
		cbor = append(cbor, cborEvent(t, "MODIFIED", object)...)
		frames = append(frames, frameOf(t, "MODIFIED", protobufOf(t, c))...)
		if wanted("", c.Name) {
			want = append(want, seen{name: c.Name})
		} else {
			want = append(want, seen{passed: uint64(100 + i)})
		}
	}
	list := []byte(`{"kind":"CarpList","apiVersion":"testapigroup.apimachinery.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[` + strings.Join(jsonItems, ",") + `]}`)
	for _, workers := range []int{-1, 2} {
		var got []seen
		note := func(o Object) error {
			s := seen{passed: o.Passed}
			if o.Value != nil {
				s.name = o.Value.(*carp.Carp).Name
			}
			got = append(got, s)
			return o.Err
		}
		watch := func(enc Encoding, data []byte) func(*Decoder) error {
			return func(d *Decoder) error {
				return d.Watch(bytes.NewReader(data), enc, func(e Event) error { return note(e.Object) })
			}
		}
		for name, read := range map[string]func(*Decoder) error{
			"JSON": watch(JSON, lines), "protobuf": watch(Protobuf, frames), "CBOR": watch(CBOR, cbor),
			"initial events": func(d *Decoder) error {
				return d.WatchList(bytes.NewReader(lines), JSON, func(e Event) error { return note(e.Object) })
			},
			"list": func(d *Decoder) error {
				_, err := d.List(bytes.NewReader(list), JSON, note)
				return err
			},
		} {
			d := newDecoder[*carp.Carp](t, Options{Workers: workers})
			d.PassOver(wanted)
			got = nil
			if err := read(d); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			checkDiff(t, fmt.Sprintf("%s, %d workers", name, workers), want, got, cmp.AllowUnexported(seen{}))
			d.PassOver(func(string, string) bool { return false })
			for enc, data := range map[Encoding][]byte{JSON: lines, Protobuf: frames, CBOR: cbor} {
				once := testing.AllocsPerRun(5,
					func() { _ = d.Watch(bytes.NewReader(data), enc, func(Event) error { return nil }) })
				four := testing.AllocsPerRun(5, func() {
					_ = d.Watch(bytes.NewReader(bytes.Repeat(data, 1)), enc, func(Event) error { return nil })
					_ = d.Watch(bytes.NewReader(bytes.Repeat(data, 4)), enc, func(Event) error { return nil })
				})
				if perEvent := (four - 2*once) / (3 * n); perEvent > mostPassed {
					t.Errorf("encoding %d: %.2f allocations for an object that nobody wants", enc, perEvent)
				}
			}
		}
	}
}

// TestPassOverUnclear: an object that does not plainly say who it is is decoded.
func TestPassOverUnclear(t *testing.T) {
	passed := func(text string) (Object, error) {
		d := newDecoder[*sink](t, Options{})
		d.PassOver(func(string, string) bool { return false })
		d.p.reset([]byte(text), 0)
		return d.decodeObject()
	}
	for _, text := range []string{
		`{"metadata":{"name":"a\u0062","resourceVersion":"7"}}`, `{"metadata":{"name":"a"}}`,
		`{"metadata":{"name":"a","resourceVersion":"x"}}`,
		`{"metadata":{"name":7,"resourceVersion":"7"}}`, `{"metadata":null}`, `{}`,
		`{"metadata":{"name":"a","resourceVersion":"07"}}`,
	} {
		if o, err := passed(text); o.Passed != 0 || err != nil {
			t.Errorf("%s: passed over at %d, error %v", text, o.Passed, err)
		}
	}
	if _, err := passed(`{"metadata":{"name":"a","namespace":"b","resourceVersion":"7"},"data":{"x":]}`); !isFatal(err) {
		t.Errorf("what is no JSON was passed over: %v", err)
	}
}
