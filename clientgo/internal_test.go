package clientgo

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

type custom struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func TestAcceptFor(t *testing.T) {
	const (
		json     = "application/json"
		protobuf = "application/vnd.kubernetes.protobuf"
		metadata = protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
		table    = "application/json;as=Table;g=meta.k8s.io;v=v1"
		no       = "no"
		cbor     = "application/cbor"
		asList   = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		as       = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	)
	for _, tt := range []struct {
		header                              string
		pod, custom, unstructured, metadata string
	}{
		{"", json, json, json, no},
		{"*/*", json, json, json, no},
		{"application/json, */*", json, json, json, no},
		{protobuf + ", */*", protobuf + "," + json, json, json, no},
		{protobuf + "," + json, protobuf + "," + json, json, json, no},
		{json + "," + protobuf, json, json, json, no},
		{json + ";q=0.5," + protobuf, protobuf + "," + json, json, json, no},
		{protobuf, protobuf, no, no, no},
		{cbor, cbor, cbor, cbor, no},
		{"application/json;q=0.9,application/cbor", cbor + "," + json, cbor + "," + json, cbor + "," + json, no},
		{"application/json,application/cbor;q=0.9", json, json, json, no},
		{cbor + ";q=1," + protobuf + ";q=0.9", cbor + "," + protobuf, cbor, cbor, no},
		{cbor + asList + "," + cbor + as + "," + json + asList, no, no, no, cbor + "," + json},
		{json + asList + "," + cbor + asList, no, no, no, ""},
		{"application/json;q=0", no, no, no, no},
		{metadata, json, json, json, ""},
		{table, no, no, no, no},
		{"/ ,;", no, no, no, no},
	} {
		for object, want := range map[any]string{
			&corev1.Pod{}: tt.pod, &custom{}: tt.custom, &unstructured.Unstructured{}: tt.unstructured, &metav1.PartialObjectMetadata{}: tt.metadata,
		} {
			got, ok := acceptFor(tt.header, reflect.TypeOf(object))
			if !ok {
				got = no
			}
			if got != want {
				t.Errorf("%q for %T: %q, want %q", tt.header, object, got, want)
			}
		}
	}
}

func TestIsCollection(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/pods":                                 true,
		"/api/v1/namespaces":                           true,
		"/api/v1/namespaces/default/pods":              true,
		"/apis/apps/v1/deployments":                    true,
		"/apis/apps/v1/namespaces/default/deployments": true,
		"/clusters/c1/apis/apps/v1/deployments":        true,
		"/api/clusters/c1/api/v1/namespaces/ns/pods":   true,
		"/api":                              false,
		"/api/v1":                           false,
		"/apis":                             false,
		"/apis/apps/v1":                     false,
		"/openapi/v3":                       false,
		"/version":                          false,
		"/api/v1/namespaces/default":        false,
		"/api/v1/namespaces/default/pods/a": false,
		"/apis/apps/v1/namespaces/default/deployments/": false,
		"": false,
	} {
		if got := isCollection(path); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
}

func TestCollectionURL(t *testing.T) {
	u := rig.Must[*url.URL](t)(url.Parse("https://host:6443/api/v1/pods?watch=true&allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=7&timeout=5s&timeoutSeconds=300&tenant=x&limit=500&continue=c&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"))
	if got, want := collectionURL(u), "https://host:6443/api/v1/pods?labelSelector=a%3Db&tenant=x"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A clientOf is a client as client-gen makes it, with an answer L of List and W of Watch.
type clientOf[L, W any] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (W, error)
}

// Lists that are none of client-gen: each lacks one thing.
type (
	listBase struct{ metav1.TypeMeta }
	noItems  struct{ listBase }
	oneItem  struct {
		listBase
		Items corev1.Pod
	}
	textItems struct {
		listBase
		Items []string
	}
	statusItems struct { // without metadata
		listBase
		Items []metav1.Status
	}
	metaItems struct { // no runtime.Object
		listBase
		Items []metav1.ObjectMeta
	}
	pointerItems struct {
		listBase
		Items []*corev1.Pod
	}
)

