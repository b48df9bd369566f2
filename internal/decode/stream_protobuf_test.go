package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var carpGV = schema.GroupVersion{Group: "testapigroup.apimachinery.k8s.io", Version: "v1"}

func TestProtobufList(t *testing.T) {
	for name, d := range map[string]*Decoder{
		"compiled": newDecoder[*carp.Carp](t, Options{}),
		"shared":   newDecoder[*carp.Carp](t, Options{Share: true}),
		"own":      ownUnmarshal(t),
	} {
		for how, r := range map[string]io.Reader{
			"whole": bytes.NewReader(carpList(t, 30)), "bytes": iotest.OneByteReader(bytes.NewReader(carpList(t, 30))),
		} {
			n := 0
			m, err := d.List(r, Protobuf, func(o Object) error {
				if diff := cmp.Diff(wantCarp(n), o.Value); o.Err != nil || diff != "" {
					return fmt.Errorf("item %d: %v (-want +got):\n%s", n, o.Err, diff)
				}
				n++
				return nil
			})
			if err != nil || n != 30 || m.ResourceVersion != "77" || m.Continue != "c" {
				t.Errorf("%s, %s: %d items, metadata %v, error %v", name, how, n, m, err)
			}
		}
	}
}

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
		items := 0
		m, err := d.List(bytes.NewReader(whole[:n]), Protobuf, func(Object) error { items++; return nil })
		// The fields behind the list in its envelope are empty, so nothing is lost without them.
		if err == nil && (items < 3 || m.ResourceVersion != "77" || n < len(whole)-4) {
			t.Errorf("cut at byte %d of %d: %d items, no error", n, len(whole), items)
		}
	}
}

func TestProtobufWatch(t *testing.T) {
	bookmark := &carp.Carp{TypeMeta: newCarp(0).TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	status := func() []byte {
		s := metav1.Status{Status: "Failure", Reason: "Expired", Code: 410, Message: "too old"}
		raw, _ := s.Marshal()
		u, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Status", APIVersion: "v1"}, Raw: raw}).Marshal()
		return append([]byte("k8s\x00"), u...)
	}()
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
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", how, diff)
		}
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
	status := func(s metav1.Status) []byte {
		u := &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Status", APIVersion: "v1"}, Raw: mustMarshal(t, &s)}
		return append([]byte(magic), mustMarshal(t, u)...)
	}
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

// bytesField returns a field of a protobuf message that claims to have n bytes.
func bytesField(num int, n int, data []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(num)<<3|2)
	return append(binary.AppendUvarint(out, uint64(n)), data...)
}

// A list is an error if its length ends in the middle of a field, wherever that is and whatever
// follows.
func TestProtobufListThatEndsInAField(t *testing.T) {
	list := &carp.CarpList{ListMeta: metav1.ListMeta{ResourceVersion: "77"}, Items: []carp.Carp{*newCarp(1), *newCarp(2)}}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	// The list's metadata, then its items.
	whole := map[int]bool{0: true}
	for at := 0; at < len(raw); {
		_, size := binary.Uvarint(raw[at+1:])
		n, _ := binary.Uvarint(raw[at+1:])
		at += 1 + size + int(n)
		whole[at] = true
	}
	d := newDecoder[*carp.Carp](t, Options{})
	for n := range len(raw) + 1 {
		kind := bytesField(2, len("CarpList"), []byte("CarpList"))
		data := append([]byte("k8s\x00"), bytesField(1, len(kind), kind)...)
		data = append(data, bytesField(2, n, raw)...)
		items := 0
		_, err := d.List(bytes.NewReader(data), Protobuf, func(Object) error { items++; return nil })
		if whole[n] && n < len(raw) {
			// What follows is taken for fields of the envelope.
			continue
		}
		if (err == nil) != (n == len(raw)) {
			t.Fatalf("a list of %d bytes that is said to have %d: %d items, error %v", len(raw), n, items, err)
		}
	}
}

// A stream that ends too early is an error, wherever it ends. It is never a shorter list.
func TestCutProtobufList(t *testing.T) {
	data := carpList(t, 3)
	d := newDecoder[*carp.Carp](t, Options{})
	// The last bytes are fields of the envelope that nobody needs.
	for n := range len(data) - 16 {
		items := 0
		if _, err := d.List(bytes.NewReader(data[:n]), Protobuf, func(Object) error { items++; return nil }); err == nil {
			t.Fatalf("%d of %d bytes are a list of %d", n, len(data), items)
		}
	}
}

// A list whose length ends inside one of its fields is an error: what follows would be taken for
// something else.
func TestProtobufListEndsInField(t *testing.T) {
	whole := carpList(t, 3)
	var u runtime.Unknown
	if err := u.Unmarshal(whole[4:]); err != nil {
		t.Fatal(err)
	}
	ends := map[int]bool{len(u.Raw): true} // where fields of the list end
	w := &wire{data: u.Raw}
	for !w.done() {
		ends[w.pos] = true
		if _, _, err := w.field(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.bytes(); err != nil {
			t.Fatal(err)
		}
	}
	apiVersion := mustMarshal(t, &runtime.Unknown{TypeMeta: u.TypeMeta})
	head := len(magic) + 2 + int(apiVersion[1])
	for n := range len(u.Raw) + 1 {
		data := binary.AppendUvarint(append([]byte(magic), append(apiVersion[:head-len(magic):head-len(magic)], 2<<3|wireBytes)...), uint64(n))
		data = append(data, u.Raw...)
		g := readList(newDecoder[*carp.Carp](t, Options{}), bytes.NewReader(data), Protobuf)
		if inField := fmt.Sprintf("invalid protobuf: a list of %d bytes ends in a field", n); !ends[n] && g.end != inField {
			t.Errorf("%d bytes of %d: %s, want %s", n, len(u.Raw), g.end, inField)
		} else if ends[n] && strings.Contains(g.end, "ends in a field") {
			t.Errorf("%d bytes of %d, where a field ends: %s", n, len(u.Raw), g.end)
		}
	}
}
