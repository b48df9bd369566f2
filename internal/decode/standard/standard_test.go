package standard_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// A slim is a projection, which is no runtime.Object.
type slim struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec              struct {
		NodeName string            `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
		Labels   map[string]string `json:"nodeSelector" protobuf:"bytes,7,rep,name=nodeSelector"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

var (
	carps        = reflect.TypeFor[*carp.Carp]()
	untyped      = reflect.TypeFor[*unstructured.Unstructured]()
	metadataOnly = reflect.TypeFor[*metav1.PartialObjectMetadata]()
	slims        = reflect.TypeFor[*slim]()
)

func newCarp(name, version string) *carp.Carp {
	grace := int64(30)
	c := &carp.Carp{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Carp"}}
	c.Namespace, c.Name, c.ResourceVersion, c.UID = "ns", name, version, "u"
	c.Labels, c.Annotations = map[string]string{"app": name, "tier": "x"},
		map[string]string{"note": strings.Repeat("long ", 50)}
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
	c.CreationTimestamp = metav1.Unix(1700000000, 0)
	c.Spec.NodeName, c.Spec.TerminationGracePeriodSeconds, c.Spec.NodeSelector = "n1", &grace, map[string]string{"a": "b"}
	c.Status.Conditions = []carp.CarpCondition{{Type: "Ready", Status: "True"}}
	return c
}

// A body is what a server answers, in each encoding that has it.
type body map[decode.Encoding][]byte

// object returns c with its members changed, which protobuf is without.
func object(t testing.TB, c *carp.Carp, change func(map[string]any)) body {
	t.Helper()
	text := rig.Must[[]byte](t)(json.Marshal(c))
	out := body{}
	if change == nil {
		raw := rig.Must[[]byte](t)(c.Marshal())
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: c.APIVersion, Kind: c.Kind}, Raw: raw}
		out[decode.Protobuf] = append([]byte("k8s\x00"), rig.Must[[]byte](t)(u.Marshal())...)
	}
	var content map[string]any
	rig.OK(t, json.Unmarshal(text, &content))
	if change != nil {
		change(content)
	}
	out[decode.JSON] = rig.Must[[]byte](t)(json.Marshal(content))
	out[decode.CBOR] = rig.Must[[]byte](t)(direct.Marshal(content))
	return out
}

// event returns the event of type typ of object.
func (object body) event(t testing.TB, typ string) body {
	t.Helper()
	out := body{decode.JSON: fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", typ, object[decode.JSON])}
	cbor := runtime.RawExtension{Raw: append([]byte{0xd9, 0xd9, 0xf7}, object[decode.CBOR]...)}
	out[decode.CBOR] = rig.Must[[]byte](t)(direct.Marshal(&metav1.WatchEvent{Type: typ, Object: cbor}))
	if raw := object[decode.Protobuf]; raw != nil {
		frame := rig.Must[[]byte](t)((&metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: raw}}).Marshal())
		out[decode.Protobuf] = append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	}
	return out
}

// list returns a list of objects, of the kind that it says.
func list(t *testing.T, kind string, objects ...body) body {
	t.Helper()
	meta := metav1.ListMeta{ResourceVersion: "9", Continue: "c"}
	head := map[string]any{"kind": kind, "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "9",
		"continue": "c"}}
	var texts [][]byte
	items := []any{}
	proto := append([]byte{1<<3 | 2}, field(rig.Must[[]byte](t)(meta.Marshal()))...)
	for _, o := range objects {
		texts = append(texts, o[decode.JSON])
		var content any
		rig.OK(t, json.Unmarshal(o[decode.JSON], &content))
		items = append(items, content)
		if raw := o[decode.Protobuf]; raw != nil && proto != nil {
			var u runtime.Unknown
			rig.OK(t, u.Unmarshal(raw[4:]))
			proto = append(append(proto, 2<<3|2), field(u.Raw)...)
		} else {
			proto = nil
		}
	}
	out := body{}
	text := rig.Must[[]byte](t)(json.Marshal(head))
	out[decode.JSON] = fmt.Appendf(nil, `%s,"items":[%s]}`, text[:len(text)-1], bytes.Join(texts, []byte(",")))
	head["items"] = items
	out[decode.CBOR] = rig.Must[[]byte](t)(direct.Marshal(head))
	if proto != nil {
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: proto}
		out[decode.Protobuf] = append([]byte("k8s\x00"), rig.Must[[]byte](t)(u.Marshal())...)
	}
	return out
}

