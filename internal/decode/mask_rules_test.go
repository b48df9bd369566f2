package decode

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"

	"github.com/go-lw/lw/internal/decode/prune"
	"github.com/go-lw/lw/internal/verify/leak"
)

// What each form of a path keeps, in JSON and in protobuf.
func TestOnly(t *testing.T) {
	c := newCarp(1)
	c.Annotations = map[string]string{"example.com/a": "1", "example.com/b": "2", "other": "3"}
	at := c.DeletionTimestamp
	for name, tt := range map[string]struct {
		only []string
		set  func(want *carp.Carp)
	}{
		"nothing":              {[]string{}, func(*carp.Carp) {}},
		"a field":              {[]string{"spec.nodeName"}, func(w *carp.Carp) { w.Spec.NodeName = "node" }},
		"a struct":             {[]string{"status"}, func(w *carp.Carp) { w.Status = c.Status }},
		"a struct, and a part": {[]string{"status.phase", "status"}, func(w *carp.Carp) { w.Status = c.Status }},
		"a map":                {[]string{"metadata.labels"}, func(w *carp.Carp) { w.Labels = c.Labels }},
		"a key": {[]string{"metadata.labels.app"},
			func(w *carp.Carp) { w.Labels = map[string]string{"app": "carp"} }},
		"a key with dots": {[]string{"metadata.annotations.example.com/a"},
			func(w *carp.Carp) { w.Annotations = map[string]string{"example.com/a": "1"} }},
		"keys that begin so": {[]string{"metadata.annotations.example.com/*"},
			func(w *carp.Carp) { w.Annotations = map[string]string{"example.com/a": "1", "example.com/b": "2"} }},
		"a key that is not there": {[]string{"metadata.labels.none"}, func(*carp.Carp) {}},
		"the number of keys": {[]string{"metadata.labels?"},
			func(w *carp.Carp) { w.Labels = map[string]string{"a": "", "app": ""} }},
		"the keys, and one": {[]string{"metadata.labels?", "metadata.labels.a"},
			func(w *carp.Carp) { w.Labels = map[string]string{"a": "b", "app": ""} }},
		"the elements of a list": {[]string{"status.conditions?"},
			func(w *carp.Carp) { w.Status.Conditions = make([]carp.CarpCondition, 3) }},
		"a field of a list": {[]string{"status.conditions.type"},
			func(w *carp.Carp) { w.Status.Conditions = []carp.CarpCondition{{Type: "Ready"}, {Type: "Other"}, {}} }},
		"the elements of strings": {[]string{"metadata.finalizers?"},
			func(w *carp.Carp) { w.Finalizers = []string{"", ""} }},
		"whether a time is there": {[]string{"metadata.deletionTimestamp?"},
			func(w *carp.Carp) { w.DeletionTimestamp = at }},
		"whether a string is": {[]string{"spec.nodeName?"}, func(w *carp.Carp) { w.Spec.NodeName = "node" }},
		"whether a struct is": {[]string{"spec?"}, func(*carp.Carp) {}},
		"whether a pointer is nil": {[]string{"spec.terminationGracePeriodSeconds?"},
			func(w *carp.Carp) { w.Spec.TerminationGracePeriodSeconds = c.Spec.TerminationGracePeriodSeconds }},
	} {
		want := &carp.Carp{ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace, UID: c.UID,
			ResourceVersion: c.ResourceVersion}}
		tt.set(want)
		d := newDecoder[*carp.Carp](t, Options{Only: tt.only})
		o := messageOf(d, mustMarshal(t, c))
		if diff := cmp.Diff(want, o.Value); o.Err != nil || diff != "" {
			t.Errorf("%s, protobuf: error %v (-want +got):\n%s", name, o.Err, diff)
		}
		checkDiff(t, fmt.Sprintf("%s, JSON", name), want, mustDecode[*carp.Carp](t, d, mustJSON(t, c)))
		if d.kind != "Carp" || d.apiVersion == "" {
			t.Errorf("%s: the kind is %q of %q", name, d.kind, d.apiVersion)
		}
	}
}

