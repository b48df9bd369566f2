package decode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// A medley has a part of each sort that JSON may write in more than one way.
type medley struct {
	Spec struct {
		A string            `json:"a"`
		M map[string]string `json:"m"`
	} `json:"spec"`
	Bytes             []byte            `json:"bytes"`
	Raw               json.RawMessage   `json:"raw"`
	Map               map[string]string `json:"map"`
	Adds              adding            `json:"adds"`
	metav1.ObjectMeta `json:"metadata"`
}

// An adding decodes itself by adding to what it has.
type adding []string

func (a *adding) UnmarshalJSON(b []byte) error { *a = append(*a, string(b)); return nil }

// medleyValues are values of a medley's members. The bytes of some are those of another's name.
var medleyValues = map[string][]string{
	"spec":          {`null`, `{}`, `{"a":"1"}`, `{"m":{"a":"1"}}`},
	"bytes":         {`null`, `""`, `"AAAA"`, `[1,2]`},
	"raw":           {`null`, `{}`, `[]`, `"AAAA"`, `5`, `true`},
	"map":           {`null`, `{}`, `{"a":"1"}`, `{"b":"2"}`},
	"adds":          {`null`, `{}`, `[]`, `5`},
	"labels":        {`null`, `{}`, `{"a":"1"}`, `{"b":"2"}`},
	"finalizers":    {`null`, `[]`, `["a"]`, `["a","b"]`},
	"uid":           {`"u"`, `""`, `null`},
	`{}`:            {`null`, `{}`, `[]`},
	`[]`:            {`null`, `{}`, `[]`, `5`},
	`{\"a\":\"1\"}`: {`{"a":"1"}`, `{}`, `null`},
	"more":          {`{"a":"1"}`, `{}`},
	"yet more":      {`{"a":"1"}`, `[{"a":"1"}]`},
}

// drawMembers draws members with the given names, any of which may come twice or not at all.
func drawMembers(t *rapid.T, names ...string) (members []string) {
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		name := rapid.SampledFrom(names).Draw(t, "name")
		members = append(members, fmt.Sprintf(`"%s":%s`, name, rapid.SampledFrom(medleyValues[name]).Draw(t, "value")))
	}
	return members
}

// drawMedley draws the JSON of an object. Its metadata comes first, last, or in two pieces.
func drawMedley(t *rapid.T, names ...string) []byte {
	metadata := func() string {
		named := append([]string{`"name":"n","resourceVersion":"1"`}, drawMembers(t, "labels", "finalizers", "uid")...)
		if rapid.Bool().Draw(t, "name last") {
			named = append(named[1:], named[0])
		}
		return `"metadata":{` + strings.Join(named, ",") + `}`
	}
	members := append([]string{`"kind":"Medley"`, metadata()}, drawMembers(t, names...)...)
	switch rapid.IntRange(0, 5).Draw(t, "metadata again") {
	case 0:
		members = append(members, metadata())
	case 1:
		members = append(members, `"metadata":null`, metadata())
	case 2:
		members = append(members[1:], members[0])
	}
	return []byte(`{` + strings.Join(members, ",") + `}`)
}