func (*listBase) DeepCopyObject() runtime.Object { return nil }

// A collection is found by the methods of its client alone, whatever else a clientset has.
func TestListedBy(t *testing.T) {
	pods := reflect.TypeFor[*corev1.Pod]()
	type podClient = clientOf[*corev1.PodList, watch.Interface]
	for _, tc := range []struct {
		method any
		want   reflect.Type // nil: none
	}{
		{(func() podClient)(nil), pods},
		{(func(string) podClient)(nil), pods},
		{(func() clientOf[*pointerItems, watch.Interface])(nil), pods},
		{(func(int) podClient)(nil), nil},
		{(func(string, string) podClient)(nil), nil},
		{(func())(nil), nil},
		{(func() (podClient, error))(nil), nil},
		{(func() *corev1.Pod)(nil), nil},
		{(func() interface {
			List(context.Context, metav1.ListOptions) (*corev1.PodList, error)
		})(nil), nil},
		{(func() interface {
			Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
		})(nil), nil},
		{(func() interface {
			List(context.Context, metav1.GetOptions) (*corev1.PodList, error)
			Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
		})(nil), nil},
		{(func() interface {
			List(context.Context, metav1.ListOptions) (*corev1.PodList, error)
			Watch(string, metav1.ListOptions) (watch.Interface, error)
		})(nil), nil},
		{(func() clientOf[*corev1.PodList, *watch.FakeWatcher])(nil), nil},
		{(func() clientOf[corev1.PodList, watch.Interface])(nil), nil},
		{(func() clientOf[runtime.Object, watch.Interface])(nil), nil},
		{(func() clientOf[*string, watch.Interface])(nil), nil},
		{(func() clientOf[*metav1.ObjectMeta, watch.Interface])(nil), nil},
		{(func() clientOf[*noItems, watch.Interface])(nil), nil},
		{(func() clientOf[*oneItem, watch.Interface])(nil), nil},
		{(func() clientOf[*textItems, watch.Interface])(nil), nil},
		{(func() clientOf[*statusItems, watch.Interface])(nil), nil},
		{(func() clientOf[*metaItems, watch.Interface])(nil), nil},
	} {
		of := reflect.TypeOf(tc.method)
		got, ok := listedBy(of)
		if ok != (tc.want != nil) || ok && got != tc.want {
			t.Errorf("%v: %v, %t; want %v", of, got, ok, tc.want)
		}
	}
	for _, tc := range []struct {
		f    any
		want bool
	}{
		{(func(context.Context, metav1.ListOptions) (string, error))(nil), true},
		{(func(context.Context) (string, error))(nil), false},
		{(func(context.Context, metav1.ListOptions, int) (string, error))(nil), false},
		{(func(any, metav1.ListOptions) (string, error))(nil), false},
		{(func(context.Context, *metav1.ListOptions) (string, error))(nil), false},
		{(func(context.Context, metav1.ListOptions) error)(nil), false},
		{(func(context.Context, metav1.ListOptions) (string, string))(nil), false},
		{(func(context.Context, metav1.ListOptions) (string, error, error))(nil), false},
	} {
		if got := isRequest(reflect.TypeOf(tc.f)); got != tc.want {
			t.Errorf("%T: %t", tc.f, got)
		}
	}
}

