package decode

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	bookmark := &carp.Carp{TypeMeta: newCarp(0).TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	status := messageFor(t, "Status", "v1", &metav1.Status{Status: "Failure", Reason: "Expired", Code: 410, Message: "too old"})
	stream := bytes.Join([][]byte{
		frameOf(t, "ADDED", protobufOf(t, newCarp(1))), frameOf(t, "MODIFIED", protobufOf(t, newCarp(2))),
		frameOf(t, "BOOKMARK", protobufOf(t, bookmark)), frameOf(t, "DELETED", protobufOf(t, newCarp(1))), frameOf(t, "ERROR", status),
	}, nil)
	kind := Ident{APIVersion: carpGV.String(), Kind: "Carp"}
	for how, r := range map[string]io.Reader{"whole": bytes.NewReader(stream), "bytes": iotest.OneByteReader(bytes.NewReader(stream))} {
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
			{Type: "ADDED", Object: Object{Value: wantCarp(1), Ident: kind}}, {Type: "MODIFIED", Object: Object{Value: wantCarp(2), Ident: kind}},
			{Type: "BOOKMARK", Object: Object{Ident: kind}, ResourceVersion: "9", InitialEventsEnd: true}, {Type: "DELETED", Object: Object{Value: wantCarp(1), Ident: kind}},
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
		"end":            {good, 1, ""},
		"cut":            {good[:len(good)-1], 0, fmt.Sprintf("cut off at byte %d: unexpected EOF", len(good)-1)},
		"cut in length":  {append(bytes.Clone(good), 0, 0), 1, fmt.Sprintf("cut off at byte %d: unexpected EOF", len(good)+2)},
		"4 GiB":          {append(bytes.Clone(good), 0xff, 0xff, 0xff, 0xff), 1, fmt.Sprintf("more than %d bytes in one piece at byte %d", MaxObject, len(good)+4)},
		"empty":          {[]byte{0, 0, 0, 0}, 0, `an event "": invalid protobuf: an object begins with ""`},
		"no magic":       {frameOf(t, "ADDED", []byte("{}xx")), 0, `an event "ADDED": invalid protobuf: an object begins with "{}xx"`},
		"unknown type":   {frameOf(t, "WEIRD", protobufOf(t, newCarp(1))), 0, `an event of unknown type "WEIRD"`},
		"another kind":   {append(bytes.Clone(good), frameOf(t, "ADDED", protobufOf(t, &carp.CarpList{TypeMeta: metav1.TypeMeta{Kind: "CarpList", APIVersion: carpGV.String()}}))...), 1, "want Carp (the kind of *v1.Carp; set HTTP.Kind if it is called otherwise), got CarpList"},
		"an error alone": {frameOf(t, "ERROR", protobufOf(t, newCarp(1))), 0, `an ERROR event with a "Carp", not a Status`},
	} {
		events := 0
		err := newDecoder[*carp.Carp](t, Options{}).Watch(bytes.NewReader(tt.stream), Protobuf, func(e Event) error { events++; return e.Object.Err })
		if text := fmt.Sprint(err); events != tt.events || (err == nil) != (tt.err == "") || err != nil && text != tt.err {
			t.Errorf("%s: %d events, error %q; want %d, %q", name, events, text, tt.events, tt.err)
		}
	}
}

// An object where frames should be gets an error that says what it is, although its first bytes
// would be a large length.
func TestProtobufWithoutFrames(t *testing.T) {
	status := func(s metav1.Status) []byte { return messageFor(t, "Status", "v1", &s) }
	forbidden := status(metav1.Status{Status: "Failure", Reason: "Forbidden", Code: 403, Message: "no"})
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"a Status":              {forbidden, "no"},
		"a Status without one":  {enveloped(t, "Status", 0)[:len(enveloped(t, "Status", 0))-2], "the server answered with a Status, without a message"},
		"a Status of no words":  {status(metav1.Status{Reason: "Gone"}), `the server answered with a Status, reason "Gone", without a message`},
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
	if g := readWatch(newDecoder[*carp.Carp](t, Options{Limit: math.MaxInt32}), bytes.NewReader(forbidden), Protobuf); !strings.HasPrefix(g.end, "cut off at byte") {
		t.Errorf("with room for it: %s", g.end)
	}
}

// A list whose length ends inside one of its fields is an error: what follows would be taken for
// something else.
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