// What is noted of a part is what the part is in the end: a null behind a value counts, and so does
// the name of an untyped member that has the bytes of its value.
func TestPartsThatComeAgain(t *testing.T) {
	const first, again = `{"kind":"K","metadata":{"name":"n","uid":"u","resourceVersion":"1"},`,
		`{"kind":"K","metadata":{"name":"n","uid":"u","resourceVersion":"2"},`
	typed, last := newLender[*medley](t, Options{})
	untyped, lastUntyped := newLender[*unstructured.Unstructured](t, Options{})
	for _, versions := range [][]string{
		{`{"kind":"K","metadata":{"name":"n","labels":{"a":"1"},"labels":null}}`,
			`{"kind":"K","metadata":{"name":"n","labels":{"a":"1"}}}`},
		{first + `"map":{"a":"1"},"map":null}`, again + `"map":{"a":"1"}}`},
		{first + `"bytes":"AAAA","bytes":null}`, again + `"bytes":"AAAA"}`},
		{first + `"bytes":"AAAA","bytes":[1]}`, again + `"bytes":"AAAA"}`},
		{first + `"raw":"AAAA","raw":5}`, again + `"raw":"AAAA"}`},
		{first + `"adds":[]}`, again + `"adds":5,"adds":[]}`},
		{first + `"spec":{"a":"1"},"spec":null}`, again + `"spec":{"a":"1"}}`},
		{first + `"map":{"a":"1"}}`, first + `"map":{"a":"1"},"map":null}`}, // an item of a list that has changed
		// A member that has the bytes of another one is not taken for it.
		{`{"kind":"K","metadata":{"name":"n"},"a":{"x":1},"b":{"x":2}}`, `{"kind":"K","metadata":{"name":"n"},"b":{"x":1}}`,
			`{"kind":"K","metadata":{"name":"n"},"c":{"x":1},"b":{"x":1}}`},
		{first + `"{}":{}}`, again + `"[]":[]}`},
		{first + `"[]":[]}`, again + `"{}":{}}`},
	} {
		for d, last := range map[*Decoder]lender{typed: last, untyped: lastUntyped} {
			clear(last)
			d.listing = true
			for _, data := range versions {
				got, err := decodeOne(d, []byte(data))
				if err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				want := any(untypedOf(t, []byte(data)))
				if d == typed {
					want = &medley{}
					ok(t, unmarshal([]byte(data), want))
				}
				checkDiff(t, fmt.Sprintf("%s of %v", data, versions), want, got)
				last.keep(got)
			}
		}
	}
}

// The notes of an untyped object are in their own memory, however many members it has.
func TestUntypedPartsAreBounded(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{})
	d.ReuseFrom(func(string, string) any { return nil })
	l := newUntypedLayout(d.root.elem)
	size := l.noted.Size()
	l.noted = reflect.StructOf([]reflect.StructField{{Name: "Noted", Type: l.noted},
		{Name: "Behind", Type: reflect.TypeFor[[16]uint64]()}})
	d.root.layout = l
	for n := range maxParts + 2 {
		data := `{"kind":"K","metadata":{"name":"n","labels":{"a":"b"}}`
		for i := range n {
			data += fmt.Sprintf(`,"m%d":{"a":%d}`, i, i)
		}
		u := mustDecode[*unstructured.Unstructured](t, d, []byte(data+"}"))
		p := pointerTo(u)
		if behind := *as[[16]uint64](p.field(size)); behind != [16]uint64{} {
			t.Errorf("%d members: %x was written behind the notes", n, behind)
		}
		var noted int
		for i := range maxParts {
			if l.size(p, i) > 0 {
				noted++
			}
			if i >= len(metaParts)+n && *l.sum(p, i) != 0 {
				t.Errorf("%d members: part %d has a sum", n, i)
			}
		}
		if want := 1 + min(n, maxParts-len(metaParts)); noted != want {
			t.Errorf("%d members: %d parts are noted, want %d", n, noted, want)
		}
	}
}

// TestPartsOfAnyText is TestPartsModel for members that come again with another sort of value.
func TestPartsOfAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, last := newLender[*medley](t, Options{Share: rapid.Bool().Draw(t, "share")})
		checkVersions(t, d, 5, last.keep, func() (string, []byte, any) {
			data, want := drawMedley(t, "spec", "bytes", "raw", "map", "adds"), &medley{}
			if err := unmarshal(data, want); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			return "JSON", data, want
		})
	})
}

// TestUntypedPartsOfAnyText is TestPartsOfAnyText for untyped objects.
func TestUntypedPartsOfAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, last := newLender[*unstructured.Unstructured](t, Options{})
		checkVersions(t, d, 5, last.keep, func() (string, []byte, any) {
			data := drawMedley(t, "spec", "raw", `{}`, `[]`, `{\"a\":\"1\"}`, "more", "yet more")
			return "JSON", data, untypedOf(t, data)
		})
	})
}

