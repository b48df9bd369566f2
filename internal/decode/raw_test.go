package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// What Raw has is decoded to the same object again, in every encoding and by every way of reading:
// a list, one that goroutines decode, the initial events of a watch, and one object.
func TestRawAgain(t *testing.T) {
	const n = 60
	plain, err := json.Marshal(carps(n))
	ok(t, err)
	var lines bytes.Buffer
	for i := range n {
		object, err := json.Marshal(newCarp(i))
		ok(t, err)
		fmt.Fprintf(&lines, `{"type":"ADDED","object":%s}`+"\n", object)
	}
	lists := map[Encoding][]byte{JSON: plain, Protobuf: carpList(t, n), CBOR: carpCBOR(t, n)}
	watches := map[Encoding][]byte{JSON: lines.Bytes(), Protobuf: carpFrames(t, "ADDED", n)}
	for _, workers := range []int{-1, 3} {
		d, again := newDecoder[*carp.Carp](t, Options{Raw: true, Workers: workers}), newDecoder[*carp.Carp](t, Options{})
		seen := 0
		check := func(o Object) error {
			ok(t, o.Err)
			b := again.Again(o.Raw, o.RawEncoding)
			ok(t, b.Err)
			checkDiff(t, fmt.Sprintf("object %d", seen), o.Value, b.Value)
			seen++
			return nil
		}
		for enc, data := range lists {
			_, err := d.List(bytes.NewReader(data), enc, check)
			ok(t, err)
		}
		for enc, data := range watches {
			ok(t, d.WatchList(bytes.NewReader(data), enc, func(e Event) error { return check(e.Object) }))
			ok(t, d.Watch(bytes.NewReader(data), enc, func(e Event) error { return check(e.Object) }))
		}
		for enc, data := range map[Encoding][]byte{JSON: mustJSON(t, newCarp(7)), Protobuf: protobufOf(t, newCarp(7)),
			CBOR: mustCBOR(t, newCarp(7))} {
			_ = check(d.One(data, enc))
		}
		if want := 3*n + 4*n + 3; seen != want {
			t.Errorf("%d objects, want %d", seen, want)
		}
	}
}

// Items that wait for the kind of their list, which comes behind them, keep their bytes.
func TestRawOfHeldItems(t *testing.T) {
	item := func(i int) string { return fmt.Sprintf(`{"metadata":{"name":"n%d"},"data":%d}`, i, i) }
	list := `{"apiVersion":"v1","items":[` + item(1) + "," + item(2) + "," + item(3) + `],"kind":"ThingList"}`
	d := decoderOf(t, reflect.TypeFor[*unstructured.Unstructured](), Options{Raw: true, Workers: -1})
	i := 0
	_, err := d.List(bytes.NewReader([]byte(list)), JSON, func(o Object) error {
		i++
		checkDiff(t, "bytes", item(i), string(o.Raw))
		checkDiff(t, "kind", "Thing", o.Ident.Kind)
		return o.Err
	})
	ok(t, err)
	if i != 3 {
		t.Errorf("%d objects", i)
	}
}

// Without the option there are no bytes.
func TestNoRaw(t *testing.T) {
	if o := newDecoder[*carp.Carp](t, Options{}).One(mustJSON(t, newCarp(7)), JSON); o.Raw != nil || o.Err != nil {
		t.Errorf("%s, %v", o.Raw, o.Err)
	}
}
