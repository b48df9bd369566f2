package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"

	"github.com/go-lw/lw/internal/verify/leak"
)

func cborOfJSON(t fataler, object string) []byte {
	t.Helper()
	var v any
	ok(t, unmarshal([]byte(object), &v))
	return mustCBOR(t, v)
}

// members returns a map of these members, of which each is a name and a value in CBOR.
func members(t fataler, pairs ...any) []byte {
	t.Helper()
	b := []byte{cborMap<<5 | byte(len(pairs)/2)}
	for i := 0; i < len(pairs); i += 2 {
		b = append(b, mustCBOR(t, pairs[i])[3:]...)
		b = append(b, pairs[i+1].([]byte)...)
	}
	return b
}

func array(items ...[]byte) []byte {
	return append([]byte{cborArray<<5 | byte(len(items))}, bytes.Join(items, nil)...)
}

// A list that is cut off is an error, never a shorter list.
func TestCBORListCut(t *testing.T) {
	item := cborOfJSON(t, `{"metadata":{"name":"a"}}`)
	open := slices.Concat([]byte{0xbf, 0x44}, []byte("kind\x48CarpList\x45items\x9f"), item, item,
		[]byte{cborBreak, cborBreak})
	for _, whole := range [][]byte{carpCBOR(t, 3), open} {
		d := newDecoder[*carp.Carp](t, Options{})
		for n := range len(whole) + 1 {
			_, err := d.List(bytes.NewReader(whole[:n]), CBOR, func(Object) error { return nil })
			cut := errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(), fmt.Sprintf("cut off at byte %d", n))
			if n < len(whole) && !cut || n == len(whole) && err != nil {
				t.Errorf("cut at byte %d of %d: %v", n, len(whole), err)
			}
		}
	}
}

