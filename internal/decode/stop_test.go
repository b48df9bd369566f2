package decode

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// A decoding that is stopped ends soon, whatever the object is made of. The error is not the
// object's.
func TestStopWhen(t *testing.T) {
	const n = 20 * tickEvery
	list := func(item string) []byte { return []byte(`{"kind":"SinkList","items":[` + item + `]}`) }
	spec := func(spec string) []byte { return list(`{"metadata":{"name":"a"},"spec":` + spec + `}`) }
	many := func(one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	big := newCarp(1)
	for i := range n {
		big.Finalizers = append(big.Finalizers, "x")
		big.Labels[fmt.Sprint(i)] = "y"
	}
	sinks, carps := reflect.TypeFor[*sink](), reflect.TypeFor[*carp.Carp]()
	labels := &carp.Carp{ObjectMeta: metav1.ObjectMeta{Labels: big.Labels}}
	finalizers := &carp.Carp{ObjectMeta: metav1.ObjectMeta{Finalizers: big.Finalizers}}
	whole := func(c *carp.Carp) []byte {
		return protobufOf(t, &carp.CarpList{TypeMeta: metav1.TypeMeta{Kind: "CarpList", APIVersion: carpGV.String()}, Items: []carp.Carp{*c}})
	}
	var keys strings.Builder
	for i := range n {
		fmt.Fprintf(&keys, `"%d":"x",`, i)
	}
	pairs := strings.TrimSuffix(keys.String(), ",")
	for name, tt := range map[string]struct {
		typ  reflect.Type
		data []byte
	}{
		"elements": {sinks, spec(`{"deep":[[` + many("1") + `]]}`)}, "strings": {sinks, spec(`{"strs":[` + many(`"x"`) + `]}`)}, "structs": {sinks, spec(`{"structs":[` + many("{}") + `]}`)},
		"a map of strings": {sinks, spec(`{"m":{` + pairs + `}}`)}, "a map": {sinks, spec(`{"mb":{` + strings.ReplaceAll(pairs, `"x"`, `"eHg="`) + `}}`)}, "anything": {sinks, spec(`{"any":[` + many("1") + `]}`)},
		"members of anything": {sinks, spec(`{"any":{` + pairs + `}}`)}, "what is not wanted": {sinks, spec(`{"unknown":[` + many("[]") + `]}`)},
		"untyped":                 {reflect.TypeFor[*unstructured.Unstructured](), list(`{"kind":"Sink","x":[` + many("1") + `]}`)},
		"after what does not fit": {sinks, spec(`{"i8":300,"any":[` + many("1") + `],"unknown":[` + many("[]") + `]}`)},
		"fields":                  {carps, whole(finalizers)}, "entries": {carps, whole(labels)},
		"messages": {reflect.TypeFor[*nest](), append(enveloped(t, "NestList", uint64(n*4+4)), fieldOfBytes(2, bytes.Repeat([]byte{3<<3 | wireBytes, 2, 1<<3 | wireBytes, 0}, n))...)},
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
			if _, err := d.List(bytes.NewReader(tt.data), enc, func(Object) error { yielded++; return nil }); err != nil || yielded != 1 {
				t.Errorf("%s, %+v: %d objects when it may go on, error %v", name, opts, yielded, err)
			}
		}
	}
}

// A value that may be shared is parsed once more than others, but not again at each level around
// it. The lines of an event that comes in small pieces are parsed a few times each. So the work
// grows with the bytes, not with their square.
func TestLooksAreLinear(t *testing.T) {
	nest := func(levels int) []byte {
		return []byte(strings.Repeat(`{"next":{"spec":{"strs":["a","b"]},"x":`, levels) + "1" + strings.Repeat("}}", levels))
	}
	deeper := func(levels int) []byte {
		return []byte(strings.Repeat(`{"spec":{"self":{"a":{"list":[{"ptrs":[{}]}]}}},"next":`, levels) + "{}" + strings.Repeat("}", levels))
	}
	lines := func(n int) []byte {
		return []byte(`{"type":"ADDED","object":{"kind":"Sink","metadata":{},"x":[` + strings.Repeat("\n[],", n) + "\n[]]}}\n")
	}
	ticks := func(d *Decoder, read func(*Decoder) error) uint64 {
		if err := read(d); err != nil {
			t.Error(err)
		}
		return d.p.ticks
	}
	for how, read := range map[string]func(n int) uint64{
		"unknown members": func(n int) uint64 {
			return ticks(newDecoder[*sink](t, Options{Share: true}), func(d *Decoder) error { _, err := decodeOne(d, nest(n)); return err })
		},
		"values": func(n int) uint64 {
			return ticks(newDecoder[*sink](t, Options{Share: true}), func(d *Decoder) error { _, err := decodeOne(d, deeper(n)); return err })
		},
		"lines": func(n int) uint64 {
			return ticks(newDecoder[*sink](t, Options{}), func(d *Decoder) error {
				return d.Watch(iotest.OneByteReader(bytes.NewReader(lines(n))), JSON, func(Event) error { return nil })
			})
		},
	} {
		if few, many := read(1000), read(4000); many > 6*few {
			t.Errorf("%s: %d brackets are looked at, and %d of a fourth of it", how, many, few)
		}
	}
}