func field(data []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(data))), data...) }

// A told is what a decoder has yielded, and what it has ended with.
type told struct {
	Events []decode.Event
	Meta   metav1.ListMeta
	Err    error
}

func read(t *testing.T, typ reflect.Type, opts decode.Options, own bool, setup func(standard.Decoder), watch bool,
	enc decode.Encoding, data []byte) (got told) {
	t.Helper()
	opts.Kinds = decode.NewKinds(typ, "Carp")
	d := rig.Must[standard.Decoder](t)(standard.New(typ, opts, !own))
	if _, lw := d.(*decode.Decoder); lw != own {
		t.Fatalf("New made a %T", d)
	}
	if setup != nil {
		setup(d)
	}
	if watch {
		got.Err = d.WatchList(bytes.NewReader(data), enc, func(ev decode.Event) error {
			ev.More = false // a hint, as the kind of what is passed over
			if ev.Object.Passed != 0 {
				ev.Object.Ident = decode.Ident{}
			}
			got.Events = append(got.Events, ev)
			return nil
		})
		return got
	}
	got.Meta, got.Err = d.List(bytes.NewReader(data), enc, func(o decode.Object) error {
		if o.Passed != 0 {
			o.Ident = decode.Ident{}
		}
		got.Events = append(got.Events, decode.Event{Object: o})
		return nil
	})
	return got
}

// sameErrors compares only whether there are errors: their words are each decoder's own.
var sameErrors = cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) })

var encodings = map[string]decode.Encoding{"JSON": decode.JSON, "protobuf": decode.Protobuf, "CBOR": decode.CBOR}