// A numbered has parts that protobuf may write in more than one way.
type numbered struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Numbers           []int64           `json:"numbers" protobuf:"varint,2,rep,name=numbers"`
	Bytes             []byte            `json:"bytes" protobuf:"bytes,3,opt,name=bytes"`
	Map               map[string]string `json:"map" protobuf:"bytes,4,rep,name=map"`
}

// A number that comes behind packed ones belongs to the part, but not to what is noted of it.
func TestPartsWithANumberBehind(t *testing.T) {
	name := fieldOfBytes(1, fieldOfBytes(1, []byte("n")))
	packed, behind := fieldOfBytes(2, []byte{1}), []byte{2<<3 | wireVarint, 2}
	version := func(fields ...[]byte) []byte { return slices.Concat(append([][]byte{name}, fields...)...) }
	for _, share := range []bool{false, true} {
		d, last := newLender[*numbered](t, Options{Share: share})
		for i, v := range []struct {
			data []byte
			want []int64
		}{
			{version(packed, behind), []int64{1, 2}}, // nothing can be taken
			{version(packed), []int64{1}},
			{version(packed, behind), []int64{1, 2}}, // the packed ones could be taken
			{version(packed), []int64{1}},
		} {
			o := messageOf(d, v.data)
			ok(t, o.Err)
			last.keep(o.Value)
			checkDiff(t, fmt.Sprintf("share: %v, version %d", share, i), v.want, o.Value.(*numbered).Numbers)
		}
	}
}

// TestPartsOfAnyMessage is TestPartsOfAnyText in protobuf. Each version is what a decoder makes of
// it that knows no other version.
func TestPartsOfAnyMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{Share: rapid.Bool().Draw(t, "share")}
		d, last := newLender[*numbered](t, opts)
		alone := newDecoder[*numbered](t, opts)
		entry := func(value string) []byte {
			return fieldOfBytes(4, fieldOfBytes(1, []byte("a")), fieldOfBytes(2, []byte(value)))
		}
		pieces := [][]byte{
			fieldOfBytes(1, fieldOfBytes(1, []byte("n"))), {2<<3 | wireVarint, 1}, {2<<3 | wireVarint, 2},
			fieldOfBytes(2, []byte{1}),
			fieldOfBytes(2, []byte{1, 2}), fieldOfBytes(2), fieldOfBytes(3, []byte{1}), fieldOfBytes(3), entry("1"), entry("2"),
			fieldOfBytes(4),
		}
		checkVersions(t, d, 5, last.keep, func() (string, []byte, any) {
			var data []byte
			for _, i := range append([]int{0}, rapid.SliceOfN(rapid.IntRange(0, len(pieces)-1), 0, 6).Draw(t, "fields")...) {
				data = append(data, pieces[i]...)
			}
			o := messageOf(alone, data)
			ok(t, o.Err)
			return "protobuf", data, o.Value
		})
	})
}

// checkVersions decodes versions of objects, each with what d can take from the one before, which
// keep keeps. draw returns the form and the bytes of a version, and what they are. No version is
// changed by those that come later.
func checkVersions(t *rapid.T, d *Decoder, most int, keep func(any), draw func() (form string, data []byte, want any)) {
	type version struct {
		data      []byte
		want, got any
	}
	var versions []version
	for range rapid.IntRange(2, most).Draw(t, "versions") {
		form, data, want := draw()
		d.listing = rapid.Bool().Draw(t, "listing")
		got, err := decodeAs(d, form, data)
		if err != nil {
			t.Fatalf("%s %q: %v", form, data, err)
		}
		keep(got)
		versions = append(versions, version{data, want, got})
		for i, v := range versions {
			if !reflect.DeepEqual(v.want, v.got) {
				t.Fatalf("version %d of %d, %q (-want +got):\n%s", i, len(versions), v.data,
					cmp.Diff(v.want, v.got, cmp.Exporter(func(reflect.Type) bool { return true })))
			}
		}
	}
}