// lw decodes into a pointer to a struct with metadata, and into unstructured objects whatever the
// example's own type is. The kind is that of the scheme, if it has one for the type.
func TestDecodedType(t *testing.T) {
	pods := reflect.TypeFor[*corev1.Pod]()
	for _, tc := range []struct {
		example runtime.Object
		want    reflect.Type
	}{
		{&corev1.Pod{}, pods}, {(*corev1.Pod)(nil), nil}, {nil, nil}, {&metav1.Status{}, nil}, {byValue{}, nil},
		{&unstructured.Unstructured{}, unstructuredType}, {&unstructured.UnstructuredList{}, unstructuredType}, {&metav1.PartialObjectMetadata{}, metadataType},
	} {
		got, ok := decodedType(tc.example)
		if ok != (tc.want != nil) || ok && got != tc.want {
			t.Errorf("%T: %v, %t; want %v", tc.example, got, ok, tc.want)
		}
	}
	scheme := func(kinds ...string) *runtime.Scheme {
		s := runtime.NewScheme()
		for _, kind := range kinds {
			s.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind(kind), &corev1.Pod{})
		}
		return s
	}
	for _, tc := range []struct {
		scheme *runtime.Scheme
		want   string
	}{{nil, ""}, {scheme(), ""}, {scheme("Machine"), "Machine"}, {scheme("Machine", "Pod"), ""}} {
		if got := (Decoder{Scheme: tc.scheme}).kindOf(&corev1.Pod{}); got != tc.want {
			t.Errorf("kind %q, want %q", got, tc.want)
		}
	}
	decoded := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	for _, want := range []metav1.TypeMeta{{}, {APIVersion: "v1", Kind: "Pod"}} {
		example := &metav1.PartialObjectMetadata{TypeMeta: want}
		s := Decoder{}.Source(nopLister{}, example).(*capturedSource)
		obj := &metav1.PartialObjectMetadata{TypeMeta: decoded}
		s.finish(obj)
		if want.Kind == "" {
			want = decoded
		}
		rig.Same(t, "kind of metadata", want, obj.TypeMeta)
		s.finish(nil)
	}
}

// byValue is an object that is no pointer.
type byValue struct{ *corev1.Pod }

type nopLister struct{}

func (nopLister) List(metav1.ListOptions) (runtime.Object, error)   { panic("called") }
func (nopLister) Watch(metav1.ListOptions) (watch.Interface, error) { panic("called") }

// Each type of objects is listed by one collection, also if two groups have it.
func TestResourcesOf(t *testing.T) {
	type group interface {
		Pods(string) clientOf[*corev1.PodList, watch.Interface]
		Nodes() clientOf[*corev1.NodeList, watch.Interface]
		Version() string
	}
	type clientset interface {
		A() group
		B() group
		Of(string) group
		Both() (group, error)
	}
	var got []string
	for _, r := range resourcesOf(reflect.TypeFor[clientset]()) {
		got = append(got, fmt.Sprint(r.group, " ", r.name, " ", r.resource, " ", r.namespaced, " ", r.object))
	}
	rig.Same(t, "", []string{"A Nodes nodes false *v1.Node", "A Pods pods true *v1.Pod"}, got)
	if got := resourcesOf(reflect.TypeFor[*corev1.Pod]()); got != nil {
		t.Errorf("of no interface: %v", got)
	}
}

// A query for several values finds an object that has one of them all the time, also if the object
// gets another value between two lookups. It ends also if objects change for ever.
func TestLookupAny(t *testing.T) {
	for moves, want := range map[int]int{0: 1, 1: 1, 7: 1, 1000: 0} {
		pod := func(value string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{"v": value}}}
		}
		store := lw.NewIndexer(pod("b"))
		index := lw.NewIndex(store, func(p *corev1.Pod) string { return p.Labels["v"] })
		left := moves
		lookup := func(value string) iter.Seq[*corev1.Pod] {
			return func(yield func(*corev1.Pod) bool) {
				index.Lookup(value)(yield)
				if left == 0 {
					return
				}
				// After a was looked at the object moves there, and back after b.
				if value == "a" {
					store.Set(pod("a"))
					left--
				} else {
					store.Set(pod("b"))
				}
			}
		}
		// The version of the store stays "", as it does while an object is set aside.
		got := lookupAny(index.Changed, lookup, []string{"a", "b"})
		if len(got) != want {
			t.Errorf("%d moves: found %d objects, want %d", moves, len(got), want)
		}
	}
}
