package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/decode/prune"
)

// maskKeys are keys that the maps of the tests' objects have, and some that they have not.
var maskKeys = []string{"a", "app", "l0", "l1", "os", "n", "more", "memory", "app.example/label-1",
	"example/config-hash", "pod-template-hash", "x.y/z"}

// A maskedKind is a kind of objects that are decoded with masks.
type maskedKind struct {
	typ   reflect.Type
	forms []string
	// draw draws an object; change changes one for its next version.
	draw   func(t *rapid.T) any
	change func(t *rapid.T, obj any)
}

var maskedKinds = map[string]maskedKind{
	"Carp": {
		typ:    reflect.TypeFor[*carp.Carp](),
		forms:  []string{"JSON", "alphabetical JSON", "protobuf", "CBOR"},
		draw:   func(t *rapid.T) any { return newCarp(rapid.IntRange(0, 1).Draw(t, "carp")) },
		change: func(t *rapid.T, obj any) { changeCarp(t, obj.(*carp.Carp)) },
	},
	"Pod": {
		typ:   reflect.TypeFor[*pod](),
		forms: []string{"JSON", "alphabetical JSON", "CBOR"},
		draw: func(t *rapid.T) any {
			p := &pod{}
			ok(t, unmarshal(podJSON(rapid.IntRange(0, 1).Draw(t, "pod")), p))
			return p
		},
		change: func(t *rapid.T, obj any) {
			p, n := obj.(*pod), rapid.IntRange(0, 2).Draw(t, "value")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				p.Labels = map[string]string{"a": fmt.Sprint(n), "l1": "x"}
			case 1:
				p.Spec.Containers = p.Spec.Containers[:min(n, len(p.Spec.Containers))]
			case 2:
				p.Spec.NodeName = fmt.Sprint(n)
			case 3:
				p.Status.Conditions = p.Status.Conditions[:min(n, len(p.Status.Conditions))]
			case 4:
				p.Spec.NodeSelector = nil
			case 5:
				p.Annotations = map[string]string{}
			case 6:
				p.Status.PodIPs = append(p.Status.PodIPs, p.Status.PodIPs...)
			}
		},
	},
	"Mixed": {
		typ:    reflect.TypeFor[*mixed](),
		forms:  []string{"JSON", "CBOR"},
		draw:   func(t *rapid.T) any { return drawMixed(t) },
		change: func(t *rapid.T, obj any) { obj.(*mixed).Spec = drawSpec(t, 1) },
	},
	"Odd": {
		typ:   reflect.TypeFor[*odd](),
		forms: []string{"JSON", "alphabetical JSON", "CBOR"},
		draw: func(t *rapid.T) any {
			o := &odd{Spec: drawOdd(t, 2)}
			o.Kind, o.APIVersion, o.Name, o.ResourceVersion = "Odd", "odd.example/v1", "a", "5"
			return o
		},
		change: func(t *rapid.T, obj any) { obj.(*odd).Spec = drawOdd(t, 2) },
	},
}

func encoded(t fataler, form string, obj any) []byte {
	t.Helper()
	if form == "CBOR" {
		return mustCBOR(t, obj)
	}
	return carpForms[form](t, obj)
}

// An odd has embedded structs, by value and by pointers, and pointers within lists and maps.
type odd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OddSpec `json:"spec"`
}

func (o *odd) DeepCopyObject() runtime.Object { c := *o; return &c }

type OddSpec struct {
	*OddPaint `json:",inline"`
	*OddWheel
	oddFrame
	Length int                 `json:"length,omitempty"`
	Coats  int                 `json:"coats,omitempty"` // hides that of the paint
	Parts  []*OddPart          `json:"parts,omitempty"`
	ByName map[string]*OddPart `json:"byName,omitempty"`
	Next   *OddSpec            `json:"next,omitempty"`
}

type OddPaint struct {
	Colour string            `json:"colour,omitempty"`
	Coats  int               `json:"coats,omitempty"`
	Mixed  map[string]string `json:"mixed,omitempty"`
}

type OddWheel struct {
	*OddTyre
	Spokes *int `json:"spokes"`
}

type OddTyre struct {
	Width  int       `json:"width,omitempty"`
	Inner  *OddPaint `json:"inner,omitempty"`
	Thread []string  `json:"thread,omitempty"`
}

type oddFrame struct {
	Steel bool     `json:"steel,omitempty"`
	Tubes []string `json:"tubes"`
}

type OddPart struct {
	*OddPaint
	Size int `json:"size,omitempty"`
}

// drawOdd draws the spec of an odd, with others in it as deep.
func drawOdd(t *rapid.T, depth int) OddSpec {
	some := func(what string) bool { return rapid.Bool().Draw(t, what) }
	paint := func() *OddPaint {
		p := &OddPaint{Coats: rapid.IntRange(0, 2).Draw(t, "coats")}
		if some("colour") {
			p.Colour = "red"
		}
		if some("mixed") {
			p.Mixed = map[string]string{"a": "x", "more": "y"}
		}
		if some("paint") {
			return p
		}
		return nil
	}
	var s OddSpec
	s.OddPaint, s.Length = paint(), rapid.IntRange(0, 1).Draw(t, "length")
	if some("wheel") {
		s.OddWheel = &OddWheel{}
		if some("spokes") {
			s.Spokes = new(int)
		}
		if some("tyre") {
			s.OddTyre = &OddTyre{Width: rapid.IntRange(0, 1).Draw(t, "width"), Inner: paint()}
		}
	}
	if s.Steel = some("steel"); s.Steel {
		s.Tubes = []string{"a", ""}
	}
	if s.Coats = 0; some("hidden") {
		s.Coats = 3
	}
	for range rapid.IntRange(0, 2).Draw(t, "parts") {
		s.Parts = append(s.Parts, nil, &OddPart{OddPaint: paint(), Size: rapid.IntRange(0, 1).Draw(t, "size")})
	}
	if some("by name") {
		s.ByName = map[string]*OddPart{"a": {OddPaint: paint()}, "app": nil}
	}
	if depth > 0 && some("next") {
		next := drawOdd(t, depth-1)
		s.Next = &next
	}
	return s
}

