package lwtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

const reels = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: reels.example.com}
spec:
  group: example.com
  names: {plural: reels, singular: reel, kind: Reel, shortNames: [], categories: [all]}
  scope: Namespaced
  versions:
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {big: {type: integer, maximum: 5}}}}}}}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, more: {type: string}}}}}}
`

// put writes a definition as YAML, by a request, since those of clients have the spec alone.
func put(t *testing.T, s *lwtest.Server, definition string) {
	t.Helper()
	data := rig.Must[[]byte](t)(yaml.ToJSON([]byte(definition)))
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	code, body := sendWrite(s, "POST", path, "application/json", string(data))
	if code == http.StatusConflict {
		code, body = sendWrite(s, "PUT", path+"/reels.example.com", "application/json", string(data))
	}
	if code >= 300 {
		t.Fatal(code, body)
	}
}

// sized is what a program says of the definition: v1beta1 calls big what is size in v1.
func sized(_ *unstructured.Unstructured, r lwtest.Resource) lwtest.Resource {
	spec := func(o apiruntime.Object) map[string]any {
		m, _, _ := unstructured.NestedMap(o.(*unstructured.Unstructured).Object, "spec")
		return m
	}
	r.Default = func(_ context.Context, a lwtest.Admission) error {
		u := a.Object.(*unstructured.Unstructured)
		if s := spec(u); u.GetAPIVersion() == "example.com/v1" && s["size"] == nil {
			return unstructured.SetNestedField(u.Object, int64(1), "spec", "size")
		}
		return nil
	}
	r.Validate = func(_ context.Context, a lwtest.Admission) error {
		if a.Verb != lwtest.Delete && spec(a.Object)["size"] == int64(13) {
			return errors.New("an unlucky size")
		}
		return nil
	}
	r.Convert = func(u *unstructured.Unstructured, version string) error {
		from, to := "size", "big"
		if u.GetAPIVersion() == "example.com/"+version {
			u.SetAnnotations(map[string]string{"read": "again"})
			return nil
		}
		if version == "v1" {
			from, to = to, from
		}
		s := spec(u)
		if s[from] == int64(4) {
			panic("no such size")
		}
		s[to] = s[from]
		delete(s, from)
		return unstructured.SetNestedMap(u.Object, s, "spec")
	}
	r.Table = func(o apiruntime.Object) (*metav1.Table, error) {
		return &metav1.Table{
			ColumnDefinitions: []metav1.TableColumnDefinition{{Name: o.GetObjectKind().GroupVersionKind().Version}},
			Rows:              []metav1.TableRow{{Cells: []any{spec(o)["size"]}}},
		}, nil
	}
	return r
}

// Objects have what a program says of their definition, in each of its versions, also those that an
// earlier definition has taken.
func TestDefine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beta, list = "/apis/example.com/v1beta1/namespaces/default/reels", "/apis/example.com/v1/reels"
		all, during := lwtest.Definitions(), []int(nil)
		var s *lwtest.Server
		all[0].Define = func(u *unstructured.Unstructured, r lwtest.Resource) lwtest.Resource {
			code, _ := sendWrite(s, "GET", list, "", "")
			during = append(during, code)
			return sized(u, r)
		}
		s = lwtest.NewServer(t, all...)
		put(t, s, reels)
		check := func(method, path, contentType, body string, code int, want string) {
			t.Helper()
			got, answer := sendWrite(s, method, path, contentType, body)
			if got != code || !strings.Contains(answer, want) {
				t.Errorf("%s %s %s: %d %s\nwant %d %s", method, path, body, got, answer, code, want)
			}
		}
		object := func(version, name, spec string) string {
			return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Reel","metadata":{"name":%q},"spec":{%s}}`, version, name, spec)
		}
		check("GET", "/apis/example.com", "", "", 200, `"preferredVersion":{"groupVersion":"example.com/v1",`)
		check("GET", "/apis/example.com/v1", "", "", 200, `"singularName":"reel","namespaced":true,"kind":"Reel"`)
		check("GET", "/apis/example.com/v1", "", "", 200, `"categories":["all"]`)
		check("POST", "reels", "application/json", object("v1", "a", `"more":"x","other":1`), 201, `"spec":{"more":"x","size":1}`)
		check("POST", "reels", "application/json", object("v1", "b", `"size":13`), 422, "an unlucky size")
		check("POST", beta, "application/json", object("v1beta1", "b", `"big":13`), 422, "less than or equal to 5")
		check("POST", beta, "application/json", object("v1beta1", "b", `"big":2`), 201, `"spec":{"big":2}`)
		check("GET", "reels/b", "", "", 200, `"spec":{"size":2}`)
		check("GET", beta, "", "", 200, `"spec":{"big":2}`)
		check("GET", "reels/b/scale", "", "", 200, `"spec":{"replicas":2}`)
		check("GET", beta+"/b/scale", "", "", 404, "") // it has neither that nor a status of its own
		check("PATCH", beta+"/b", mergePatch, `{"status":{"size":3}}`, 200, "")
		check("PATCH", "reels/b", mergePatch, `{"spec":{"size":4}}`, 200, "")
		check("GET", beta+"/b", "", "", 500, "panic: no such size")
		check("GET", beta, "", "", 500, "panic: no such size")
		check("PATCH", "reels/b", mergePatch, `{"spec":{"size":2}}`, 200, "")
		check("GET", list+"?fieldSelector=spec.size%3D2", "", "", 400, "field label not supported")

		const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
		r := rig.Must[*http.Request](t)(http.NewRequest("GET", s.URL()+list, nil))
		r.Header.Set("Accept", table)
		resp := rig.Must[*http.Response](t)(s.Client().Do(r))
		var shown metav1.Table
		rig.OK(t, json.NewDecoder(resp.Body).Decode(&shown))
		_ = resp.Body.Close()
		rig.Same(t, "the table", "v1 [1] [2]", fmt.Sprint(shown.ColumnDefinitions[0].Name, " ", shown.Rows[0].Cells, " ", shown.Rows[1].Cells))

		// The definition changes, and has no moment in which nothing is served.
		more := strings.Replace(reels, "    subresources: {status", "    selectableFields: [{jsonPath: .spec.size}]\n    subresources: {status", 1)
		put(t, s, more)
		check("GET", list+"?fieldSelector=spec.size%3D2", "", "", 200, `"name":"b"`)
		check("GET", "reels/b", "", "", 200, `"annotations":{"read":"again"}`)
		check("GET", beta+"/b", "", "", 200, `"spec":{"big":2}`)
		// What is stored is another version from now on.
		put(t, s, strings.NewReplacer("served: true\n    storage: true", "served: false\n    storage: false", "storage: false", "storage: true").Replace(more))
		check("GET", "reels/b", "", "", 404, "")
		check("PATCH", beta+"/b", mergePatch, `{"spec":{"big":3}}`, 200, `"spec":{"big":3}`)
		put(t, s, more)
		check("GET", "reels/b", "", "", 200, `"spec":{"size":3}`)
		rig.Same(t, "what lists got while Define was asked", "[404 200 200 404]", fmt.Sprint(during))
	})
}

