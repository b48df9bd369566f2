package decode

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// A projection is a type that does not say its kind.
type projection struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
}

func (p *projection) Unmarshal(b []byte) error { return new(metav1.PartialObjectMetadata).Unmarshal(b) }

type generic[T any] struct {
	metav1.TypeMeta
	V T
}

func TestKindOf(t *testing.T) {
	type inner struct{ sink }
	type émile struct{ metav1.TypeMeta }
	type named struct{ TypeMeta metav1.TypeMeta }
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[*sink](): "Sink", reflect.TypeFor[*carp.Carp](): "Carp", reflect.TypeFor[*émile](): "Émile",
		reflect.TypeFor[*metav1.Status](): "Status",
		reflect.TypeFor[*projection]():    "", reflect.TypeFor[*generic[int]](): "", reflect.TypeFor[*inner](): "",
		reflect.TypeFor[*named]():                     "",
		reflect.TypeFor[*unstructured.Unstructured](): "", reflect.TypeFor[*metav1.PartialObjectMetadata](): "",
		reflect.TypeFor[*string](): "", reflect.TypeFor[*struct{ metav1.TypeMeta }](): "",
	} {
		if got := KindOf(typ); got != want {
			t.Errorf("%v: %q, want %q", typ, got, want)
		}
	}
}

// An answer is one response to a source.
type answer struct {
	// How it is read: list, page (one that continues a list), watch or stream.
	how  string
	data string
	// How the error begins; "" if there is none.
	want string
	// The number of objects that are yielded.
	n int
}

func (a answer) read(d *Decoder) (n int, err error) {
	enc := JSON
	if strings.HasPrefix(a.data, magic) || strings.HasPrefix(a.data, "\x00") {
		enc = Protobuf
	}
	switch r := strings.NewReader(a.data); a.how {
	case "list":
		_, err = d.List(r, enc, func(Object) error { n++; return nil })
	case "page":
		_, err = d.NextPage(r, enc, func(Object) error { n++; return nil })
	case "watch":
		err = d.Watch(r, enc, func(Event) error { n++; return nil })
	case "stream":
		err = d.WatchList(r, enc, func(Event) error { n++; return nil })
	}
	return n, err
}

// kindObject returns an object of a kind in a version; "" leaves either out.
func kindObject(kind, version string) string {
	tell := ""
	if kind != "" {
		tell = fmt.Sprintf(`"kind":%q,"apiVersion":%q,`, kind, version)
	}
	return `{` + tell + `"metadata":{"name":"a","resourceVersion":"1"}}`
}

func kindEvent(kind, version string) string {
	return `{"type":"ADDED","object":` + kindObject(kind, version) + "}\n"
}

func kindBookmark(kind, version string) string {
	return strings.Replace(kindEvent(kind, version), "ADDED", "BOOKMARK", 1)
}

func kindEnd(kind, version string) string {
	return strings.Replace(kindBookmark(kind, version), `"metadata":{`,
		`"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},`, 1)
}

func kindList(kind, version string, items ...string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{},"items":[%s]}`, kind, version, strings.Join(items, ","))
}

// customList is like kindList, in the form in which servers write lists of custom resources.
func customList(kind, version string, items ...string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"items":[%s],"kind":%q,"metadata":{}}`, version, strings.Join(items, ","), kind)
}

