package decode

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// mostPassed is how many allocations one of many objects that nobody wants may cost.
var mostPassed = 0.2

// TestPassOver: what nobody wants is yielded with its version and nothing else; what is wanted is
// as ever, in each encoding, in lists and watches, alone and with workers.
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
		object := map[string]any{"kind": "Carp", "apiVersion": "testapigroup.apimachinery.k8s.io/v1", "metadata": map[string]any{
			"name": c.Name, "namespace": c.Namespace, "resourceVersion": c.ResourceVersion, "labels": map[string]any{"a": "\"}"}}}
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
				once := testing.AllocsPerRun(5, func() { _ = d.Watch(bytes.NewReader(data), enc, func(Event) error { return nil }) })
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
		`{"metadata":{"name":"a\u0062","resourceVersion":"7"}}`, `{"metadata":{"name":"a"}}`, `{"metadata":{"name":"a","resourceVersion":"x"}}`,
		`{"metadata":{"name":7,"resourceVersion":"7"}}`, `{"metadata":null}`, `{}`, `{"metadata":{"name":"a","resourceVersion":"07"}}`,
	} {
		if o, err := passed(text); o.Passed != 0 || err != nil {
			t.Errorf("%s: passed over at %d, error %v", text, o.Passed, err)
		}
	}
	if _, err := passed(`{"metadata":{"name":"a","namespace":"b","resourceVersion":"7"},"data":{"x":]}`); !isFatal(err) {
		t.Errorf("what is no JSON was passed over: %v", err)
	}
}
