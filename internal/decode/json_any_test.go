package decode

import (
	"bytes"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Of a member that comes twice the last one wins, under Only as well: also if nothing is kept of the
// last one. An object is what it would be if only the last one were there.
func TestOnlyOfMemberTwice(t *testing.T) {
	opts := Options{Only: []string{"spec.a.b", "metadata.labels", "status"}}
	const kept, other = `{"a":{"b":[1,2,3],"c":1}}`, `{"a":{"b":"x"}}`
	for _, last := range []string{`null`, `5`, `"x"`, `true`, `{}`, `[]`, other, `{"a":null}`, `{"a":7}`, `{"c":{}}`} {
		for _, first := range []string{kept, other, `null`, `{"a":{"b":1},"a":0}`, `{"a":{"b":1},"c":2,"a":0}`} {
			for i, format := range []string{`"spec":%s,"spec":%s,"x":1`, `"spec":%s,"status":{"y":[1]},"spec":%s`,
				`"spec":%s,"spec":{"a":{"b":9}},"spec":%s`} {
				object := func(members string) []byte {
					return []byte(`{"apiVersion":"v1","kind":"K","metadata":{"name":"n","uid":"u","resourceVersion":"1","labels":{"l":"m"}},` + members + `}`)
				}
				data, alone := object(fmt.Sprintf(format, first, last)), object(`"spec":`+last)
				if i == 1 {
					alone = object(`"status":{"y":[1]},"spec":` + last)
				}
				want := mustDecode[*unstructured.Unstructured](t, newDecoder[*unstructured.Unstructured](t, opts), alone)
				d := newDecoder[*unstructured.Unstructured](t, opts)
				var lent any
				d.ReuseFrom(func(string, string) any { return lent })
				for j, version := range [][]byte{data, data, alone, data, object(`"spec":` + kept), data,
					object(`"spec":` + other + `,"status":{}`), data} {
					got := mustDecode[*unstructured.Unstructured](t, d, version)
					if lent = got; j%2 == 1 || j == 0 {
						checkDiff(t, fmt.Sprintf("version %d, %s", j, data), want, got)
					}
				}
			}
		}
	}
}

// Many members whose first or second value is left out take no time that grows with their square.
func TestOnlyOfManyMembersTwice(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{Only: []string{"spec.*.b", "spec.a.b"}})
	data := []byte(`{"kind":"K","metadata":{"name":"n"},"spec":{` + manyOf(20000, `"a":{"b":1},"a":null`) + `}}`)
	got := mustDecode[*unstructured.Unstructured](t, d, data)
	checkDiff(t, "spec", map[string]any{}, got.Object["spec"].(map[string]any))
}

// An untyped object of an event that has no kind is an error of that object, as in a list: nobody
// could say what it is. The event names it.
func TestEventWithoutKind(t *testing.T) {
	events := []string{
		`{"type":"ADDED","object":{"apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"1"}}}`,
		`{"object":{"apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"1"}},"type":"MODIFIED"}`,
	}
	want := Ident{APIVersion: "v1", Namespace: "b", Name: "a", UID: "c", ResourceVersion: "1"}
	for _, event := range events {
		var v any
		if err := unmarshal([]byte(event), &v); err != nil {
			t.Fatal(err)
		}
		for enc, data := range map[Encoding][]byte{JSON: []byte(event), CBOR: mustCBOR(t, v)} {
			var got []Object
			d := newDecoder[*unstructured.Unstructured](t, Options{})
			err := d.Watch(bytes.NewReader(data), enc, func(ev Event) error { got = append(got, ev.Object); return nil })
			if err != nil || len(got) != 1 || got[0].Err != errNoKind || got[0].Value != nil || got[0].Ident != want {
				t.Errorf("encoding %d: error %v, objects %+v", enc, err, got)
			}
		}
	}
}