// What Drop leaves out, in each form: parts, keys, and what lies in the elements of lists.
func TestDrop(t *testing.T) {
	c := newCarp(1)
	c.Annotations = map[string]string{"example.com/a": "1", "other": "3"}
	d := newDecoder[*carp.Carp](t, Options{Drop: []string{
		"metadata.managedFields", "metadata.labels.app", "metadata.annotations.example.com/a", "spec.nodeSelector",
		"status.conditions.lastProbeTime", "status.infos.c",
	}})
	for form, encode := range carpForms {
		got, want := decodeCarp(t, d, form, encode(t, c))
		want.ManagedFields, want.Spec.NodeSelector = nil, nil
		delete(want.Labels, "app")
		delete(want.Annotations, "example.com/a")
		for i := range want.Status.Conditions {
			want.Status.Conditions[i].LastProbeTime = metav1.Time{}
		}
		want.Status.Infos[0].C = nil
		checkDiff(t, form, want, got)
	}
}

// A map of which no key is kept is nil in every encoding, whether it is Drop or Only that leaves
// them out. A map whose keys are counted is as it comes.
func TestMapsWithoutKeys(t *testing.T) {
	c := newCarp(1)
	for name, opts := range map[string]Options{
		"Drop": {Drop: []string{"metadata.labels.a", "metadata.labels.app", "spec.nodeSelector.os"}},
		"Only": {Only: []string{"metadata.labels.b", "spec.nodeSelector.b*"}},
	} {
		d := newDecoder[*carp.Carp](t, opts)
		for _, got := range []*carp.Carp{mustDecode[*carp.Carp](t, d, mustJSON(t, c)),
			messageOf(d, mustMarshal(t, c)).Value.(*carp.Carp),
			mustDecode[*carp.Carp](t, d, []byte(`{"metadata":{"labels":{}}}`))} {
			if got.Labels != nil || got.Spec.NodeSelector != nil {
				t.Errorf("%s: %#v, %#v", name, got.Labels, got.Spec.NodeSelector)
			}
		}
	}
	d := newDecoder[*carp.Carp](t, Options{Only: []string{"metadata.labels?"}})
	if got := mustDecode[*carp.Carp](t, d, []byte(`{"metadata":{"labels":{}}}`)); got.Labels == nil {
		t.Error("a map without keys, of which the number of keys is kept, is nil")
	}
}

type OnHost struct {
	NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	Hostname string `json:"hostname" protobuf:"bytes,16,opt,name=hostname"`
}

// In protobuf an embedded struct is a message. Its pointer is nil if no path leads through it.
func TestEmbeddedMessage(t *testing.T) {
	type hosted struct {
		metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
		*OnHost           `json:",inline" protobuf:"bytes,2,opt,name=spec"`
	}
	c := newCarp(1)
	for name, tt := range map[string]struct {
		opts Options
		want *OnHost
	}{
		"all": {Options{}, &OnHost{c.Spec.NodeName, c.Spec.Hostname}}, "a field": {Options{Only: []string{"nodeName"}},
			&OnHost{NodeName: c.Spec.NodeName}},
		"nothing": {Options{Only: []string{}}, nil}, "without a field": {Options{Drop: []string{"nodeName"}},
			&OnHost{Hostname: c.Spec.Hostname}}, "without any": {Options{Drop: []string{"nodeName", "hostname"}}, nil},
	} {
		o := messageOf(newDecoder[*hosted](t, tt.opts), mustMarshal(t, c))
		ok(t, o.Err)
		checkDiff(t, name, tt.want, o.Value.(*hosted).OnHost)
	}
}

