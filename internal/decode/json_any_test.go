package decode

import (
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
			for i, format := range []string{`"spec":%s,"spec":%s,"x":1`, `"spec":%s,"status":{"y":[1]},"spec":%s`, `"spec":%s,"spec":{"a":{"b":9}},"spec":%s`} {
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
				for j, version := range [][]byte{data, data, alone, data, object(`"spec":` + kept), data, object(`"spec":` + other + `,"status":{}`), data} {
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
