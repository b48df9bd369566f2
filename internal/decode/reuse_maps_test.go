package decode

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// gadget is an untyped object. Its labels, managed fields and spec are those of its batch, and its
// status is its own.
func gadget(batch, i int) []byte {
	return fmt.Appendf(nil, `{"kind":"Gadget","apiVersion":"v1","metadata":{"labels":{"app":"web","team":"platform-%[1]d"},"name":"gadget-%[2]d",`+
		`"managedFields":[{"manager":"kubectl","time":"2026-03-05T11:%02[2]d:33Z","fieldsV1":{"f:spec":{".":{},"f:replicas":{},"f:image-%[1]d":{}}}}]},`+
		`"spec":{"image":"registry.example.com/web:v%[1]d","ports":[8080,9090]},"status":{"address":"10.96.12.%[2]d:5432","ready":true}}`, batch, i)
}

// addressOf returns where the map or slice is to which a path of names and numbers leads.
func addressOf(u *unstructured.Unstructured, path ...string) uintptr {
	var v any = u.Object
	for _, step := range path {
		if s, ok := v.([]any); ok {
			i, _ := strconv.Atoi(step)
			v = s[i]
		} else {
			v = v.(map[string]any)[step]
		}
	}
	return reflect.ValueOf(v).Pointer()
}

// With Share, the equal objects and arrays of untyped objects are one map or slice from the third
// object on, and without it none are. Two values whose hashes share a place are not: so one batch of
// several, each of values of its own, must share each.
func TestShareUntyped(t *testing.T) {
	shared := map[string]bool{}
	for n := range 16 {
		share := n%2 == 0
		d := newDecoder[*unstructured.Unstructured](t, Options{Share: share})
		var all []*unstructured.Unstructured
		for i := range 4 {
			got := mustDecode[*unstructured.Unstructured](t, d, gadget(n, i))
			if diff := cmp.Diff(untypedOf(t, gadget(n, i)), got); diff != "" {
				t.Fatalf("share %v, object %d (-want +got):\n%s", share, i, diff)
			}
			all = append(all, got)
		}
		for _, path := range []string{"spec", "metadata labels", "metadata managedFields 0 fieldsV1", "metadata", "metadata managedFields", "status"} {
			at := strings.Fields(path)
			if addressOf(all[2], at...) == addressOf(all[3], at...) {
				if shared[path] = true; !share {
					t.Errorf("%s is shared without Share", path)
				}
			}
		}
	}
	want := map[string]bool{"spec": true, "metadata labels": true, "metadata managedFields 0 fieldsV1": true}
	if diff := cmp.Diff(want, shared); diff != "" {
		t.Errorf("what is shared (-want +got):\n%s", diff)
	}
}

// A value whose bytes mean something else, since a part of it is dropped, is not taken from the
// memory of one of which nothing is, nor the other way round.
func TestShareUntypedAndDrop(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{Share: true, Drop: []string{"spec.secret"}})
	data := []byte(`{"kind":"Gadget","copy":{"public":"one and all","secret":2},"metadata":{"name":"n"},"spec":{"public":"one and all","secret":2}}`)
	want := untypedOf(t, data)
	unstructured.RemoveNestedField(want.Object, "spec", "secret")
	for range 5 {
		if diff := cmp.Diff(want, mustDecode[*unstructured.Unstructured](t, d, data)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// Whatever repeats in whatever objects, and whatever names it has, each object is what apimachinery
// decodes, and stays so when others have come.
func TestShareUntypedModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDecoder[*unstructured.Unstructured](t, Options{Share: true})
		var draw func(depth int) string
		draw = func(depth int) string {
			scalars := []string{`"a string of some length"`, `"aé\n"`, "12", "1.5", "true", "null", "{}", "[]"}
			if depth == 0 {
				return rapid.SampledFrom(scalars).Draw(t, "scalar")
			}
			values := make([]string, rapid.IntRange(0, 3).Draw(t, "members"))
			for i := range values {
				values[i] = draw(rapid.IntRange(0, depth-1).Draw(t, "depth"))
			}
			if rapid.Bool().Draw(t, "array") {
				return "[" + strings.Join(values, ", ") + "]"
			}
			for i, v := range values {
				values[i] = rapid.SampledFrom([]string{`"a":`, `"b" : `, `"metadata":`}).Draw(t, "name") + v
			}
			return "{" + strings.Join(values, ",") + "}"
		}
		pieces := []string{draw(1), draw(2), draw(3)}
		var all []any
		var from []string
		for range rapid.IntRange(1, 12).Draw(t, "objects") {
			piece := func() string { return rapid.SampledFrom(pieces).Draw(t, "piece") }
			data := fmt.Sprintf(`{"kind":"K","metadata":{"name":"n","labels":{"a":"b"}},"a":%s,"spec":{"a":[%s],"b":%s}}`, piece(), piece(), piece())
			got, err := decodeOne(d, []byte(data))
			if err != nil {
				t.Fatal(data, err)
			}
			all, from = append(all, got), append(from, data)
		}
		for i, got := range all {
			want := &unstructured.Unstructured{}
			if err := want.UnmarshalJSON([]byte(from[i])); err != nil {
				t.Fatal(from[i], err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", from[i], diff)
			}
		}
	})
}

// Neither many names, nor many values, nor names whose values never repeat take much memory or time.
func TestShareUntypedIsBounded(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{Share: true})
	value := strings.Repeat("x", 1000)
	for i := range 4 * sharedMaps {
		data := fmt.Sprintf(`{"kind":"K","metadata":{"name":"n"},"f:%d":{"value":"%s"},"spec":{"value":"%d %[2]s"},"status":{"only":"%[1]d %[2]s"}}`, i, value, i/2)
		mustDecode[*unstructured.Unstructured](t, d, []byte(data))
		if n := len(d.maps.rates); n > maxRates {
			t.Fatalf("%d names", n)
		}
		if n := len(d.maps.kept); n > sharedMaps || d.maps.size > sharedMapBytes {
			t.Fatalf("%d values of %d bytes", n, d.maps.size)
		}
	}
	if !d.maps.rates["status"].gaveUp {
		t.Error("status has not been given up")
	}
}

// A value that is valid JSON here may nest too deep elsewhere.
func TestShareUntypedDepth(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{Share: true})
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for range 4 {
		mustDecode[*unstructured.Unstructured](t, d, []byte(`{"kind":"K","metadata":{"name":"n"},"a":`+deep+`}`))
	}
	if len(d.maps.kept) != 1 {
		t.Fatalf("%d values are kept, want 1", len(d.maps.kept))
	}
	data := `{"kind":"K","metadata":{"name":"n"},"b":` + strings.Repeat(`[`, 6000) + `{"a":` + deep + "}" + strings.Repeat("]", 6000) + `}`
	if got, err := decodeOne(d, []byte(data)); err == nil {
		t.Errorf("a value %d deep is %T", 11000, got)
	}
}