// What a server sends is the same objects, identities and errors by either decoder.
func TestAsLW(t *testing.T) {
	a, b := object(t, newCarp("a", "5"), nil), object(t, newCarp("b", "6"), nil)
	without := func(members ...string) func(map[string]any) {
		return func(m map[string]any) {
			for _, name := range members {
				delete(m, name)
			}
		}
	}
	bare := object(t, newCarp("bare", "7"), without("kind", "apiVersion"))
	wrong := object(t, newCarp("wrong", "7"),
		func(m map[string]any) { m["spec"] = map[string]any{"nodeName": []any{int64(1)}, "nodeSelector": 1.5} })
	other := object(t, newCarp("c", "8"), func(m map[string]any) { m["kind"] = "Tench" })
	nameless := object(t, newCarp("", "8"), nil)
	mark := newCarp("", "7")
	mark.ObjectMeta = metav1.ObjectMeta{ResourceVersion: "7",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	status := func(m map[string]any) {
		clear(m)
		m["kind"], m["apiVersion"], m["status"], m["message"], m["reason"], m["code"] = "Status", "v1", "Failure", "too old",
			"Expired", int64(410)
	}
	gone := object(t, newCarp("", ""), status)
	gone[decode.Protobuf] = func() []byte {
		s := metav1.Status{Status: "Failure", Message: "too old", Reason: "Expired", Code: 410}
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Raw: rig.Must[[]byte](t)(s.Marshal())}
		return append([]byte("k8s\x00"), rig.Must[[]byte](t)(u.Marshal())...)
	}()
	broken := object(t, newCarp("", ""), func(m map[string]any) {
		status(m)
		m["code"] = "gone"
	})
	allowed := object(t, newCarp("a", "5"), func(m map[string]any) {
		m["kind"], m["apiVersion"] = "AllowList", "acme.io/v1"
	})
	null := body{decode.JSON: []byte("null"), decode.CBOR: {0xf6}}
	events := func(all ...body) body {
		out := body{}
		for _, enc := range encodings {
			for _, ev := range all {
				if ev[enc] == nil {
					delete(out, enc)
					break
				}
				out[enc] = append(out[enc], ev[enc]...)
			}
		}
		return out
	}
	wanted := func(d standard.Decoder) { d.PassOver(func(_, name string) bool { return name == "b" }) }
	only := decode.Options{Only: []string{"spec.nodeSelector.a", "metadata.labels.app", "status.conditions.type"}}
	drop := decode.Options{Drop: []string{"metadata.managedFields", "spec.nodeName", "metadata.annotations"}}
	for name, tt := range map[string]struct {
		data  body
		watch bool
		opts  decode.Options
		setup func(standard.Decoder)
		types []reflect.Type // nil: all
	}{
		"a list":                       {data: list(t, "CarpList", a, b)},
		"an empty list":                {data: list(t, "CarpList")},
		"items without a kind":         {data: list(t, "CarpList", bare, bare)},
		"an item that does not fit":    {data: list(t, "CarpList", a, wrong, b), types: []reflect.Type{carps, slims}},
		"an item that is null":         {data: list(t, "CarpList", a, null, b)},
		"another list":                 {data: list(t, "TenchList", bare)},
		"items of another kind":        {data: list(t, "CarpList", a, other)},
		"an object in place of a list": {data: a},
		"an object called a list":      {data: allowed},
		"a Status in place of a list":  {data: gone},
		"a list with Only":             {data: list(t, "CarpList", a, b), opts: only, types: []reflect.Type{carps, untyped}},
		"a list with Drop":             {data: list(t, "CarpList", a, b), opts: drop, types: []reflect.Type{carps, untyped}},
		"a list that nobody wants":     {data: list(t, "CarpList", a, b), setup: wanted},
		"no list": {data: body{decode.JSON: []byte("<html>"), decode.Protobuf: []byte("<html>"),
			decode.CBOR: []byte("<html>")}},
		"events": {watch: true, data: events(a.event(t, "ADDED"), b.event(t, "MODIFIED"),
			a.event(t, "DELETED"))},
		"a bookmark": {watch: true, data: events(a.event(t, "ADDED"),
			object(t, mark, nil).event(t, "BOOKMARK"), b.event(t, "ADDED"))},
		"an error": {watch: true, data: events(a.event(t, "ADDED"), gone.event(t, "ERROR"),
			b.event(t, "ADDED"))},
		"an error that is no Status": {watch: true, data: events(broken.event(t, "ERROR"))},
		"an object that does not fit": {watch: true, data: events(a.event(t, "ADDED"), wrong.event(t, "MODIFIED"),
			b.event(t, "ADDED")), types: []reflect.Type{carps, slims}},
		"no name":                 {watch: true, data: events(nameless.event(t, "ADDED"), b.event(t, "ADDED"))},
		"an unknown type":         {watch: true, data: events(a.event(t, "WEIRD"))},
		"another kind":            {watch: true, data: events(a.event(t, "ADDED"), other.event(t, "ADDED"))},
		"an event without a kind": {watch: true, data: events(bare.event(t, "ADDED"))},
		"a Status in place of events": {watch: true, data: body{decode.JSON: gone[decode.JSON],
			decode.Protobuf: gone[decode.Protobuf], decode.CBOR: gone[decode.CBOR]}},
		"an object in place of events": {watch: true, data: a},
		"events with Only": {watch: true, data: events(a.event(t, "ADDED"), b.event(t, "MODIFIED")), opts: only,
			types: []reflect.Type{carps, untyped}},
		"events with Drop": {watch: true, data: events(a.event(t, "ADDED"), b.event(t, "MODIFIED")), opts: drop,
			types: []reflect.Type{carps, untyped}},
		"events that nobody wants": {watch: true, data: events(a.event(t, "ADDED"), b.event(t, "MODIFIED")),
			setup: wanted},
		"an event that is too large": {watch: true, data: events(a.event(t, "ADDED")), opts: decode.Options{Limit: 100}},
		"an item that is too large":  {data: list(t, "CarpList", a), opts: decode.Options{Limit: 100}},
		"no events": {watch: true, data: body{decode.JSON: []byte("<html>"),
			decode.Protobuf: []byte("<html>"), decode.CBOR: []byte("<html>")}},
	} {
		for form, enc := range encodings {
			types := tt.types
			if types == nil {
				types = []reflect.Type{carps, untyped, metadataOnly, slims}
			}
			for _, typ := range types {
				d := rig.Must[standard.Decoder](t)(standard.New(typ, decode.Options{}, true))
				if tt.data[enc] == nil || enc == decode.Protobuf && !d.Protobuf() {
					continue
				}
				t.Run(fmt.Sprintf("%s in %s of %v", name, form, typ), func(t *testing.T) {
					want := read(t, typ, tt.opts, true, tt.setup, tt.watch, enc, tt.data[enc])
					got := read(t, typ, tt.opts, false, tt.setup, tt.watch, enc, tt.data[enc])
					if !tt.watch && want.Err != nil {
						want.Meta, got.Meta = metav1.ListMeta{}, metav1.ListMeta{}
						got.Events, want.Events = nil, nil // one of them has read it whole before
					}
					rig.Same(t, "what is told", want, got, sameErrors)
					_, status := errors.AsType[*apierrors.StatusError](want.Err)
					_, gotStatus := errors.AsType[*apierrors.StatusError](got.Err)
					rig.Same(t, "it is a Status", status, gotStatus)
					if kind, ok := errors.AsType[*decode.KindError](want.Err); want.Err != nil && (ok || status) &&
						want.Err.Error() != got.Err.Error() {
						t.Errorf("error %v, want %v", got.Err, kind)
					}
				})
			}
		}
	}
}