// A DELETE gives a definition the finalizer that holds it until its objects are gone, and no write
// before it does, as on kube-apiserver.
func TestCleanup(t *testing.T) {
	s := lwtest.NewServer(t, lwtest.Definitions()...)
	put(t, s, reels)
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/reels.example.com"
	const reel = "/apis/example.com/v1/namespaces/default/reels"
	finalizers := func(verb string) []string {
		t.Helper()
		code, body := sendWrite(s, verb, path, "", "")
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(body), &o); err != nil || code != http.StatusOK {
			t.Fatal(code, body, err)
		}
		return o.Finalizers
	}
	if f := finalizers("GET"); f != nil {
		t.Errorf("a definition that nobody deletes has the finalizers %q", f)
	}
	run(t, s, []step{
		{"PATCH", path, mergePatch, `{"metadata":{"finalizers":["example.com/own"]}}`, 200, ""},
		{"POST", reel, "application/json", `{"apiVersion":"example.com/v1","kind":"Reel","metadata":{"name":"a","finalizers":["example.com/held"]}}`, 201, ""},
	})
	want := []string{"example.com/own", "customresourcecleanup.apiextensions.k8s.io"}
	rig.Same(t, "after a DELETE", want, finalizers("DELETE"))
	rig.Same(t, "after another one", want, finalizers("DELETE"))
	run(t, s, []step{{"PATCH", reel + "/a", mergePatch, `{"metadata":{"finalizers":null}}`, 200, ""}})
	rig.Same(t, "once its objects are gone", want[:1], finalizers("GET"))
	run(t, s, []step{
		{"PATCH", path, mergePatch, `{"metadata":{"finalizers":null}}`, 200, ""},
		{"GET", path, "", "", 404, ""},
	})
}