// What a list is does not depend on the order and the form of its members.
func TestCBORListForms(t *testing.T) {
	kind, version := cborOfJSON(t, `"SinkList"`), cborOfJSON(t, `"v1"`)
	meta, item := cborOfJSON(t, `{"resourceVersion":"5"}`), cborOfJSON(t, sinkA)
	null := []byte{0xf6}
	indefinite := func(open byte, b []byte) []byte { return append(append([]byte{open}, b[1:]...), cborBreak) }
	status := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Expired","code":410}`
	other := members(t, "kind", cborOfJSON(t, `"PodList"`), "items", array(cborOfJSON(t, `{"metadata":{"name":"a"}}`)))
	for name, tt := range map[string]struct {
		data  []byte
		items int
		err   string
	}{
		"kind first": {members(t, "kind", kind, "apiVersion", version, "metadata", meta, "items", array(item, item)),
			2, ""},
		"kind last": {members(t, "items", array(item, item), "metadata", meta, "kind", kind), 2, ""},
		"indefinite": {indefinite(0xbf, members(t, "items", indefinite(0x9f, array(item, item)), "metadata", meta,
			"kind", kind)), 2, ""},
		"marked twice": {append([]byte{0xd9, 0xd9, 0xf7, 0xd9, 0xd9, 0xf7}, members(t, "kind", kind, "items",
			append([]byte{0xd9, 0xd9, 0xf7}, array(item)...), "metadata", meta)...), 1, ""},
		"null items": {members(t, "kind", kind, "items", null, "metadata", meta), 0, ""},
		"no items":   {members(t, "kind", kind, "items", array(), "metadata", meta), 0, ""},
		"unknown members": {members(t, "more", array(null, item), "kind", kind, "items", array(item), "metadata",
			meta), 1, ""},
		"without items":     {members(t, "kind", kind, "metadata", meta), 0, ""},
		"without a List":    {members(t, "kind", cborOfJSON(t, `"Sinks"`), "metadata", meta), 0, "no list: it is a Sinks"},
		"without a kind":    {members(t, "items", array()), 0, "no list: it has no kind"},
		"of items with one": {members(t, "items", array(item), "metadata", meta), 1, ""},
		"of another name":   {members(t, "kind", cborOfJSON(t, `"Sinks"`), "items", array(item), "metadata", meta), 1, ""},
		"of a custom group": {members(t, "items", array(), "metadata", meta, "kind", cborOfJSON(t, `"Sinks"`), "apiVersion",
			cborOfJSON(t, `"sinks.example/v1"`)), 0, ""},
		"empty": {members(t), 0, "no list: it has no kind"},
		"items twice": {members(t, "kind", kind, "items", array(item), "items", array(item)), 1,
			"a list with two items"},
		"items of a number": {members(t, "kind", kind, "items", []byte{1}), 0, "invalid CBOR at byte 24: the items begins"},
		"another kind":      {other, 1, ""},
		"another kind first": {members(t, "kind", cborOfJSON(t, `"PodList"`), "items", array(members(t, "a", null))), 0,
			"want a list of Sink"},
		"one object": {item, 0, "no list: it is a Sink"},
		"a Status":   {cborOfJSON(t, status), 0, "no"},
		"more behind": {append(members(t, "kind", kind, "items", array()), 0), 0,
			"invalid CBOR at byte 25: 0x00 after the end of the list"},
		"JSON":            {[]byte(`{"kind":"SinkList","items":[]}`), 0, `invalid CBOR at byte 0: a list begins with '{'`},
		"HTML":            {[]byte(`<html>`), 0, `invalid CBOR at byte 0: a list begins with '<'`},
		"a bad kind":      {members(t, "kind", []byte{1}, "items", array()), 0, "cannot unmarshal number"},
		"an invalid kind": {members(t, "kind", []byte{0xf7}, "items", array()), 0, "kind: at byte 7: CBOR: undefined"},
		"a malformed member": {members(t, "kind", kind, "metadata", []byte{0x1c}), 0,
			"invalid CBOR at byte 27: no item begins with 0x1c"},
		"a malformed item": {members(t, "kind", kind, "items", array(item, members(t, "a", []byte{0x1c}))), 1,
			"invalid CBOR at byte "},
		"a stray break": {members(t, "kind", kind, "items", append(array(item, item)[:1:1], 0xff)), 0,
			"a break that ends nothing"},
		"nothing": {nil, 0, "cut off at byte 0"},
	} {
		d := newDecoder[*sink](t, Options{})
		helpers := workersOf(t, d)
		got := checkPieces(t, d, helpers, tt.data, CBOR, readList)
		if name == "another kind" {
			tt.err, tt.items = "want a list of Sink", 0
		}
		if (tt.err == "") != (got.end == "<nil>") || !strings.Contains(got.end, tt.err) || len(got.objects) != tt.items {
			t.Errorf("%s: %d objects, %s, want %d, %q", name, len(got.objects), got.end, tt.items, tt.err)
		}
		if tt.err == "" && got.meta.ResourceVersion != "5" {
			t.Errorf("%s: metadata %+v", name, got.meta)
		}
	}
	_, err := newDecoder[*sink](t, Options{}).List(bytes.NewReader(cborOfJSON(t, status)), CBOR,
		func(Object) error { return nil })
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a Status: %v", err)
	}
}

// Items without a type, a kind and an API version have those of the list, wherever these stand.
func TestCBORItemsWithoutKind(t *testing.T) {
	all := [][2]any{{"kind", cborOfJSON(t, `"PodList"`)}, {"apiVersion", cborOfJSON(t, `"v1"`)},
		{"metadata", cborOfJSON(t, `{"resourceVersion":"5"}`)},
		{"items", array(cborOfJSON(t, `{"metadata":{"name":"a"}}`), cborOfJSON(t, `{"metadata":{"name":7}}`),
			cborOfJSON(t, `{"metadata":{"name":"c"},"kind":"Pod","apiVersion":"v1"}`))}}
	want := []string{"v1 Pod a", "v1 Pod 7", "v1 Pod c"}
	for first := range all {
		var pairs []any
		for i := range all {
			pairs = append(pairs, all[(first+i)%len(all)][:]...)
		}
		data := members(t, pairs...)
		for _, workers := range []int{-1, 2} {
			checkItems(t, newDecoder[*unstructured.Unstructured](t, Options{Workers: workers}), data, CBOR, want)
		}
	}
}

