package decode

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"
)

// Values that were allocated in one piece are independent: objects stay as they were decoded while
// others are decoded, and an append to one slice does not write into the next one.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDecoder[*sink](t, Options{})
		var got, want []any
		few := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return genSpec(t, 2) }), 1, 3).Draw(t, "specs")
		for range 12 {
			data := []byte(`{"metadata":{"name":"a"},"spec":` + rapid.SampledFrom(few).Draw(t, "spec") + `}`)
			v, err := decodeOne(d, data)
			if err != nil {
				continue
			}
			checkFull(t, reflect.ValueOf(v))
			w := &sink{}
			if err := unmarshal(data, w); err != nil {
				t.Fatal(err)
			}
			w.TypeMeta = metav1.TypeMeta{}
			got, want = append(got, v), append(want, w)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)))
		}
	})
}

// The same in protobuf, with a different number of values in each object.
func TestBatchesOfMessages(t *testing.T) {
	for _, share := range []bool{false, true} {
		d := newDecoder[*carp.Carp](t, Options{Share: share})
		var got, want []any
		for i := range 100 {
			c := newCarp(i)
			few := i / 4 * 7
			c.OwnerReferences = slices.Repeat(c.OwnerReferences, few%5)
			c.ManagedFields = slices.Repeat(c.ManagedFields, few%3)
			c.Status.Conditions = slices.Repeat(c.Status.Conditions, few%4)
			c.Status.Infos = slices.Repeat(c.Status.Infos, few%6)
			data := mustMarshal(t, c)
			w := &carp.Carp{}
			if err := w.Unmarshal(data); err != nil {
				t.Fatal(err)
			}
			o := messageOf(d, data)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			checkFull(t, reflect.ValueOf(o.Value))
			got, want = append(got, o.Value), append(want, w)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("share %v: (-want +got):\n%s", share, diff)
		}
	}
}

// checkFull checks that no slice of structs in v has a capacity beyond its length.
func checkFull(t fataler, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			checkFull(t, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			checkFull(t, v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct && v.Cap() > v.Len() {
			t.Fatalf("%v of %d has room for %d", v.Type(), v.Len(), v.Cap())
		}
		for i := range v.Len() {
			checkFull(t, v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			checkFull(t, v.MapIndex(k))
		}
	}
}

// An allocator stops to make batches if the objects differ much in their number of values.
func TestBatchesGiveUp(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	m := newBatchAllocator(reflect.TypeFor[Reference]())
	unused := 0
	for i := range 20 * trialLength {
		d.objects++
		for range 1 + 30*(i/2%2) { // 1 1 31 31 1 1 …
			m.take(d, 1)
		}
		unused += m.spare.len
	}
	if most := 20 * trialLength * 16 / wasteDivisor; unused > most {
		t.Errorf("%d values were made in vain, want no more than %d", unused, most)
	}
}

// The values of an object are one piece if the object before had the same generated name, however
// many the objects before had.
func TestBatchesOfKin(t *testing.T) {
	allocations := func(generateName string) float64 {
		d := newDecoder[*sink](t, Options{})
		d.ReuseFrom(func(string, string) any { return nil })
		d.templates = new([maxParts]templates)
		for i := range d.templates {
			d.templates[i].made = maxTemplates // and no credit to make one
		}
		i := 0
		next := func() {
			n := []int{2, 40, 20}[i/3%3]
			meta := ""
			if generateName != "" {
				meta = fmt.Sprintf(`"generateName":"%s-%d-",`, generateName, i/3)
			}
			data := `{"metadata":{` + meta + `"name":"a"},"spec":{"ptrs":[{"refKind":"a"}` + strings.Repeat(`,{"refKind":"a"}`, n) + `]}}`
			got := mustDecode[*sink](t, d, []byte(data))
			if len(got.Spec.Ptrs) != n+1 || got.Spec.Ptrs[n].Kind != "a" {
				t.Fatalf("%d elements of %d", len(got.Spec.Ptrs), n+1)
			}
			i++
		}
		for range 2 * trialLength {
			next()
		}
		return testing.AllocsPerRun(90, next)
	}
	if kin, others := allocations("app"), allocations(""); kin > others*3/4 {
		t.Errorf("%v allocations, and %v without a generated name", kin, others)
	}
}
