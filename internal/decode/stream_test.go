package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A list in protobuf or CBOR is read as it was written, by any decoder, however its bytes come.
func TestListsOfCarps(t *testing.T) {
	for name, d := range map[string]*Decoder{
		"compiled": newDecoder[*carp.Carp](t, Options{}), "shared": newDecoder[*carp.Carp](t, Options{Share: true}),
		"own": ownUnmarshal(t), "pool": newDecoder[*carp.Carp](t, Options{Workers: 2}),
	} {
		for enc, data := range map[Encoding][]byte{Protobuf: carpList(t, 30), CBOR: carpCBOR(t, 30)} {
			for how, r := range map[string]io.Reader{"whole": bytes.NewReader(data),
				"bytes": iotest.OneByteReader(bytes.NewReader(data))} {
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
		`{}`:                               {0, "no list: it has no kind"},
		`{"items":[]}`:                     {0, "no list: it has no kind"},
		`{"kind":null,"items":[]}`:         {0, "no list: it has no kind"},
		`{"kind":"SinkList",` + meta + `}`: {0, "<nil>"},
		`{` + meta + `,"kind":"SinkList","more":1}`:   {0, "<nil>"},
		`{"kind":"List",` + meta + `}`:                {0, "<nil>"},
		`{"kind":"Sinks",` + meta + `}`:               {0, "no list: it is a Sinks"},
		`{"kind":"SinkList","metadata":{"name":"a"}}`: {0, "no list: it is a SinkList"},
		`{"kind":"PikeList",` + meta + `}`: {0,
			"want a list of Sink (the kind of *decode.sink; set HTTP.Kind if it is called otherwise), got PikeList"},
		`{"kind":"Sink","items":[]}`:                {0, "no list: it is a Sink"},
		`{"items":[],"kind":"Sink"}`:                {0, "no list: it is a Sink"},
		`{"kind":"Table","rows":[]}`:                {0, "a Table, which is made for people, not a list"},
		`{"kind":"SinkList","items":[],"items":[]}`: {0, "a list with two items"},
		`{"kind":1}`:       {0, "json: cannot unmarshal number into Go value of type string"},
		`{"apiVersion":1}`: {0, "json: cannot unmarshal number into Go value of type string"},
		`{"metadata":1}`:   {0, "json: cannot unmarshal number into Go value of type v1.ListMeta"},
		`{"kind":"Status","message":"m","code":5}`: {0, "m"},
		`{"message":"m","kind":"Status"}`:          {0, "m"},
		`{"message":5,"kind":"Status","status":"Failure"}`: {0,
			`the server answered with a Status, status "Failure", without a message`},
		`{"kind":"Status","items":[]}`:                  {0, "the server answered with a Status, without a message"},
		`{"kind":"SinkList","items":7}`:                 {0, `invalid JSON at byte 27: '7', want '['`},
		`{"kind":"SinkList","items":nul}`:               {0, `invalid JSON at byte 30: items are "nul"`},
		`{"kind":"SinkList","items":[` + sinkA + `,]}`:  {1, ""},
		`{"kind":"SinkList","items":[` + sinkA + ` 5]}`: {1, ""},
		`{"kind":"SinkList","items":[` + sinkA + `]`:    {1, ""},
		`{"kind":"SinkList","items":[` + sinkA + `]} x`: {1, ""},
		`{"kind":"SinkList","items":[],}`:               {0, `invalid JSON at byte 30: '}', want '"'`},
		`{"kind":"SinkList" "items":[]}`:                {0, `invalid JSON at byte 19: '"', want '}'`},
		`{"kind" "SinkList"}`:                           {0, `invalid JSON at byte 8: '"', want ':'`},
		`{kind:"SinkList"}`:                             {0, `invalid JSON at byte 1: 'k', want '"'`},
		`{"kind":tru}`:                                  {0, "invalid JSON at byte 8: 't', want true"},
		`{"ki\xnd":1}`:                                  {0, "invalid JSON at byte 4: invalid escape in a string"},
		`[]`:                                            {0, `invalid JSON at byte 0: '[', want '{'`},
		``:                                              {0, "cut off at byte 0: unexpected EOF"},
		`{`:                                             {0, "cut off at byte 1: unexpected EOF"},
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

// Unknown members of a list, of any type, are skipped before the items and behind them.
func TestUnknownMembersOfLists(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, value := range []string{`[1,[2],{"a":"]"}]`, `[]`, `{}`, `{"a":{"b":"}"}}`, `"x"`, `""`, `"\"]"`, `1`, `-1.5e3`,
		`true`, `false`, `null`} {
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
		{"", "GadgetList", "Gadget"}, {"Gadget", "GadgetList", "Gadget"}, {"", "Gadgets", "Gadgets"},
		{"Gadget", "Gadgets", "Gadget"},
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

var carpGV = schema.GroupVersion{Group: "testapigroup.apimachinery.k8s.io", Version: "v1"}

// ownUnmarshal returns a decoder that does not use the tags of its type.
func ownUnmarshal(t fataler) *Decoder {
	d := newDecoder[*carp.Carp](t, Options{})
	// As if compileMessage had found no tags.
	d.root.messageCompiled = true
	return d
}

func TestProtobufListCut(t *testing.T) {
	whole := carpList(t, 3)
	d := newDecoder[*carp.Carp](t, Options{})
	for n := range whole {
		g := readList(d, bytes.NewReader(whole[:n]), Protobuf)
		items := len(g.objects) + len(g.errs)
		// The fields behind the list in its envelope are empty, so nothing is lost without them.
		if g.end == "<nil>" && (items < 3 || g.meta.ResourceVersion != "77" || n < len(whole)-4) {
			t.Errorf("cut at byte %d of %d: %d items, no error", n, len(whole), items)
		}
	}
}

func TestProtobufWatch(t *testing.T) {
	bookmark := &carp.Carp{TypeMeta: newCarp(0).TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	status := messageFor(t, "Status", "v1", &metav1.Status{Status: "Failure", Reason: "Expired", Code: 410,
		Message: "too old"})
	stream := bytes.Join([][]byte{
		frameOf(t, "ADDED", protobufOf(t, newCarp(1))), frameOf(t, "MODIFIED", protobufOf(t, newCarp(2))),
		frameOf(t, "BOOKMARK", protobufOf(t, bookmark)), frameOf(t, "DELETED", protobufOf(t, newCarp(1))),
		frameOf(t, "ERROR", status),
	}, nil)
	kind := Ident{APIVersion: carpGV.String(), Kind: "Carp"}
	for how, r := range map[string]io.Reader{"whole": bytes.NewReader(stream),
		"bytes": iotest.OneByteReader(bytes.NewReader(stream))} {
		var got []Event
		err := newDecoder[*carp.Carp](t, Options{}).Watch(r, Protobuf, func(e Event) error {
			// More depends on what has been read.
			e.More = false
			got = append(got, e)
			return nil
		})
		if err == nil || err.Error() != "too old" {
			t.Errorf("%s: error %v, want the status", how, err)
		}
		want := []Event{
			{Type: "ADDED", Object: Object{Value: wantCarp(1), Ident: kind}},
			{Type: "MODIFIED", Object: Object{Value: wantCarp(2), Ident: kind}},
			{Type: "BOOKMARK", Object: Object{Ident: kind}, ResourceVersion: "9", InitialEventsEnd: true},
			{Type: "DELETED", Object: Object{Value: wantCarp(1), Ident: kind}},
		}
		checkDiff(t, how, want, got)
	}
}

func TestProtobufWatchBroken(t *testing.T) {
	good := frameOf(t, "ADDED", protobufOf(t, newCarp(1)))
	for name, tt := range map[string]struct {
		stream []byte
		events int
		err    string
	}{
		"end": {good, 1, ""},
		"cut": {good[:len(good)-1], 0, fmt.Sprintf("cut off at byte %d: unexpected EOF", len(good)-1)},
		"cut in length": {append(bytes.Clone(good), 0, 0), 1, fmt.Sprintf("cut off at byte %d: unexpected EOF",
			len(good)+2)},
		"4 GiB": {append(bytes.Clone(good), 0xff, 0xff, 0xff, 0xff), 1,
			fmt.Sprintf("more than %d bytes in one piece at byte %d", MaxObject, len(good)+4)},
		"empty": {[]byte{0, 0, 0, 0}, 0, `an event "": invalid protobuf: an object begins with ""`},
		"no magic": {frameOf(t, "ADDED", []byte("{}xx")), 0,
			`an event "ADDED": invalid protobuf: an object begins with "{}xx"`},
		"unknown type": {frameOf(t, "WEIRD", protobufOf(t, newCarp(1))), 0, `an event of unknown type "WEIRD"`},
		"another kind": {append(bytes.Clone(good),
			frameOf(t, "ADDED", protobufOf(t, &carp.CarpList{TypeMeta: metav1.TypeMeta{Kind: "CarpList",
				APIVersion: carpGV.String()}}))...), 1,
			"want Carp (the kind of *v1.Carp; set HTTP.Kind if it is called otherwise), got CarpList"},
		"an error alone": {frameOf(t, "ERROR", protobufOf(t, newCarp(1))), 0, `an ERROR event with a "Carp", not a Status`},
	} {
		events := 0
		err := newDecoder[*carp.Carp](t, Options{}).Watch(bytes.NewReader(tt.stream), Protobuf,
			func(e Event) error { events++; return e.Object.Err })
		if text := fmt.Sprint(err); events != tt.events || (err == nil) != (tt.err == "") || err != nil && text != tt.err {
			t.Errorf("%s: %d events, error %q; want %d, %q", name, events, text, tt.events, tt.err)
		}
	}
}

// An object where frames should be is an error that names it: its first bytes would be a length.
func TestProtobufWithoutFrames(t *testing.T) {
	status := func(s metav1.Status) []byte { return messageFor(t, "Status", "v1", &s) }
	forbidden := status(metav1.Status{Status: "Failure", Reason: "Forbidden", Code: 403, Message: "no"})
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"a Status": {forbidden, "no"},
		"a Status without one": {enveloped(t, "Status", 0)[:len(enveloped(t, "Status", 0))-2],
			"the server answered with a Status, without a message"},
		"a Status of no words": {status(metav1.Status{Reason: "Gone"}),
			`the server answered with a Status, reason "Gone", without a message`},
		"a Status that is cut":  {forbidden[:30], "cut off at byte 30: unexpected EOF"},
		"a broken Status":       {append(enveloped(t, "Status", 2), 0x0a, 0x7f), "unexpected EOF"},
		"an object":             {protobufOf(t, newCarp(1)), "no event: it is a Carp"},
		"a list":                {carpList(t, 2), "no event: it is a CarpList"},
		"behind a frame":        {append(frameOf(t, "ADDED", protobufOf(t, newCarp(1))), forbidden...), "no"},
		"nothing but the start": {[]byte(magic), "cut off at byte 4: unexpected EOF"},
		"groups":                {append([]byte(magic), 3<<3|wireGroup), "invalid protobuf: wire type 3 at byte 5"},
	} {
		for _, r := range []io.Reader{bytes.NewReader(tt.data), iotest.OneByteReader(bytes.NewReader(tt.data))} {
			if g := readWatch(newDecoder[*carp.Carp](t, Options{}), r, Protobuf); g.end != tt.want {
				t.Errorf("%s: %s, want %s", name, g.end, tt.want)
			}
		}
	}
	// It is a length if the limit is large enough.
	if g := readWatch(newDecoder[*carp.Carp](t, Options{Limit: math.MaxInt32}), bytes.NewReader(forbidden),
		Protobuf); !strings.HasPrefix(g.end, "cut off at byte") {
		t.Errorf("with room for it: %s", g.end)
	}
}

// A list whose length ends in a field is an error: what follows would be taken for something else.
func TestProtobufListEndsInField(t *testing.T) {
	whole := carpList(t, 3)
	var u runtime.Unknown
	ok(t, u.Unmarshal(whole[4:]))
	ends := map[int]bool{len(u.Raw): true} // where fields of the list end
	w := &wire{data: u.Raw}
	for !w.done() {
		ends[w.pos] = true
		_, _, err := w.field()
		ok(t, err)
		must[[]byte](t)(w.bytes())
	}
	for n := range len(u.Raw) + 1 {
		data := append(enveloped(t, "CarpList", uint64(n)), u.Raw...)
		g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(data), Protobuf)
		if inField := fmt.Sprintf("invalid protobuf: a list of %d bytes ends in a field", n); !ends[n] && g.end != inField {
			t.Errorf("%d bytes of %d: %s, want %s", n, len(u.Raw), g.end, inField)
		} else if ends[n] && strings.Contains(g.end, "ends in a field") || n == len(u.Raw) && g.end != "<nil>" {
			t.Errorf("%d bytes of %d, where a field ends: %s", n, len(u.Raw), g.end)
		}
	}
}

var watches = map[string]func(*Decoder, io.Reader, Encoding, func(Event) error) error{"watch": (*Decoder).Watch,
	"list": (*Decoder).WatchList}

// An event is yielded as soon as it has come, whatever follows it.
func TestEventsAreNotHeldBack(t *testing.T) {
	check := func(enc Encoding, event, behind string) {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			yielded := 0
			go func() {
				defer w.Close()
				for i := range 3 {
					_, _ = io.WriteString(w, event[:100])
					_, _ = io.WriteString(w, event[100:]+behind)
					if synctest.Wait(); yielded != i+1 {
						t.Errorf("%q behind: %d events were yielded, want %d", behind, yielded, i+1)
					}
				}
			}()
			ok(t, newDecoder[*sink](t, Options{}).Watch(r, enc, func(e Event) error {
				if yielded++; e.More {
					t.Errorf("%q behind: event %d says that another one is there", behind, yielded)
				}
				return nil
			}))
		})
	}
	event := `{"type":"ADDED","object":` + sinkA + `}`
	for _, event := range []string{event, strings.ReplaceAll(event, ",", ",\n")} {
		for _, behind := range []string{"\n", "", " ", "\r", "\r\n", "\n\n", " \t"} {
			check(JSON, event, behind)
		}
	}
	check(CBOR, string(cborEvent(t, "ADDED", json.RawMessage(sinkA))), "")
}

// Bytes that cannot become an event are an error at once. No bytes are awaited that may never come.
func TestInvalidLinesAreNotHeldBack(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	streams := map[string]Encoding{string(cborEvent(t, "ADDED", json.RawMessage(sinkA))) + "\xa1\x1c": CBOR}
	for _, line := range []string{
		"{\"type\": oops\n", "{\"type\":\"ADDED\",\"object\":{\"metadata\":{oops\n",
		"{\"type\":\"ADDED\",\"object\":{\"spec\":{\"str\":\"no end\n", "{\"type\":\"\\x\n", "{{\n", "{{}",
		"{\"type\": oops\n{\"typ", "{\"type\":oops\n{\"typ",
		`{"type":"ADDED","object":{"metadata":{[]}`, `{"type":"ADDED","object":{"metadata":{}] {}`,
		"{\"type\":\"ADDED\",\"object\":{\"spec\":{\"i8\":300},\"metadata\":{oops\n", "<html>",
		"{\"object\":{},\"type\":tru\n",
	} {
		streams[event+line] = JSON
	}
	for stream, enc := range streams {
		for _, size := range []int{1, 7, 1 << 10} {
			for name, watch := range watches {
				synctest.Test(t, func(t *testing.T) {
					r, w := io.Pipe()
					var err error
					yielded := 0
					go func() {
						err = watch(newDecoder[*sink](t, Options{Workers: 2}), r, enc, func(Event) error { yielded++; return nil })
						r.Close()
					}()
					for piece := range slices.Chunk([]byte(stream), size) {
						_, _ = w.Write(piece)
					}
					synctest.Wait() // and nothing more comes
					_, told := err.(*SyntaxError)
					if enc == CBOR {
						told = errors.Is(err, errCBOR)
					}
					if !told || yielded != 1 {
						t.Errorf("%s, %q in pieces of %d: %d events, error %v", name, stream, size, yielded, err)
					}
					w.Close()
				})
			}
		}
	}
}

// More is true for an event if the whole next event has come, but never among the initial events.
func TestMore(t *testing.T) {
	event, end := `{"type":"ADDED","object":`+sinkA+"}\n", initialEventsEnd
	fish := string(frameOf(t, "ADDED", protobufOf(t, newCarp(1))))
	inCBOR := string(cborEvent(t, "ADDED", json.RawMessage(sinkA)))
	for name, tc := range map[string]struct {
		enc    Encoding
		pieces []string
		watch  string
		want   []bool
	}{
		"together": {JSON, []string{event + event + event}, "watch", []bool{true, true, false}},
		"apart":    {JSON, []string{event, event, event}, "watch", []bool{false, false, false}},
		"half": {JSON, []string{event + event[:50], event[50:] + event[:len(event)-1], "\n"}, "watch",
			[]bool{false, false, false}},
		"indented": {JSON, []string{event + strings.ReplaceAll(event[:100], ",", ",\n"), event[100:]}, "watch",
			[]bool{false, false}},
		"initial": {JSON, []string{event + event + end + event + event}, "list",
			[]bool{false, false, true, true, false}},
		"protobuf": {Protobuf, []string{fish + fish}, "watch",
			[]bool{true, false}}, // more than idleBuffer has room for is not seen
		"CBOR":                {CBOR, []string{inCBOR, inCBOR, inCBOR + inCBOR}, "watch", []bool{false, false, true, false}},
		"protobuf, half":      {Protobuf, []string{fish + fish[:50], fish[50:]}, "watch", []bool{false, false}},
		"protobuf, no length": {Protobuf, []string{fish + fish[:4], fish[4:]}, "watch", []bool{false, false}},
	} {
		d := newDecoder[*sink](t, Options{})
		if tc.enc == Protobuf {
			d = newDecoder[*carp.Carp](t, Options{})
		}
		var got []bool
		ok(t, watches[tc.watch](d, inPieces(tc.pieces...), tc.enc, func(e Event) error {
			got = append(got, e.More)
			return nil
		}))
		checkDiff(t, name, tc.want, got)
	}
}

// A bookmark needs a resource version. Only the annotation's value "true" ends the initial events.
func TestBookmarks(t *testing.T) {
	type yielded struct {
		version, err string
		end          bool
	}
	kind := Ident{APIVersion: carpGV.String(), Kind: "Carp"}
	meta := func(version string, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{ResourceVersion: version, Annotations: annotations}
	}
	end := func(value string) map[string]string {
		return map[string]string{metav1.InitialEventsAnnotationKey: value, "other": "true"}
	}
	for how, tt := range map[string]struct {
		meta metav1.ObjectMeta
		want yielded
	}{
		"plain":        {meta("5", nil), yielded{version: "5"}},
		"the end":      {meta("5", end("true")), yielded{version: "5", end: true}},
		"not the end":  {meta("5", end("false")), yielded{version: "5"}},
		"another case": {meta("5", end("True")), yielded{version: "5"}},
		"a number":     {meta("5", end("1")), yielded{version: "5"}},
		"no value":     {meta("5", end("")), yielded{version: "5"}},
		"another annotation": {meta("5", map[string]string{"k8s.io/initial-events-begin": "true"}),
			yielded{version: "5"}},
		"no version":               {meta("", nil), yielded{err: "a bookmark without a resource version"}},
		"an end without a version": {meta("", end("true")), yielded{err: "a bookmark without a resource version"}},
	} {
		c := &carp.Carp{TypeMeta: newCarp(0).TypeMeta, ObjectMeta: tt.meta}
		for enc, stream := range map[Encoding][]byte{
			JSON:     fmt.Appendf(nil, `{"type":"BOOKMARK","object":%s}`+"\n", mustJSON(t, c)),
			Protobuf: frameOf(t, "BOOKMARK", protobufOf(t, c)), CBOR: cborEvent(t, "BOOKMARK", c),
		} {
			for name, watch := range watches {
				var got yielded
				err := watch(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(stream), enc, func(e Event) error {
					got.version, got.end = e.ResourceVersion, e.InitialEventsEnd
					if e.Type != "BOOKMARK" || !reflect.DeepEqual(e.Object, Object{Ident: kind}) || e.More {
						t.Errorf("%s: %+v", how, e)
					}
					return nil
				})
				if err != nil {
					got.err = err.Error()
				}
				if got != tt.want {
					t.Errorf("%s, encoding %d, %s: %+v, want %+v", how, enc, name, got, tt.want)
				}
			}
		}
	}
}