// What is cut off is an error, and never a shorter list or an event less.
func TestCut(t *testing.T) {
	a, b := object(t, newCarp("a", "5"), nil), object(t, newCarp("b", "6"), nil)
	whole := list(t, "CarpList", a, b)
	for form, enc := range encodings {
		for n := range whole[enc] {
			got := read(t, carps, decode.Options{}, false, nil, false, enc, whole[enc][:n])
			if got.Err == nil && len(got.Events) != 2 || got.Err != nil &&
				len(got.Events) > 0 { // behind a list in protobuf are empty fields
				t.Errorf("%s: a list cut at byte %d of %d: %d objects, %v", form, n, len(whole[enc]), len(got.Events), got.Err)
			}
		}
		first := a.event(t, "ADDED")[enc]
		both := slices.Concat(first, b.event(t, "MODIFIED")[enc])
		ends := []int{0, len(first), len(both)}
		if enc == decode.JSON {
			ends = append(ends, len(first)-1, len(both)-1) // without the line break
		}
		for n := range len(both) + 1 {
			got := read(t, carps, decode.Options{}, false, nil, true, enc, both[:n])
			clean := slices.Contains(ends, n)
			if clean != (got.Err == nil) || !clean && !errors.Is(got.Err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: a watch cut at byte %d of %v: %v", form, n, ends, got.Err)
			}
		}
	}
}

// A mistyped word of the environment must not choose a decoder.
func TestEnv(t *testing.T) {
	for value, want := range map[string]string{"": "lw", "lw": "lw", "standard": "apimachinery"} {
		t.Setenv(standard.Env, value)
		rig.Same(t, value, want, standard.Name(false))
		_, own := rig.Must[standard.Decoder](t)(standard.New(carps, decode.Options{}, false)).(*decode.Decoder)
		rig.Same(t, value, want == "lw", own)
	}
	t.Setenv(standard.Env, "standart")
	if _, err := standard.New(carps, decode.Options{}, false); !rig.Matches(err,
		`LW_DECODE is "standart": want standard or lw`) {
		t.Error(err)
	}
	t.Setenv(standard.Env, "")
	for _, opts := range []decode.Options{{Drop: []string{"spec.no"}}, {Only: []string{"no"}}} {
		_, want := decode.New(carps, opts)
		_, err := standard.New(carps, opts, true)
		if want == nil || err == nil || err.Error() != want.Error() {
			t.Errorf("error %v, want %v", err, want)
		}
	}
}
