package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// A widget is a custom resource as a user writes it down: no generated code.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Size  int      `json:"size"`
		Parts []string `json:"parts,omitempty"`
	} `json:"spec"`
}

const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// defineWidgets creates a CRD of the plural, whose size may be an integer or a string, and waits
// until it is served. It returns the path of the resource in the namespace.
func defineWidgets(t testing.TB, r *servers.Reader, plural, namespace string) string {
	t.Helper()
	kind := kindOf(plural)
	write(t, r, http.MethodPost, crds, object{
		"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
		"metadata": object{"name": plural + ".lw.test"},
		"spec": object{"group": "lw.test", "scope": "Namespaced",
			"names": object{"plural": plural, "singular": plural + "-one", "kind": kind, "listKind": kind + "List"},
			"versions": []object{{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{
				"type": "object", "properties": object{"spec": object{"type": "object", "properties": object{
					"size":  object{"x-kubernetes-int-or-string": true},
					"parts": object{"type": "array", "items": object{"type": "string"}},
				}}}}}}}},
	})
	path := "/apis/lw.test/v1/namespaces/" + namespace + "/" + plural
	mustBeServed(t, r, path)
	return path
}

// mustBeServed waits until there is an answer to a list of the custom resource at path.
func mustBeServed(t testing.TB, r *servers.Reader, path string) {
	t.Helper()
	rig.Until(t, patience, func() string {
		if _, err := r.Get(within(t, patience), path); err != nil {
			return fmt.Sprint("the CRD is not served: ", err)
		}
		return ""
	})
}

// kindOf returns the kind of the CRD of plural.
func kindOf(plural string) string { return "W" + plural[1:] }

func newWidget(plural, namespace, name string, size any) object {
	return object{"kind": kindOf(plural), "apiVersion": "lw.test/v1",
		"metadata": object{"namespace": namespace, "name": name, "labels": object{"app": "lw"}},
		"spec":     object{"size": size, "parts": []string{"a", "b"}}}
}

// onlyMetadata is what a PartialObjectMetadata shows.
func onlyMetadata(object map[string]any) map[string]any {
	return map[string]any{"metadata": object["metadata"]}
}

// A watcher is a follower of some type.
type watcher interface {
	synced()
	same(r *servers.Reader)
	told(what string, match func(error) bool)
	paced()
	name() string
	Status() lw.Status
	calls() (adds, updates, deletes int)
	called(adds, updates, deletes int)
}

// followWidgets follows a custom resource in every form: typed, unstructured and metadata only,
// over lw.HTTP and over the dynamic and the metadata client, streamed and in pages.
func followWidgets(t *testing.T, s *servers.Server, path, plural, namespace string) []watcher {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "lw.test", Version: "v1", Resource: plural}
	var all []watcher
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages} {
		all = append(all, followForms(t, s, path, plural, mode, wire{})...)

		c := newClient(t, s, wire{name: "dynamic-" + string(mode)})
		dyn := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(c.config, c.http))
		widgets := dyn.Resource(resource).Namespace(namespace)
		all = append(all, follow(t, c, path, &lw.ListWatch[*unstructured.Unstructured, *unstructured.UnstructuredList]{
			ListFunc: widgets.List, WatchFunc: widgets.Watch}, inPages(mode, nil)))

		c = newClient(t, s, wire{name: "metadata-client-" + string(mode), protobuf: true})
		meta := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(c.config, c.http))
		metas := meta.Resource(resource).Namespace(namespace)
		all = append(all, follow(t, c, path, &lw.ListWatch[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{
			ListFunc: metas.List, WatchFunc: metas.Watch}, inPages(mode, onlyMetadata)))
	}
	return all
}

// followForms follows a custom resource over lw.HTTP: typed, unstructured and metadata only.
func followForms(t *testing.T, s *servers.Server, path, plural string, mode lw.ListMode, w wire) []watcher {
	t.Helper()
	accept := ""
	if w.cbor {
		accept = acceptCBOR
	}
	connect := func(form string) *client {
		w.name = form + "-" + string(mode)
		c := newClient(t, s, w)
		if w.cbor {
			t.Cleanup(func() { answeredIn(t, c, "application/cbor", "application/cbor-seq") })
		}
		return c
	}
	typed, untyped, meta := connect("typed"), connect("unstructured"), connect("metadata")
	return []watcher{
		follow(t, typed, path, &lw.HTTP[*widget]{URL: s.URL + path, Client: typed.http, Accept: accept, Kind: kindOf(plural)},
			inPages(mode, nil)),
		follow(t, untyped, path, &lw.HTTP[*unstructured.Unstructured]{URL: s.URL + path, Client: untyped.http,
			Accept: accept}, inPages(mode, nil)),
		follow(t, meta, path, &lw.HTTP[*metav1.PartialObjectMetadata]{URL: s.URL + path, Client: meta.http, Accept: accept},
			inPages(mode, onlyMetadata)),
	}
}

// inPages are the options of a follower of custom resources: a list in pages has several.
func inPages(mode lw.ListMode, view func(map[string]any) map[string]any) followOptions {
	return followOptions{Options: lw.Options{List: mode, PageSize: 4}, view: view}
}