// Objects without a type have the members that are kept, and what identifies them.
func TestOnlyUntyped(t *testing.T) {
	data := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","labels":{"app":"x","app.k8s.io/name":"y"},"generation":3},` +
		`"spec":{"nodeName":"node","containers":[{"name":"c","image":"i"},{"name":"d"}],"priority":5,"hosts":["x","y"]}}`)
	d := newDecoder[*unstructured.Unstructured](t, Options{Only: []string{
		"metadata.labels.app.k8s.io/name", "spec.containers.name", "spec.priority.x", "spec.hosts?", "spec.none",
	}})
	for range 3 {
		got := mustDecode[*unstructured.Unstructured](t, d, data).Object
		want := map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1",
				"labels": map[string]any{"app.k8s.io/name": "y"}},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c"}, map[string]any{"name": "d"}},
				"hosts": []any{"", ""}},
		}
		checkDiff(t, "what is decoded", want, got)
	}
}

// A path that cannot be followed is an error that names it, and the option.
func TestWrongPaths(t *testing.T) {
	for path, want := range map[string]string{
		"spec.nodeNam": `spec: decode.podSpec has no "nodeNam" to keep`, "x": `decode.pod has no "x" to keep`,
		"": `decode.pod has no "" to keep`, "?": `decode.pod has no "" to keep`,
		"spec.nodeName.x": `spec: nodeName: string has no "x" to keep`, "spec.*": `spec: decode.podSpec has no "*" to keep`,
		"metadata.labels.":                `metadata: labels: map[string]string has no "" to keep`,
		"metadata.creationTimestamp.time": `metadata: creationTimestamp: v1.Time decodes itself: it has no "time" to keep`,
		"spec.containers.ports.x?":        `has no "x" to keep`,
		"spec.nodeName??":                 `spec: decode.podSpec has no "nodeName?" to keep`,
	} {
		for _, only := range [][]string{{path}, {"spec", "metadata", path}} {
			_, err := New(reflect.TypeFor[*pod](), Options{Only: only})
			wrong, ok := errors.AsType[*PathError](err)
			if !ok || wrong.Option != "Only" || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", only, err, want)
			}
		}
	}
	for _, path := range []string{"spec.nodeName", "spec.nodeName?", "metadata.labels.*", "metadata.labels.a.b/c?",
		"metadata.labels.a*?", "spec.containers.livenessProbe.httpGet.port", "kind"} {
		newDecoder[*pod](t, Options{Only: []string{path}})
	}
	for _, path := range []string{"spec.nodeName?", "spec.containerz", "spec.nodeName.x", "x",
		"metadata.creationTimestamp.time", ""} {
		if _, err := New(reflect.TypeFor[*pod](), Options{Drop: []string{path}}); err == nil {
			t.Errorf("Drop has taken %q for a field", path)
		}
	}
	// What decodes itself is whole or not at all.
	if _, err := New(reflect.TypeFor[*textual](), Options{Only: []string{}}); err == nil {
		t.Error("a type that decodes itself has got a mask")
	}
	// Without the names of an identity, an object has what it has.
	type small struct {
		Metadata struct{ Name string } `json:"metadata"`
		Kind     string                `json:"kind"`
		Spec     string                `json:"spec"`
	}
	d := newDecoder[*small](t, Options{Only: []string{}})
	got := mustDecode[*small](t, d, []byte(`{"kind":"Small","metadata":{"Name":"a"},"spec":"b"}`))
	if got.Spec != "" || got.Kind != "Small" {
		t.Errorf("got %+v", got)
	}
}

// A struct of which something is kept is a part: to hash all of its bytes costs less than to pass
// over what is left out.
func TestMaskedParts(t *testing.T) {
	for only, want := range map[string]string{
		"spec.nodeName": "spec", "spec": "spec", "spec.nodeName status.phase metadata.labels": "labels spec status",
		"status.conditions.type":                                 "status",
		"spec.terminationGracePeriodSeconds metadata.labels.app": "labels spec", "metadata.labels": "labels",
		"metadata": "labels annotations ownerReferences finalizers managedFields",
	} {
		if got := partsOf(newDecoder[*carp.Carp](t, Options{Only: strings.Fields(only)}).root.layout); got != want {
			t.Errorf("only %s: the parts are %q, want %q", only, got, want)
		}
	}
}

