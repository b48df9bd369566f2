package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// A list in protobuf or in CBOR is read as it was written, by every sort of decoder, however its
// bytes come.
func TestListsOfCarps(t *testing.T) {
	for name, d := range map[string]*Decoder{
		"compiled": newDecoder[*carp.Carp](t, Options{}), "shared": newDecoder[*carp.Carp](t, Options{Share: true}), "own": ownUnmarshal(t), "pool": newDecoder[*carp.Carp](t, Options{Workers: 2}),
	} {
		for enc, data := range map[Encoding][]byte{Protobuf: carpList(t, 30), CBOR: carpCBOR(t, 30)} {
			for how, r := range map[string]io.Reader{"whole": bytes.NewReader(data), "bytes": iotest.OneByteReader(bytes.NewReader(data))} {
				n := 0
				m, err := d.List(r, enc, func(o Object) error {
					if diff := cmp.Diff(wantCarp(n), o.Value, sameJSON); o.Err != nil || diff != "" {
						return fmt.Errorf("item %d: %v (-want +got):\n%s", n, o.Err, diff)
					}
					n++
					return nil
				})
				if err != nil || n != 30 || m.ResourceVersion != "77" || m.Continue != "c" || *m.RemainingItemCount != 9 {
					t.Errorf("%s, encoding %d, %s: %d items, metadata %v, error %v", name, enc, how, n, m, err)
				}
			}
		}
	}
}

// A mistake around the objects of a list ends it, after the objects before the mistake.
func TestListMembers(t *testing.T) {
	const meta = `"metadata":{"resourceVersion":"7","continue":"c"}`
	for data, want := range map[string]struct {
		n   int
		end string
	}{
		`{"kind":"SinkList",` + meta + `,"items":[` + sinkA + `]}`:          {1, "<nil>"},
		` { "items" : [ ` + sinkA + ` ] , ` + meta + `,"kind":"SinkList"} `: {1, "<nil>"},
		`{"items":null,"kind":"SinkList",` + meta + `}`:                     {0, "<nil>"},
		`{"items":[],"kind":"SinkList",` + meta + `,"more":{"a":[1]}}`:      {0, "<nil>"},
		`{}`:                                               {0, "no list: it has no kind"},
		`{"items":[]}`:                                     {0, "no list: it has no kind"},
		`{"kind":null,"items":[]}`:                         {0, "no list: it has no kind"},
		`{"kind":"SinkList"}`:                              {0, "SinkList without items"},
		`{"kind":"Sink","items":[]}`:                       {0, "no list: it is a Sink"},
		`{"items":[],"kind":"Sink"}`:                       {0, "no list: it is a Sink"},
		`{"kind":"Table","rows":[]}`:                       {0, "a Table, which is made for people, not a list"},
		`{"kind":"SinkList","items":[],"items":[]}`:        {0, "a list with two items"},
		`{"kind":1}`:                                       {0, "json: cannot unmarshal number into Go value of type string"},
		`{"apiVersion":1}`:                                 {0, "json: cannot unmarshal number into Go value of type string"},
		`{"metadata":1}`:                                   {0, "json: cannot unmarshal number into Go value of type v1.ListMeta"},
		`{"kind":"Status","message":"m","code":5}`:         {0, "m"},
		`{"message":"m","kind":"Status"}`:                  {0, "m"},
		`{"message":5,"kind":"Status","status":"Failure"}`: {0, `the server answered with a Status, status "Failure", without a message`},
		`{"kind":"Status","items":[]}`:                     {0, "the server answered with a Status, without a message"},
		`{"kind":"SinkList","items":7}`:                    {0, `invalid JSON at byte 27: '7', want '['`},
		`{"kind":"SinkList","items":nul}`:                  {0, `invalid JSON at byte 30: items are "nul"`},
		`{"kind":"SinkList","items":[` + sinkA + `,]}`:     {1, ""},
		`{"kind":"SinkList","items":[` + sinkA + ` 5]}`:    {1, ""},
		`{"kind":"SinkList","items":[` + sinkA + `]`:       {1, ""},
		`{"kind":"SinkList","items":[` + sinkA + `]} x`:    {1, ""},
		`{"kind":"SinkList","items":[],}`:                  {0, `invalid JSON at byte 30: '}', want '"'`},
		`{"kind":"SinkList" "items":[]}`:                   {0, `invalid JSON at byte 19: '"', want '}'`},
		`{"kind" "SinkList"}`:                              {0, `invalid JSON at byte 8: '"', want ':'`},
		`{kind:"SinkList"}`:                                {0, `invalid JSON at byte 1: 'k', want '"'`},
		`{"kind":tru}`:                                     {0, "invalid JSON at byte 8: 't', want true"},
		`{"ki\xnd":1}`:                                     {0, "invalid JSON at byte 4: invalid escape in a string"},
		`[]`:                                               {0, `invalid JSON at byte 0: '[', want '{'`},
		``:                                                 {0, "cut off at byte 0: unexpected EOF"},
		`{`:                                                {0, "cut off at byte 1: unexpected EOF"},
	} {
		for _, workers := range []int{-1, 2} {
			g := readList(newDecoder[*sink](t, Options{Workers: workers}), strings.NewReader(data), JSON)
			if len(g.objects) != want.n || g.end != want.end && want.end != "" || want.end == "" && g.end == "<nil>" {
				t.Errorf("%s: %d objects, then %s; want %d, %s", data, len(g.objects), g.end, want.n, want.end)
			}
			if g.end == "<nil>" && (g.meta.ResourceVersion != "7" || g.meta.Continue != "c") {
				t.Errorf("%s: metadata %+v", data, g.meta)
			}
		}
	}
}