// TestCustomResource follows a custom resource in every form, while its objects are written, and
// while its definition is deleted and created again.
func TestCustomResource(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, plural = "custom", "widgets"
		s, r := shared(t, kind)
		path := defineWidgets(t, r, plural, namespace)
		for i := range 10 {
			create(t, r, path, newWidget(plural, namespace, fmt.Sprintf("w-%d", i), i))
		}
		all := followWidgets(t, s, path, plural, namespace)
		inStep(t, r, all...)
		create(t, r, path, newWidget(plural, namespace, "new", 1))
		merge(t, r, path+"/w-0", object{"spec": object{"size": 100}})
		remove(t, r, path+"/w-1")
		for _, f := range all {
			f.same(r)
			f.called(11, 1, 1)
		}

		remove(t, r, crds+"/"+plural+".lw.test")
		rig.Until(t, patience, func() string {
			if _, err := r.Get(within(t, patience), path); !hasCode(err, 404) {
				return fmt.Sprintf("the deleted CRD is served: %v", err)
			}
			return ""
		})
		for _, f := range all {
			f.told("404", apierrors.IsNotFound)
			rig.Until(t, patience, func() string {
				if _, _, deletes := f.calls(); deletes != 11 {
					return fmt.Sprintf("%s: %d calls of Delete after the CRD was deleted, want 11", f.name(), deletes)
				}
				return ""
			})
			rig.Until(t, patience, func() string {
				if st := f.Status(); !apierrors.IsNotFound(st.Err) || st.Failures == 0 {
					return fmt.Sprintf("%s: status without the CRD: %+v", f.name(), st)
				}
				return ""
			})
		}
		defineWidgets(t, r, plural, namespace)
		for i := range 3 {
			create(t, r, path, newWidget(plural, namespace, fmt.Sprintf("w-%d", i), i))
		}
		for _, f := range all {
			f.same(r)
			f.paced()
			if adds, _, _ := f.calls(); adds != 14 {
				t.Errorf("%s: %d calls of Add in all, want 14", f.name(), adds)
			}
		}
	}, servers.Kube)
}

// TestObjectThatDoesNotFit serves an object that cannot be a widget, before the list and during the
// watch. It is set aside with its name; the others are not touched, and it comes in when it has
// been repaired.
func TestObjectThatDoesNotFit(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, plural = "misfit", "wonders"
		s, r := shared(t, kind)
		path := defineWidgets(t, r, plural, namespace)
		for i := range 5 {
			create(t, r, path, newWidget(plural, namespace, fmt.Sprintf("w-%d", i), i))
		}
		create(t, r, path, newWidget(plural, namespace, "bad-1", "big"))
		var all []*follower[*widget]
		for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages, lw.ListWhole} {
			c := newClient(t, s, wire{name: string(mode)})
			all = append(all, follow(t, c, path, &lw.HTTP[*widget]{URL: s.URL + path, Client: c.http, Kind: kindOf(plural)},
				followOptions{Options: lw.Options{List: mode, PageSize: 2}}))
		}
		for _, f := range all {
			f.synced()
		}
		create(t, r, path, newWidget(plural, namespace, "bad-2", "huge"))
		after := create(t, r, path, newWidget(plural, namespace, "good", 7))
		aside := func(f *follower[*widget], names ...string) {
			t.Helper()
			want := map[string]bool{}
			for _, name := range names {
				want[name] = true
			}
			rig.Until(t, patience, func() string {
				got := map[string]bool{}
				for key := range f.Status().SetAside {
					got[key.Name] = true
				}
				if diff := cmp.Diff(want, got); diff != "" {
					return fmt.Sprintf("%s: set aside (-want +got):\n%s", f.name(), diff)
				}
				return ""
			})
		}
		for _, f := range all {
			aside(f, "bad-1", "bad-2")
			rig.Until(t, patience, func() string {
				if n := f.Store().Len(); n != 6 {
					return fmt.Sprintf("%s: %d objects, want the 6 that fit", f.name(), n)
				}
				return ""
			})
			for _, name := range []string{"bad-1", "bad-2"} {
				f.told(name, func(err error) bool {
					e, ok := err.(*lw.Error)
					return ok && e.Op == "decode" && e.Key == lw.Key{Namespace: namespace, Name: name}
				})
			}
			if newer(f.Status().ResourceVersion, after.ResourceVersion) || f.Status().ResourceVersion == after.ResourceVersion {
				t.Errorf("%s: version %s is reported, which passes an object that is not in the store", f.name(),
					f.Status().ResourceVersion)
			}
		}
		for _, name := range []string{"bad-1", "bad-2"} {
			merge(t, r, path+"/"+name, object{"spec": object{"size": 3}})
		}
		for _, f := range all {
			f.same(r)
			if n := len(f.errs.all()); n != 2 {
				t.Errorf("%s: OnError was told %d times, want once for each of 2 objects:\n%v", f.name(), n, f.errs)
			}
			f.bounded(1, 2)
		}
	}, servers.Kube)
}