// The server keeps nothing of a kind that is gone, nor of the schema of its definition.
func TestGoneDefinitionLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, kept := lwtest.Definitions(), weak.Pointer[[]byte]{}
		all[0].Define = func(_ *unstructured.Unstructured, r lwtest.Resource) lwtest.Resource {
			schema := new([]byte)
			kept = weak.Make(schema)
			r.Validate = func(context.Context, lwtest.Admission) error { *schema = nil; return nil }
			return r
		}
		s := lwtest.NewServer(t, all...)
		put(t, s, reels)
		const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/reels.example.com"
		run(t, s, []step{
			{"POST", "/apis/example.com/v1/namespaces/default/reels", "application/json",
				`{"apiVersion":"example.com/v1","kind":"Reel","metadata":{"name":"a"}}`, 201, ""},
			{"DELETE", path, "", "", 200, ""},
		})
		synctest.Wait()
		run(t, s, []step{{"GET", path, "", "", 404, ""}})
		for range 100 {
			if runtime.GC(); kept.Value() == nil {
				return
			}
		}
		t.Error("the server keeps what was said of a definition that is gone")
	})
}

// A watch shows the deletion of each object, and ends when the last one is gone, not when its
// definition is marked. The mark raises the generation, as a change of the spec does, which ends it.
func TestWatchOfWhatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lwtest.NewServer(t, lwtest.Definitions()...)
		put(t, s, reels)
		const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/reels.example.com"
		const reel = "/apis/example.com/v1/namespaces/default/reels"
		var got string
		follow := func() {
			t.Helper()
			go func() {
				var seen []string
				code, body := sendWrite(s, "GET", reel+"?watch=1&timeoutSeconds=3600", "", "")
				for line := range strings.Lines(body) {
					var ev struct{ Type string }
					if json.Unmarshal([]byte(line), &ev) == nil {
						seen = append(seen, ev.Type)
					}
				}
				got = fmt.Sprint(code, seen)
			}()
			synctest.Wait()
		}
		ended := func(when, want string) {
			t.Helper()
			synctest.Wait()
			rig.Same(t, when, want, got)
			got = ""
		}
		run(t, s, []step{
			{"POST", reel, "application/json", `{"apiVersion":"example.com/v1","kind":"Reel",
				"metadata":{"name":"a","finalizers":["example.com/held"]}}`, 201, ""},
		})
		follow()
		run(t, s, []step{{"PATCH", path, mergePatch, `{"spec":{"names":{"categories":["none"]}}}`, 200, ""}})
		ended("a change of the spec", "200 [ADDED]")
		follow()
		run(t, s, []step{{"DELETE", path, "", "", 200, ""}})
		ended("the mark", "")
		run(t, s, []step{{"PATCH", reel + "/a", mergePatch, `{"metadata":{"finalizers":null}}`, 200, ""}})
		ended("the end", "200 [ADDED MODIFIED DELETED]")
		put(t, s, reels)
		s.Inject(lwtest.Fault{Verb: lwtest.Watch, Effect: lwtest.Delay(time.Second)})
		follow()
		run(t, s, []step{{"DELETE", path, "", "", 200, ""}})
		time.Sleep(time.Minute)
		ended("the end just before the beginning", "404 []")
	})
}