// An object that does not fit, or that has what JSON cannot have, is set aside with its name. The
// error has the way to the value and its offset in the stream.
func TestCBORObjectThatDoesNotFit(t *testing.T) {
	name := cborOfJSON(t, `{"namespace":"n","name":"a","uid":"u","resourceVersion":"7"}`)
	kind, version := cborOfJSON(t, `"Sink"`), cborOfJSON(t, `"v1"`)
	good := cborOfJSON(t, sinkA)
	for what, tt := range map[string]struct {
		spec []byte
		// bad is what ends at the offset.
		bad  []byte
		text string
	}{
		"a string for a number": {members(t, "i8", mustCBOR(t, "large"), "str", mustCBOR(t, "s")), mustCBOR(t, "large"),
			"spec.i8: "},
		"out of range": {members(t, "str", mustCBOR(t, "s"), "i8", mustCBOR(t, 300)), mustCBOR(t, 300),
			"spec.i8: "},
		"within a list": {members(t, "structs", array(members(t), members(t, "refUID", []byte{0x18, 0xff}),
			members(t, "refUID", []byte{0xf4}))), []byte{0xf4}, "spec.structs[2].refUID: "},
		"NaN": {members(t, "f64", []byte{0xf9, 0x7e, 0x00}), []byte{0xf9, 0x7e, 0x00}, "spec.f64: "},
		"undefined in a list": {members(t, "ma", members(t, "x", array([]byte{1}, []byte{0xf7}))), []byte{1, 0xf7},
			"spec.ma.x[1]: "},
		"a big number": {members(t, "i64P", append([]byte{0xc2, 0x49, 1}, make([]byte, 8)...)), []byte{0xc2},
			"spec.i64P: "},
		"an unknown field":       {members(t, "unknown", []byte{0xf7}), []byte("unknown\xf7"), "spec.unknown: "},
		"a time that is none":    {members(t, "time", []byte{0xc1, 0x61, 'x'}), []byte{0xc1, 0x61}, "spec.time: "},
		"bytes that are no text": {members(t, "str", []byte{0x62, 0xc3, 0x28}), []byte{0x62, 0xc3, 0x28}, "spec.str: "},
	} {
		bad := members(t, "spec", tt.spec, "kind", kind, "metadata", name, "apiVersion", version)
		for _, d := range []*Decoder{newDecoder[*sink](t, Options{Workers: -1}), newDecoder[*sink](t, Options{Workers: 2})} {
			check := func(data []byte, objects []Object, err error) {
				t.Helper()
				if err != nil || len(objects) != 3 || objects[0].Err != nil || objects[2].Err != nil {
					t.Fatalf("%s: %v, %v", what, objects, err)
				}
				o, at := objects[1], bytes.Index(data, tt.bad)+len(tt.bad)
				if o.Err == nil || !strings.HasPrefix(o.Err.Error(), tt.text+fmt.Sprintf("at byte %d: ", at)) {
					t.Errorf("%s: %v, want %sat byte %d", what, o.Err, tt.text, at)
				}
				if want := (Ident{"v1", "Sink", "n", "a", "u", "7"}); o.Ident != want {
					t.Errorf("%s: %+v", what, o.Ident)
				}
			}
			list := members(t, "kind", cborOfJSON(t, `"SinkList"`), "items", array(good, bad, good))
			var items []Object
			_, err := d.List(bytes.NewReader(list), CBOR, func(o Object) error {
				items = append(items, o)
				return nil
			})
			check(list, items, err)
			for _, event := range [][]byte{members(t, "type", mustCBOR(t, "ADDED"), "object", bad),
				members(t, "object", bad, "type", mustCBOR(t, "ADDED"))} {
				stream := slices.Concat(cborEvent(t, "ADDED", json.RawMessage(sinkA)), event,
					cborEvent(t, "DELETED", json.RawMessage(sinkA)))
				var objects []Object
				err = d.WatchList(bytes.NewReader(stream), CBOR, func(e Event) error {
					if objects = append(objects, e.Object); len(objects) == 2 && e.Type != "ADDED" {
						t.Errorf("%s: a %s", what, e.Type)
					}
					return nil
				})
				check(stream, objects, err)
			}
		}
	}
}