// streamsOf returns an event and a list of the object that is data in the given form.
func streamsOf(t fataler, kind, form string, data []byte) (event, list []byte, enc Encoding) {
	switch form {
	case "protobuf":
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: carpGV.String(), Kind: "Carp"}, Raw: data}
		raw := mustMarshal(t, &u)
		l := mustMarshal(t, &metav1.List{Items: []runtime.RawExtension{}})
		// Field 2 of a list's message is an item.
		l = append(binary.AppendUvarint(append(l, bytesTag(2)...), uint64(len(data))), data...)
		return frameOf(t, "ADDED", append([]byte("k8s\x00"), raw...)),
			append([]byte("k8s\x00"), mustMarshal(t, &runtime.Unknown{
				TypeMeta: runtime.TypeMeta{APIVersion: carpGV.String(), Kind: "CarpList"}, Raw: l})...), Protobuf
	case "CBOR":
		const head = "\xd9\xd9\xf7\xa3\x44kind%c%sList\x48metadata\xa1\x48continue\x41c\x45items\x81%s"
		list = fmt.Appendf(nil, head, 0x44+len(kind), kind, data[3:])
		return []byte("\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object" + string(data)), list, CBOR
	}
	event = fmt.Appendf(nil, "{\"type\":\"ADDED\",\"object\":%s}\n", data)
	return event, fmt.Appendf(nil, `{"kind":"%sList","metadata":{"continue":"c"},"items":[%s]}`, kind, data), JSON
}

func readOne(t fataler, d *Decoder, kind, form string, data []byte, listing bool) any {
	event, list, enc := streamsOf(t, kind, form, data)
	var got any
	keep := func(o Object) error {
		got = o.Value
		return o.Err
	}
	var err error
	if listing {
		_, err = d.List(bytes.NewReader(list), enc, keep)
	} else {
		err = d.Watch(bytes.NewReader(event), enc, func(e Event) error { return keep(e.Object) })
	}
	if err != nil {
		t.Fatalf("%s: %v: %q", form, err, data)
	}
	return got
}

// What is decoded with Only and Drop is what is left of the whole object: in every encoding, typed
// and not, from lists, from events, and from events of an object that has a version before.
func TestMaskEqualsPrune(t *testing.T) {
	for name, kind := range maskedKinds {
		for _, typ := range []reflect.Type{kind.typ, reflect.TypeFor[*unstructured.Unstructured]()} {
			t.Run(name+"/"+typ.Elem().Name(), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "mask"), 1))
					opts := Options{Share: rapid.Bool().Draw(t, "share"), Workers: -1}
					opts.Only = prune.Random(rng, kind.typ, maskKeys...)
					if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
						for _, path := range prune.Random(rng, kind.typ, maskKeys...) {
							if path != "metadata" && path != "kind" && path != "apiVersion" && !strings.HasPrefix(path, "metadata.n") &&
								!strings.HasSuffix(path, "?") && !strings.HasSuffix(path, "*") {
								opts.Drop = append(opts.Drop, path)
							}
						}
					}
					if rapid.IntRange(0, 9).Draw(t, "all") == 0 {
						opts.Only = nil
					}
					var last, was any
					masked := decoderOf(t, typ, opts)
					masked.ReuseFrom(func(string, string) any { return last })
					whole := decoderOf(t, typ, Options{Workers: -1})
					obj := kind.draw(t)
					for range rapid.IntRange(1, 5).Draw(t, "versions") {
						form := rapid.SampledFrom(kind.forms).Draw(t, "form")
						if form == "protobuf" && (typ != kind.typ || !masked.Protobuf()) {
							form = "JSON"
						}
						listing := rapid.Bool().Draw(t, "listing")
						data := encoded(t, form, obj)
						want := readOne(t, whole, name, form, data, listing)
						prune.Object(want, opts.Drop, opts.Only)
						got := readOne(t, masked, name, form, data, listing)
						if !reflect.DeepEqual(want, got) {
							t.Fatalf("%s, only %q, drop %q, listing %v (-want +got):\n%s\nof %q", form, opts.Only, opts.Drop, listing,
								cmp.Diff(want, got, sameJSON), data)
						}
						if !reflect.DeepEqual(was, last) {
							t.Fatalf("the version before was changed (-was +is):\n%s", cmp.Diff(was, last, sameJSON))
						}
						last, was = got, want
						if rapid.Bool().Draw(t, "change") {
							obj.(metav1.Object).SetResourceVersion(fmt.Sprint(rapid.IntRange(1000, 9999).Draw(t, "version")))
							kind.change(t, obj)
						}
					}
				})
			})
		}
	}
}