// Unknown members of a list are skipped, of whatever type they are, before the items and behind
// them.
func TestUnknownMembersOfLists(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, value := range []string{`[1,[2],{"a":"]"}]`, `[]`, `{}`, `{"a":{"b":"}"}}`, `"x"`, `""`, `"\"]"`, `1`, `-1.5e3`, `true`, `false`, `null`} {
		for _, list := range []string{
			`{"kind":"SinkList","other":` + value + `,"metadata":{"resourceVersion":"5"},"items":[` + sinkA + `]}`,
			`{"kind":"SinkList","metadata":{"resourceVersion":"5"},"items":[` + sinkA + `],"other":` + value + `}`,
			`{"other":` + value + ` , "items" : [` + sinkA + `] , "metadata":{"resourceVersion":"5"},"kind":"SinkList"}`,
		} {
			g := readList(d, strings.NewReader(list), JSON)
			if g.end != "<nil>" || len(g.objects) != 1 || g.errs != nil || g.meta.ResourceVersion != "5" {
				t.Errorf("%s: %d items, %v, at %q, error %v", list, len(g.objects), g.errs, g.meta.ResourceVersion, g.end)
			}
		}
	}
}

// The items of a list that do not say their kind have the one that the list tells, in whatever
// order its members come; with HTTP.Kind that one, if the list is called otherwise.
func TestItemsWithoutKind(t *testing.T) {
	typ := reflect.TypeFor[*unstructured.Unstructured]()
	for _, tt := range []struct{ kind, list, want string }{
		{"", "GadgetList", "Gadget"}, {"Gadget", "GadgetList", "Gadget"}, {"", "Gadgets", "Gadgets"}, {"Gadget", "Gadgets", "Gadget"},
	} {
		members := []string{
			fmt.Sprintf(`"kind":%q`, tt.list), `"apiVersion":"g.example/v1"`, `"metadata":{"resourceVersion":"5"}`,
			`"items":[{"metadata":{"name":"a"}},{"metadata":{"name":7}},{"metadata":{"name":"c"},"kind":"Gadget","apiVersion":"g.example/v1"}]`,
		}
		if tt.want != "Gadget" {
			members[3] = `"items":[{"metadata":{"name":"a"}},{"metadata":{"name":7}},{"metadata":{"name":"c"}}]`
		}
		of := "g.example/v1 " + tt.want
		want := []string{of + " a", of + " 7", of + " c"}
		for first := range members {
			list := "{" + strings.Join(append(members[first:len(members):len(members)], members[:first]...), ",") + "}"
			for _, workers := range []int{-1, 2} {
				d := newDecoder[*unstructured.Unstructured](t, Options{Workers: workers, Kinds: NewKinds(typ, tt.kind)})
				d.batch = 1
				checkItems(t, d, []byte(list), JSON, want)
			}
		}
	}
}

// checkItems checks the version, kind and name of the untyped items of a list that is read twice,
// and that an error of yield ends it.
func checkItems(t *testing.T, d *Decoder, list []byte, enc Encoding, want []string) {
	t.Helper()
	for range 2 {
		var got []string
		m, err := d.List(bytes.NewReader(list), enc, func(o Object) error {
			u := o.Value.(*unstructured.Unstructured).Object
			got = append(got, fmt.Sprint(u["apiVersion"], " ", u["kind"], " ", u["metadata"].(map[string]any)["name"]))
			return o.Err
		})
		if diff := cmp.Diff(want, got); err != nil || diff != "" || m.ResourceVersion != "5" {
			t.Errorf("%d workers, %q: %v (-want +got):\n%s", d.opts.Workers, list, err, diff)
		}
	}
	stop, n := errors.New("enough"), 0
	if _, err := d.List(bytes.NewReader(list), enc, func(Object) error { n++; return stop }); err != stop || n != 1 {
		t.Errorf("%q: %d items and %v", list, n, err)
	}
}