func TestCBORWatch(t *testing.T) {
	obj := func(s string) []byte { return cborOfJSON(t, s) }
	event := func(typ string, object []byte) []byte {
		return members(t, "type", mustCBOR(t, typ), "object", object)
	}
	added := event("ADDED", obj(sinkA))
	for name, tt := range map[string]struct {
		data []byte
		n    int
		err  string
	}{
		"changes": {slices.Concat(added, event("MODIFIED", obj(sinkA)), event("DELETED", obj(sinkA))), 3, ""},
		"nothing": {nil, 0, ""},
		"a bookmark": {slices.Concat(added,
			event("BOOKMARK", obj(`{"kind":"Sink","apiVersion":"v1","metadata":{"resourceVersion":"5"}}`)), added), 3, ""},
		"no version": {event("BOOKMARK", obj(`{"kind":"Sink"}`)), 0, "a bookmark without a resource version"},
		"an invalid one": {event("BOOKMARK", members(t, "metadata", obj(`{"resourceVersion":"5"}`), "x",
			[]byte{0xf7})), 0, `an event "BOOKMARK": object.x: at byte`},
		"an error": {event("ERROR", obj(`{"kind":"Status","message":"gone","code":410,"reason":"Expired"}`)),
			0, "gone"},
		"an error without": {event("ERROR", obj(`{"kind":"Pod"}`)), 0, "an ERROR event without a Status"},
		"an unknown type":  {event("SHUFFLED", obj(sinkA)), 0, `an event of unknown type "SHUFFLED"`},
		"no object":        {members(t, "type", mustCBOR(t, "ADDED")), 0, `an event "ADDED" without an object`},
		"a type that is none": {members(t, "type", []byte{1}, "object", obj(sinkA)), 0,
			"at byte 7: a number, want a string"},
		"a type that is NaN": {members(t, "type", []byte{0xf9, 0x7e, 0}, "object", obj(sinkA)), 0,
			`an event "": type: at byte 9: CBOR: the number NaN`},
		"a Status":        {obj(`{"kind":"Status","message":"no","code":500}`), 0, "no"},
		"an object":       {obj(sinkA), 0, "no event: it is a Sink"},
		"an empty map":    {members(t), 0, "no event: it has neither a type nor an object"},
		"a number":        {[]byte{1}, 0, `invalid CBOR at byte 0: an event begins with '\x01'`},
		"a marked number": {[]byte{0xd9, 0xd9, 0xf7, 1}, 0, "invalid CBOR at byte 0: an event that is no map"},
		"JSON":            {[]byte(`{"type":"ADDED"}`), 0, `invalid CBOR at byte 0: an event begins with '{'`},
		"an event, and JSON": {append(slices.Clone(added), '{'), 1,
			fmt.Sprintf("invalid CBOR at byte %d: an event begins", len(added))},
		"an event that is cut": {append(slices.Clone(added), added[:20]...), 1, fmt.Sprintf("cut off at byte %d",
			len(added)+20)},
		"an event that is broken": {append(slices.Clone(added), 0xa1, 0x1c), 1, fmt.Sprintf("invalid CBOR at byte %d",
			len(added)+1)},
		"another kind": {slices.Concat(added,
			event("ADDED", obj(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`))), 1, "want Sink"},
	} {
		d := newDecoder[*sink](t, Options{})
		got := checkPieces(t, d, workersOf(t, d), tt.data, CBOR, readWatch)
		if (tt.err == "") != (got.end == "<nil>") || !strings.Contains(got.end, tt.err) || len(got.objects) != tt.n {
			t.Errorf("%s: %d events, %s, want %d, %q", name, len(got.objects), got.end, tt.n, tt.err)
		}
	}
	err := newDecoder[*sink](t, Options{}).Watch(bytes.NewReader(event("ERROR",
		obj(`{"kind":"Status","message":"gone","code":410,"reason":"Expired"}`))), CBOR, func(Event) error { return nil })
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("an ERROR event: %v", err)
	}
}

// No length that the bytes claim makes memory for what has not come.
func TestCBORLimits(t *testing.T) {
	for name, claim := range map[string]string{
		"a string of 2^63 bytes": "5b8000000000000000", "a text of 4 GB": "7affffffff",
		"an array of 2^63": "9b8000000000000000", "a map of 2^62": "bb4000000000000000",
		"a map of 2^64": "bbffffffffffffffff",
	} {
		list := members(t, "kind", cborOfJSON(t, `"SinkList"`), "items",
			append([]byte{0x81}, members(t, "a", fromHex(t, claim))...))
		event := members(t, "type", mustCBOR(t, "ADDED"), "object", fromHex(t, claim))
		endless := func(b []byte, more string) io.Reader {
			return io.MultiReader(bytes.NewReader(b), strings.NewReader(strings.Repeat(more, 4096)))
		}
		d := newDecoder[*sink](t, Options{Limit: 1000, Workers: -1})
		_, err := d.List(endless(list, "\x00"), CBOR, func(Object) error { return nil })
		watchErr := d.Watch(endless(event, "\x00"), CBOR, func(Event) error { return nil })
		for _, err := range []error{err, watchErr} {
			if err == nil || !errors.Is(err, errTooLarge) && !errors.Is(err, errCBOR) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if cap(d.buf.data) > 4096 {
			t.Errorf("%s: %d bytes of memory", name, cap(d.buf.data))
		}
	}
	// The limit is for the bytes of CBOR and for those of JSON, which are a few more here.
	obj := cborEvent(t, "ADDED", map[string]any{"kind": "Sink",
		"metadata": map[string]any{"name": strings.Repeat("x", 900)}})
	for limit, fine := range map[int]bool{len(obj) + 100: true, len(obj): false, len(obj) - 1: false} {
		err := newDecoder[*sink](t, Options{Limit: limit}).Watch(bytes.NewReader(obj), CBOR, func(Event) error { return nil })
		if errors.Is(err, errTooLarge) == fine {
			t.Errorf("limit %d of %d: %v", limit, len(obj), err)
		}
	}
}

func FuzzWatchCBOR(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	f.Add(slices.Concat(cborEvent(f, "ADDED", json.RawMessage(sinkA)),
		cborEvent(f, "BOOKMARK", map[string]any{"metadata": map[string]any{"resourceVersion": "5"}})))
	f.Add(cborEvent(f, "ADDED", map[string]any{"spec": map[string]any{"i8": 300}}))
	f.Add([]byte{0xa1, 0x44, 't', 'y', 'p', 'e', 0xf7})
	fuzzPieces[*sink](f, CBOR, readWatch, unchecked)
}

func FuzzListCBOR(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	f.Add(carpCBOR(f, 2))
	f.Add(members(f, "items", array(cborOfJSON(f, sinkA), []byte{0xf7}), "kind", cborOfJSON(f, `"SinkList"`)))
	f.Add([]byte{0xbf, 0x45, 'i', 't', 'e', 'm', 's', 0x9f, 0xff, 0xff})
	fuzzPieces[*sink](f, CBOR, readList, unchecked)
}