// The notes of an object of a few fields have short sizes. What is too large for one is decoded,
// and so is merged if it comes twice, and is known as unchanged in a list.
func TestLargeMaskedParts(t *testing.T) {
	d, store := newLender[*carp.Carp](t, Options{Only: []string{"metadata.annotations", "spec.nodeName", "spec.hostname"}})
	text := func(version, annotations, specs string) []byte {
		return []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"` + version + `","annotations":{` + annotations +
			`}},` + specs + `}`)
	}
	// The last one makes a spec of 1<<16 bytes, of which 16 bits are 0.
	for _, n := range []int{math.MaxUint16 - 100, math.MaxUint16, 2 * math.MaxUint16,
		1<<16 - len(`{"hostname":"h","subdomain":""}`)} {
		large := strings.Repeat("x", n)
		small := text("1", `"a":"b"`, `"spec":{"nodeName":"n"}`)
		for _, data := range [][]byte{
			text("1", `"a":"`+large+`"`, `"spec":{"nodeName":"n","subdomain":"`+large+`"}`),
			text("2", `"a":"`+large+`"`, `"spec":{"nodeName":"n","subdomain":"`+large+`"}`),
			text("3", `"a":"`+large[1:]+`y"`, `"spec":{"nodeName":"m","subdomain":"`+large+`"}`),
			small,
			text("4", `"a":"b"`, `"spec":{"hostname":"h","subdomain":"`+large+`"},"spec":{"nodeName":"n"}`),
		} {
			got, want := decodeCarp(t, d, "JSON", data)
			want.Spec.Subdomain = ""
			checkDiff(t, fmt.Sprintf("%d bytes", n), want, got)
			store.keep(got)
			d.listing = true
			if again, _ := decodeCarp(t, d, "JSON", data); again != got {
				t.Errorf("%d bytes: an equal item is another object", n)
			}
			d.listing = false
		}
	}
}

// What is left out costs no memory, typed or not.
func TestOnlyAllocates(t *testing.T) {
	data := podJSON(1)
	untyped := reflect.TypeFor[*unstructured.Unstructured]()
	for typ, most := range map[reflect.Type]float64{reflect.TypeFor[*pod](): 6, untyped: 24} {
		d := decoderOf(t, typ, Options{Only: []string{"spec.nodeName", "status.phase"}})
		n := testing.AllocsPerRun(100, func() {
			_, err := decodeOne(d, data)
			ok(t, err)
		})
		if n > most {
			t.Errorf("%v: %v allocations, at most %v", typ, n, most)
		}
	}
}

// With any mask, an object of any bytes is what is left of the whole one. There is no error where
// the whole object has none, and a syntax error wherever it has one.
func FuzzMask(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	c := mustJSON(f, newCarp(1))
	more := newCarp(2)
	more.Labels["l1"], more.Finalizers = "x", append(more.Finalizers, "more")
	for mask := range uint64(12) {
		f.Add(mask, false, c)
		f.Add(mask, true, mustMarshal(f, newCarp(1)))
		f.Add(mask, false, joined("JSON", c, mustJSON(f, more)))
		f.Add(mask, true, joined("protobuf", mustMarshal(f, newCarp(1)), mustMarshal(f, more)))
		f.Add(mask, false,
			[]byte(`{"metadata":{"name":"a","labels":{"a":null,"app":5}},"spec":{"nodeName":1e400},"status":[{"a":"\ud800"}]}`))
		f.Add(mask, false, []byte(`{"status":{"conditions":[{"type":"a"},null,{"type":"b","status":"c"}],"conditions":[null,{"status":"d"}]},"spec":{"nodeSelector":{}}} `))
	}
	f.Fuzz(func(t *testing.T, seed uint64, protobuf bool, data []byte) {
		rng := rand.New(rand.NewPCG(seed, 1))
		opts := Options{Only: prune.Random(rng, reflect.TypeFor[carp.Carp](), maskKeys...), Share: seed%3 == 0}
		masked, whole := newDecoder[*carp.Carp](t, opts), newDecoder[*carp.Carp](t, Options{})
		form := map[bool]string{false: "JSON", true: "protobuf"}[protobuf]
		want, wantErr := decodeAs(whole, form, slices.Clone(data))
		if wantErr == nil {
			prune.Object(want, nil, opts.Only)
		}
		for range 2 {
			got, err := decodeAs(masked, form, slices.Clone(data))
			syntax, _ := errors.AsType[*SyntaxError](wantErr)
			switch {
			case err != nil && wantErr == nil, err == nil && syntax != nil:
				t.Fatalf("only %q of %q: error %v, and %v of the whole object", opts.Only, data, err, wantErr)
			case err != nil || wantErr != nil:
				continue
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("only %q of %q (-want +got):\n%s", opts.Only, data, cmp.Diff(want, got))
			}
		}
	})
}

// Of a name that comes twice, each sort of value is what is left of what apimachinery merges.
func TestMaskedNamesTwice(t *testing.T) {
	for _, only := range []string{"status.conditions.type", "status.conditions?", "metadata.finalizers?",
		"metadata.labels.a", "spec.nodeName", "status.conditions.status status.infos.b"} {
		for _, text := range []string{
			`{"status":{"conditions":[{"type":"a","status":"x"},{"type":"b"}],"conditions":[{"status":"y"},null,{"type":"d"}],"infos":[{"b":"1"}],"infos":[]},"metadata":{"finalizers":["a"],"finalizers":["b","c"]}}`,
			`{"status":{"conditions":[{"type":"a"},{"type":"b"},{"type":"c"}]},"status":{"conditions":[{}]},"status":{"conditions":[{},{},{},{}]},"metadata":{"labels":{"a":"1"},"labels":{"b":"2"},"labels":{}}}`,
			`{"status":{"conditions":[{"type":"a"}]},"status":{"conditions":null},"spec":{"nodeName":"a"},"spec":{"nodeName":null},"spec":null,"metadata":{"labels":{"a":"1"},"labels":null}}`,
		} {
			want := &carp.Carp{}
			ok(t, unmarshal([]byte(text), want))
			prune.Object(want, nil, strings.Fields(only))
			d := newDecoder[*carp.Carp](t, Options{Only: strings.Fields(only)})
			checkDiff(t, fmt.Sprintf("only %s of %s", only, text), want, mustDecode[*carp.Carp](t, d, []byte(text)))
		}
	}
}

// An opaque decodes itself from protobuf.
type opaque struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		A, B string
	} `json:"spec"`
}

func (o *opaque) Unmarshal([]byte) error { return nil }

// A server is asked for no protobuf of a type that decodes itself, if something is left out.
func TestProtobufOfMasks(t *testing.T) {
	for _, tt := range []struct {
		opts Options
		want bool
	}{{Options{}, true}, {Options{Only: []string{"spec.A"}}, false}, {Options{Only: []string{}}, false},
		{Options{Drop: []string{"spec.A"}}, false}} {
		if got := newDecoder[*opaque](t, tt.opts).Protobuf(); got != tt.want {
			t.Errorf("%+v: protobuf: %v", tt.opts, got)
		}
	}
	if !newDecoder[*carp.Carp](t, Options{Only: []string{"spec.nodeName"}}).Protobuf() {
		t.Error("a generated type with a mask is not asked for in protobuf")
	}
}

// An ownMeta decodes itself.
type ownMeta struct{ Raw string }

func (m *ownMeta) UnmarshalJSON(data []byte) error {
	m.Raw = string(data)
	return nil
}

// Metadata that decode themselves identify the object, so they are kept whole with any mask.
func TestOnlyOfOwnMetadata(t *testing.T) {
	type owned struct {
		Metadata ownMeta `json:"metadata"`
		Spec     string  `json:"spec"`
	}
	got := mustDecode[*owned](t, newDecoder[*owned](t, Options{Only: []string{}}),
		[]byte(`{"metadata":{"name":"a"},"spec":"x"}`))
	checkDiff(t, "what is decoded", &owned{Metadata: ownMeta{`{"name":"a"}`}}, got)
}