// A write that changes nothing stores an object in the version that is stored by now, once.
func TestStoredAnew(t *testing.T) {
	s := lwtest.NewServer(t, lwtest.Definitions()...)
	put(t, s, reels)
	version := func(of string) (v string) {
		t.Helper()
		code, body := sendWrite(s, "PATCH", "/apis/example.com/"+of+"/namespaces/default/reels/a?fieldManager=m", applyPatch,
			`{"apiVersion":"example.com/`+of+`","kind":"Reel","metadata":{"name":"a"}}`)
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(body), &o); err != nil || code >= 300 {
			t.Fatal(code, body, err)
		}
		return o.ResourceVersion
	}
	first := version("v1")
	rig.Same(t, "again", first, version("v1"))
	put(t, s, strings.NewReplacer("storage: true", "storage: false", "storage: false", "storage: true").Replace(reels))
	second := version("v1")
	if second == first {
		t.Error("it is not stored anew")
	}
	rig.Same(t, "once more", second, version("v1"))
}

// Who manages a field is known in each version, by the name that the field has there.
func TestManagersOfVersions(t *testing.T) {
	const beta, one = "/apis/example.com/v1beta1/namespaces/default/reels", "/apis/example.com/v1/namespaces/default/reels"
	apply := func(version, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Reel","metadata":{"name":"a"},"spec":{%s}}`, version, spec)
	}
	for name, tt := range map[string]struct {
		define func(*unstructured.Unstructured, lwtest.Resource) lwtest.Resource
		steps  []step
	}{
		"conversion": {sized, []step{
			{"PATCH", beta + "/a?fieldManager=old", applyPatch, apply("v1beta1", `"big":2`), 201, `"f:big"`},
			{"PATCH", one + "/a?fieldManager=new", applyPatch, apply("v1", `"size":3`), 409, `"field":".spec.big"`},
			{"PATCH", one + "/a?fieldManager=new", applyPatch, apply("v1", `"size":2`), 200, `"f:size"`},
			{"PATCH", beta + "/a?fieldManager=old", applyPatch, apply("v1beta1", ""), 200, `"spec":{"big":2}`},
			{"PATCH", beta + "/a?fieldManager=old&force=true", applyPatch, apply("v1beta1", `"big":3`), 200, `"managedFields":[{"manager":"old"`},
			{"GET", one + "/a", "", "", 200, `"spec":{"size":3}`},
		}},
		"the apiVersion alone": {nil, []step{
			{"PATCH", beta + "/a?fieldManager=old", applyPatch, apply("v1beta1", `"big":2`), 201, `"f:big"`},
			{"PATCH", one + "/a?fieldManager=new", applyPatch, apply("v1", `"size":3`), 500, "field not declared in schema"},
			{"PATCH", one + "/a?fieldManager=new", mergePatch, `{"spec":{"size":3}}`, 200, `"creationTimestamp"`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			all := lwtest.Definitions()
			all[0].Define = tt.define
			s := lwtest.NewServer(t, all...)
			put(t, s, reels)
			run(t, s, tt.steps)
		})
	}
}

// An object that does not fit the type of its table is an error, and no table of what does fit.
func TestTableOfAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := lwtest.Definitions()
		all[0].Define = func(_ *unstructured.Unstructured, r lwtest.Resource) lwtest.Resource {
			r.Type = &carp.Carp{}
			r.Table = func(apiruntime.Object) (*metav1.Table, error) {
				return &metav1.Table{Rows: make([]metav1.TableRow, 1)}, nil
			}
			return r
		}
		s := lwtest.NewServer(t, all...)
		put(t, s, strings.Replace(reels, "more: {type: string}", "hostname: {type: integer}", 1))
		code, body := sendWrite(s, "POST", "reels", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Reel","metadata":{"name":"a"},"spec":{"hostname":5}}`)
		rig.Same(t, body, http.StatusCreated, code)
		r := rig.Must[*http.Request](t)(http.NewRequest("GET", s.URL()+"/apis/example.com/v1/reels", nil))
		r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		resp := rig.Must[*http.Response](t)(s.Client().Do(r))
		_ = resp.Body.Close()
		rig.Same(t, "the answer", http.StatusInternalServerError, resp.StatusCode)
	})
}