func TestKinds(t *testing.T) {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}}
	wireEvent := func(kind, version string) string {
		return string(frameOf(t, "ADDED", messageFor(t, kind, version, meta)))
	}
	wireBookmark := func(kind, version string) string {
		return string(frameOf(t, "BOOKMARK", messageFor(t, kind, version, meta)))
	}
	wireList := func(kind, version string) string {
		return string(messageFor(t, kind, version,
			&metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{*meta, *meta}}))
	}
	wireEnd := func(kind, version string) string {
		end := meta.DeepCopy()
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		return string(frameOf(t, "BOOKMARK", messageFor(t, kind, version, end)))
	}
	plain := kindObject("", "")
	for name, tt := range map[string]struct {
		typ reflect.Type
		// What the user has set as HTTP.Kind.
		kind    string
		answers []answer
	}{
		"of the type": {reflect.TypeFor[*sink](), "", []answer{
			{"list", kindList("SinkList", "v1", plain, plain), "", 2},
			{"watch", kindEvent("Sink", "v1") + kindEvent("Sink", "v1"), "", 2},
			{"list", customList("SinkList", "v1", kindObject("Sink", "v1")), "", 1},
			{"stream", kindEvent("Sink", "v1") + kindBookmark("Sink", "v1"), "", 2},
			{"list", kindList("List", "v1", kindObject("Sink", "v1"), plain), "", 2}, {"watch", kindEvent("", ""), "", 1},
		}},
		"another list": {reflect.TypeFor[*sink](), "", []answer{
			{"list", kindList("ConfigMapList", "v1", plain),
				"want a list of Sink (the kind of *decode.sink; set HTTP.Kind if it is called otherwise), got ConfigMapList", 0},
			{"list", kindList("ConfigMapList", "v1"), "want a list of Sink (", 0},
			{"list", customList("ConfigMapList", "v1", kindObject("ConfigMap", "v1")), "want Sink (", 0},
			{"list", customList("ConfigMapList", "v1"), "want a list of Sink (", 0},
			{"list", customList("ConfigMapList", "v1", plain), "want a list of Sink (", 1},
			{"list", kindList("List", "v1", kindObject("ConfigMap", "v1")), "want Sink (", 0},
			{"list", kindList("SinkList", "v1", plain, kindObject("ConfigMap", "v1")), "want Sink (", 1},
			{"list", customList("ConfigMapList", "v1", kindObject("Sink", "v1"), plain), "want a list of Sink (", 2},
			{"list", kindList("SinkList", "v1", `{"kind":"ConfigMap","apiVersion":"v1","metadata":[]}`), "want Sink (", 0},
			{"list", kindList("SinkList", "v1"), "", 0},
		}},
		"another name of a custom list": {reflect.TypeFor[*sink](), "", []answer{
			{"list", customList("SinksList", "v1", kindObject("Sink", "v1"), kindObject("Sink", "v1")), "", 2},
			{"list", customList("SinksList", "v1"), "want a list of Sink (", 0},
			{"list", kindList("SinksList", "v1", kindObject("Sink", "v1")), "", 1},
			{"list", kindList("Sinks", "v1", kindObject("Sink", "v1")), "", 1},
			{"list", kindList("", "v1", kindObject("Sink", "v1")), "", 1},
			{"list", kindList("Sink", "v1", kindObject("Sink", "v1")), "no list: it is a Sink", 0},
			{"list", customList("Sinks", "v1", plain), "no list: it is a Sinks", 1}, {"list", customList("Sinks", "v1"),
				"no list: it is a Sinks", 0},
			{"list", customList("", "v1", kindObject("Sink", "v1"), plain), "no list: it has no kind", 2},
		}},
		"a custom group": {reflect.TypeFor[*sink](), "", []answer{
			{"list", kindList("SinksList", "s.example/v1"), "", 0}, {"list", customList("Sinks", "s.example/v1"), "", 0},
			{"list", kindList("Sinks", "s.example/v1", kindObject("Sink", "s.example/v1")), "", 1},
			{"list", customList("SinksList", "s.example/v1", kindObject("Sink", "s.example/v1")), "", 1},
			{"watch", kindEvent("Sink", "s.example/v1"), "", 1}, {"list", customList("Sinks", "s.example/v1", plain), "", 1},
			{"list", kindList("Sinks", "s.example/v1", plain), "", 1}, {"list", kindList("PikeList", "s.example/v1", plain),
				"want a list of Sink (", 0}, {"list", kindList("SinkList", "s.example/v1", plain), "", 1},
			{"list", kindList("Sinks", "s.example/v1", kindObject("Pike", "s.example/v1")), "want Sink (", 0},
			{"list", `{"kind":"Sinks","apiVersion":"s.example/v1"}`, "no list: it is a Sinks", 0},
			{"list", `{"kind":"SinksList","apiVersion":"s.example/v1"}`, "", 0},
			{"list", kindList("Status", "s.example/v1", kindObject("Sink", "s.example/v1")),
				"the server answered with a Status", 0},
		}},
		"a custom group of what the first object tells": {reflect.TypeFor[*projection](), "", []answer{
			{"list", customList("LampsList", "l.example/v1"), "", 0}, {"list", kindList("LampsList", "l.example/v1", plain), "",
				1}, {"watch", kindEvent("Lamp", "l.example/v1"), "", 1}, {"watch", kindEvent("Lamps", "l.example/v1"),
				"want Lamp (as before), got Lamps", 0},
			{"list", kindList("Lamp", "l.example/v1", kindObject("Lamp", "l.example/v1")), "no list: it is a Lamp", 0},
			{"list", customList("Lamps", "l.example/v1"), "", 0},
		}},
		"another event": {reflect.TypeFor[*sink](), "", []answer{
			{"list", kindList("SinkList", "v1", plain), "", 1},
			{"watch", kindEvent("ConfigMap", "v1"),
				"want Sink (the kind of *decode.sink; set HTTP.Kind if it is called otherwise), got ConfigMap", 0},
			{"watch", kindEvent("Sink", "v1") + kindEvent("ConfigMap", "v1"), "want Sink (", 1},
			{"stream", kindEvent("ConfigMap", "v1"), "want Sink (", 0},
			{"watch", kindBookmark("ConfigMap", "v1"), "want Sink (", 0}, {"stream", kindBookmark("ConfigMap", "v1"),
				"want Sink (", 0},
			{"watch", `{"type":"ADDED","object":{"kind":"ConfigMap","metadata":[]}}`, "want Sink (", 0},
		}},
		"protobuf": {reflect.TypeFor[*carp.Carp](), "", []answer{
			{"list", wireList("CarpList", "g/v1"), "", 2}, {"watch", wireEvent("Carp", "g/v1") + wireBookmark("Carp", "g/v1"),
				"", 2}, {"stream", wireEvent("Carp", "g/v1"), "", 1},
			{"list", wireList("PikeList", "g/v1"),
				"want a list of Carp (the kind of *v1.Carp; set HTTP.Kind if it is called otherwise), got PikeList", 0},
			{"watch", wireEvent("Pike", "g/v1"), "want Carp (", 0}, {"stream", wireEvent("Pike", "g/v1"), "want Carp (", 0},
			{"stream", wireBookmark("Pike", "g/v1"), "want Carp (", 0},
			{"list", wireList("CarpList", "h/v1"), `want a list of Carp of API group "g" (as before), got CarpList of "h"`, 0},
			{"watch", wireEvent("Carp", "g/v2"), "", 1},
		}},
		"of another name": {reflect.TypeFor[*sink](), "Basin", []answer{
			{"list", kindList("SinkList", "v1", plain), "want a list of Basin (HTTP.Kind), got SinkList", 0},
			{"list", kindList("BasinList", "v1", plain), "", 1},
			{"watch", kindEvent("Sink", "v1"), "want Basin (HTTP.Kind), got Sink", 0},
			{"watch", kindEvent("Basin", "v1"), "", 1},
		}},
		"a projection": {reflect.TypeFor[*projection](), "", []answer{
			{"list", kindList("List", "v1", plain), "", 1}, {"watch", kindEvent("", ""), "", 1},
			{"list", kindList("ServiceList", "v1"), "", 0},
			{"watch", kindEvent("Secret", "v1"), "want Service (as before), got Secret", 0},
			{"watch", kindEvent("Service", "v1"), "", 1},
			{"page", kindList("SecretList", "v1", plain), "want a list of Service (as before), got SecretList", 0},
			{"page", kindList("List", "v1", kindObject("Secret", "v1")), "want Service (", 0},
			{"page", wireList("SecretList", "v1"), "want a list of Service (", 0}, {"page", wireList("ServiceList", "v1"), "",
				2}, {"watch", wireEvent("Secret", "v1"), "want Service (", 0},
		}},
		// A definition that was deleted may come back with another kind. A whole list says so.
		"a projection of what comes back": {reflect.TypeFor[*projection](), "", []answer{
			{"watch", kindEvent("Lamp", "l.example/v1"), "", 1}, {"watch", kindEvent("Light", "l.example/v1"),
				"want Lamp (as before), got Light", 0},
			{"list", kindList("LightList", "l.example/v1", kindObject("Light", "l.example/v1"))[:90],
				"cut off at byte 90: unexpected EOF", 0}, {"watch", kindEvent("Lamp", "l.example/v1"), "", 1},
			{"list", customList("LightsList", "l.example/v1", kindObject("Light", "l.example/v1"), kindObject("Lamp",
				"l.example/v1")), "want Light (as before), got Lamp", 1}, {"watch", kindEvent("Lamp", "l.example/v1"), "", 1},
			{"list", customList("LightsList", "l.example/v1", kindObject("Light", "l.example/v1")), "", 1},
			{"watch", kindEvent("Lamp", "l.example/v1"), "want Light (as before), got Lamp", 0},
			{"watch", kindEvent("Light", "l.example/v1"), "", 1},
			{"list", customList("LampsList", "l.example/v1"), "", 0}, {"watch", kindEvent("Lamp", "l.example/v1"), "", 1},
			{"stream", kindEvent("Light", "l.example/v1"), "", 1}, {"watch", kindEvent("Lamp", "l.example/v1"), "", 1},
			{"stream", kindEvent("Light", "l.example/v1") + kindEnd("Light", "l.example/v1") + kindEvent("Light",
				"l.example/v1"), "", 3}, {"watch", kindEvent("Lamp", "l.example/v1"), "want Light (as before), got Lamp", 0},
			{"stream", kindEnd("Lamp", "l.example/v1") + kindEvent("Lamp", "l.example/v1") + kindEvent("Light", "l.example/v1"),
				"want Lamp (as before), got Light", 2}, {"watch", kindEvent("Lamp", "l.example/v1"), "", 1},
			{"list", kindList("LampList", "k.example/v1", kindObject("Lamp", "k.example/v1")),
				`want objects of API group "l.example" (as before), got Lamp of "k.example"`, 0},
		}},
		"a projection of what comes back, in protobuf": {reflect.TypeFor[*projection](), "", []answer{
			{"list", wireList("CarpList", "g/v1"), "", 2}, {"list", wireList("PikeList", "g/v1"), "", 2},
			{"watch", wireEvent("Carp", "g/v1"), "want Pike (as before), got Carp", 0},
			{"stream", wireEvent("Carp", "g/v1") + wireEnd("Carp", "g/v1"), "", 2}, {"watch", wireEvent("Carp", "g/v1"), "", 1},
		}},
		"a bookmark tells no kind": {reflect.TypeFor[*unstructured.Unstructured](), "", []answer{
			{"watch", kindBookmark("Lights", "l.example/v1") + kindEvent("Lamp", "l.example/v1") + kindBookmark("Lights",
				"l.example/v1"), "", 3}, {"stream", kindEnd("Lights", "l.example/v1") + kindEvent("Lamp", "l.example/v1"), "", 2},
			{"watch", wireBookmark("Lights", "l.example/v1"), "", 1}, {"watch", kindEvent("Lamp", "l.example/v1"), "", 1},
		}},
		"a projection of what the items tell": {reflect.TypeFor[*projection](), "", []answer{
			{"list", customList("OddList", "g/v1", kindObject("Widget", "g/v1")), "", 1}, {"watch", kindEvent("Widget", "g/v1"),
				"", 1}, {"watch", kindEvent("Odd", "g/v1"), "want Widget (as before), got Odd", 0},
		}},
		"a projection of a kind": {reflect.TypeFor[*projection](), "Service",
			[]answer{{"list", kindList("SecretList", "v1"), "want a list of Service (HTTP.Kind), got SecretList", 0}}},
		"untyped": {reflect.TypeFor[*unstructured.Unstructured](), "", []answer{
			{"list", kindList("ServiceList", "v1", plain), "", 1}, {"watch", kindEvent("Secret", "v1"),
				"want Service (as before), got Secret", 0}, {"watch", kindEvent("Service", "v1"), "", 1},
		}},
		"untyped, of a kind": {reflect.TypeFor[*unstructured.Unstructured](), "Secret", []answer{
			{"list", kindList("ServiceList", "v1", plain), "want a list of Secret (HTTP.Kind), got ServiceList", 0},
			{"watch", kindEvent("Secret", "v1"), "", 1},
		}},
		"metadata": {reflect.TypeFor[*metav1.PartialObjectMetadata](), "", []answer{
			{"list", kindList("PartialObjectMetadataList", "meta.k8s.io/v1", kindObject("PartialObjectMetadata",
				"meta.k8s.io/v1")), "", 1}, {"watch", kindEvent("PartialObjectMetadata", "meta.k8s.io/v1"), "", 1},
			{"list", kindList("PodList", "v1", plain), "", 1}, {"watch", kindEvent("Pod", "v1"), "", 1},
			{"watch", wireEvent("PartialObjectMetadata", "meta.k8s.io/v1"), "", 1},
			{"page", kindList("SecretList", "v1"), "want a list of Pod (as before), got SecretList", 0},
			{"list", wireList("PartialObjectMetadataList", "meta.k8s.io/v1"), "", 2},
		}},
		"groups": {reflect.TypeFor[*sink](), "", []answer{
			{"list", `{"kind":"SinkList","items":[]}`, "", 0}, {"list", kindList("List", "v1"), "", 0},
			{"list", kindList("SinkList", "apps/v1"), "", 0}, {"watch", kindEvent("Sink", "apps/v2"), "", 1},
			{"watch", kindEvent("Sink", "v1"), `want Sink of API group "apps" (as before), got Sink of ""`, 0},
			{"list", kindList("SinkList", "more/v1"),
				`want a list of Sink of API group "apps" (as before), got SinkList of "more"`, 0},
			{"list", `{"kind":"SinkList","items":[],"apiVersion":"more/v1"}`, `want a list of Sink of API group "apps"`, 0},
			{"watch", kindEvent("Sink", "apps/v1") + kindEvent("Sink", "apps/v2"),
				"a Sink of apps/v2 after a Sink of apps/v1", 1},
		}},
		"what is no object": {reflect.TypeFor[*projection](), "", []answer{
			{"watch", kindEvent("Table", "meta.k8s.io/v1"), "a Table in the place of an object", 0},
			{"watch", kindBookmark("Status", "v1"), "a Status in the place of an object", 0},
			{"watch", kindEvent("Pod", "v1"), "", 1},
		}},
	} {
		for _, workers := range []int{-1, 2} {
			kinds := NewKinds(tt.typ, tt.kind)
			var kept *Decoder
			for i, a := range tt.answers {
				d := decoderOf(t, tt.typ, Options{Kinds: kinds, Workers: workers})
				if kept == nil {
					kept = d
				}
				d.batch = 1
				// The source remembers the kind, whichever decoder reads, and however often.
				for _, d := range []*Decoder{d, kept} {
					if n, err := a.read(d); n != a.n || (err == nil) != (a.want == "") || err != nil &&
						!strings.HasPrefix(err.Error(), a.want) {
						t.Errorf("%s, %d workers, answer %d: %d objects, error %v; want %d, %q", name, workers, i, n, err, a.n, a.want)
					}
				}
			}
		}
	}
}

// An error about a kind is short, whatever the response says.
func TestKindErrorIsShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	d := newDecoder[*projection](t, Options{})
	for _, data := range []string{
		kindList(long, "v1"), kindList("PodList", "v1"), kindList(long+"List", "v1"), kindEvent(long, "v1"),
		kindEvent("Pod", long+"/v1"), `{"type":"` + long + `"}`, `{"kind":"` + long + `"}`,
		`{"type":"ERROR","object":{"kind":"` + long + `"}}`,
	} {
		for _, how := range []string{"list", "watch"} {
			if _, err := (answer{how: how, data: data}).read(d); err != nil && len(err.Error()) > 500 {
				t.Errorf("%s of %.40s: %d bytes: %.100v", how, data, len(err.Error()), err)
			}
		}
	}
}
