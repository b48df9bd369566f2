package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// newCarp returns carp i, with something in every field.
func newCarp(i int) *carp.Carp {
	one, yes := int64(i), true
	c := "c"
	at := metav1.NewTime(time.Unix(1700000000+int64(i), 0))
	return &carp.Carp{
		TypeMeta: metav1.TypeMeta{Kind: "Carp", APIVersion: "testapigroup.apimachinery.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("carp-%d", i), UID: "u", ResourceVersion: fmt.Sprint(100 + i), Generation: 3, CreationTimestamp: at,
			DeletionTimestamp: &at, DeletionGracePeriodSeconds: &one, Labels: map[string]string{"a": "b", "app": "carp"}, Finalizers: []string{"x/y", "z"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pond", Name: "p", UID: "pu", Controller: &yes}, {Name: "q"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)}},
		},
		Spec: carp.CarpSpec{
			RestartPolicy: "Always", TerminationGracePeriodSeconds: &one, NodeSelector: map[string]string{"os": "linux"}, HostPID: true, NodeName: "node",
		},
		Status: carp.CarpStatus{
			Phase: "Running", StartTime: &at, Conditions: []carp.CarpCondition{{Type: "Ready", Status: "True", LastProbeTime: at}, {Type: "Other"}, {}},
			Infos: []carp.CarpInfo{{A: -1, B: "b", C: &c, Data: "d"}, {A: 1 << 40}},
		},
	}
}

var carpGV = schema.GroupVersion{Group: "testapigroup.apimachinery.k8s.io", Version: "v1"}

// protobufOf returns o as a server writes it.
func protobufOf(t testing.TB, o runtime.Object) []byte {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(carpGV, &carp.Carp{}, &carp.CarpList{})
	metav1.AddToGroupVersion(scheme, carpGV)
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// frameOf returns a watch event as a server writes it.
func frameOf(t testing.TB, typ string, object []byte) []byte {
	t.Helper()
	b, err := (&metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func carpList(t testing.TB, n int) []byte {
	l := &carp.CarpList{TypeMeta: metav1.TypeMeta{Kind: "CarpList", APIVersion: carpGV.String()}, ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "c"}}
	for i := range n {
		l.Items = append(l.Items, *newCarp(i))
	}
	return protobufOf(t, l)
}

// wantCarp is carp i as it comes from a server.
func wantCarp(i int) *carp.Carp {
	c := newCarp(i)
	c.TypeMeta = metav1.TypeMeta{}
	return c
}

func TestProtobufIsCompiled(t *testing.T) {
	for _, d := range []*Decoder{newDecoder[*carp.Carp](t, Options{}), newDecoder[*metav1.PartialObjectMetadata](t, Options{}), newDecoder[*metav1.Status](t, Options{})} {
		d.root.compileWire()
		if d.root.message == nil {
			t.Errorf("%v is not compiled", d.root.typ)
		}
	}
}

func TestOnlyOneEncodingIsCompiled(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{})
	if o := messageOf(d, mustMarshal(t, newCarp(1))); o.Err != nil || d.root.json != nil || d.root.message == nil {
		t.Errorf("error %v; JSON is compiled: %v, protobuf: %v", o.Err, d.root.json != nil, d.root.message != nil)
	}
	d = newDecoder[*carp.Carp](t, Options{})
	if _, err := decodeOne(d, []byte(`{"metadata":{"name":"a"}}`)); err != nil || d.root.json == nil || d.root.wired {
		t.Errorf("error %v; JSON is compiled: %v, protobuf: %v", err, d.root.json != nil, d.root.wired)
	}
}

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

// ownUnmarshal is a decoder that does not know the tags of its type.
func ownUnmarshal(t testing.TB) *Decoder {
	d := newDecoder[*carp.Carp](t, Options{})
	d.root.wired = true // by nothing
	return d
}

func TestProtobufListCut(t *testing.T) {
	whole := carpList(t, 3)
	d := newDecoder[*carp.Carp](t, Options{})
	for n := range whole {
		items := 0
		m, err := d.List(bytes.NewReader(whole[:n]), Protobuf, func(Object) error { items++; return nil })
		// What stands behind the list in its envelope is empty, so nothing is lost with it.
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
			e.More = false // which depends on what has been read
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

// An object in the place of frames is told as what it is, however large its first bytes would be as a length.
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
	// It is a length where there is room for so much.
	if g := readWatch(newDecoder[*carp.Carp](t, Options{Limit: math.MaxInt32}), bytes.NewReader(forbidden), Protobuf); !strings.HasPrefix(g.end, "cut off at byte") {
		t.Errorf("with room for it: %s", g.end)
	}
}

func TestProtobufObjectThatDoesNotFit(t *testing.T) {
	c := newCarp(1)
	meta, _ := c.ObjectMeta.Marshal()
	spec := []byte{3<<3 | wireVarint, 1} // restartPolicy as a number
	raw := append(append([]byte{1<<3 | wireBytes, byte(len(meta)), byte(len(meta) >> 7)}, meta...), 2<<3|wireBytes, byte(len(spec)))
	raw[1] |= 0x80
	raw = append(raw, spec...)
	for name, d := range map[string]*Decoder{"compiled": newDecoder[*carp.Carp](t, Options{}), "own": ownUnmarshal(t)} {
		o := messageOf(d, raw)
		want := Ident{Namespace: "ns", Name: "carp-1", UID: "u", ResourceVersion: "101"}
		if o.Err == nil || o.Ident != want {
			t.Errorf("%s: %+v, error %v; want %+v", name, o.Ident, o.Err, want)
		}
	}
}

func TestProtobufDrop(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{Drop: []string{"metadata.managedFields", "metadata.labels.app", "spec.nodeSelector", "status.conditions.lastProbeTime"}})
	o := messageOf(d, mustMarshal(t, newCarp(1)))
	want := wantCarp(1)
	want.ManagedFields, want.Spec.NodeSelector = nil, nil
	delete(want.Labels, "app")
	for i := range want.Status.Conditions {
		want.Status.Conditions[i].LastProbeTime = metav1.Time{}
	}
	if diff := cmp.Diff(want, o.Value); o.Err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", o.Err, diff)
	}
}

// messageOf decodes the message data; an abort is the object's error here.
func messageOf(d *Decoder, data []byte) Object {
	o, err := d.message(data)
	if err != nil {
		return Object{Err: err}
	}
	return o
}

func mustMarshal(t testing.TB, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzProtobufObject compares the compiled decoder with the generated one. That one does not look at the bounds and wire types in
// the entries of maps, so what it reads from such bytes is compared as it would write it.
func FuzzProtobufObject(f *testing.F) {
	f.Add(mustMarshal(f, newCarp(1)))
	f.Add(mustMarshal(f, &carp.Carp{}))
	f.Add([]byte{0x0a, 0x00, 0x12, 0x00, 0x0b, 0x0c})
	f.Add([]byte("C\xec\xec\xec\xec\xec\xec0"))
	f.Add(append(mustMarshal(f, newCarp(1)), mustMarshal(f, newCarp(2))...))
	decoders := []*Decoder{newDecoder[*carp.Carp](f, Options{}), newDecoder[*carp.Carp](f, Options{Share: true})}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &carp.Carp{}
		wantErr := want.Unmarshal(data)
		for _, d := range decoders {
			checkMessage(t, d, data, want, wantErr)
		}
	})
}

// checkMessage checks that d decodes data, several times, to what the generated code does.
func checkMessage(t *testing.T, d *Decoder, data []byte, want *carp.Carp, wantErr error) {
	for i := range 3 { // what it expects comes from what it has read
		if o := messageOf(d, mustMarshal(t, newCarp(i))); o.Err != nil || !reflect.DeepEqual(wantCarp(i), o.Value) {
			t.Fatalf("error %v (-want +got):\n%s", o.Err, cmp.Diff(wantCarp(i), o.Value))
		}
	}
	for range 3 {
		o := messageOf(d, data)
		if wantErr == nil && o.Err != nil {
			data = mustMarshal(t, want)
			want = &carp.Carp{}
			wantErr = want.Unmarshal(data)
			o = messageOf(d, data)
		}
		if (o.Err == nil) != (wantErr == nil) {
			t.Fatalf("got error %v, want %v", o.Err, wantErr)
		}
		if o.Err == nil && !reflect.DeepEqual(want, o.Value) {
			t.Fatalf("(-want +got):\n%s", cmp.Diff(want, o.Value))
		}
	}
}
