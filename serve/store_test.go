package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A part is an object with all that kube-apiserver keeps.
type part struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Color    string   `json:"color,omitempty"`
		Replicas int32    `json:"replicas,omitempty"`
		Screws   []Screw  `json:"screws,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
		Next     *part    `json:"next,omitempty"`
		Tags     []string `json:"tags,omitempty" patchStrategy:"merge"`
	} `json:"spec"`
	Status struct {
		Replicas int32       `json:"replicas,omitempty"`
		Since    metav1.Time `json:"since,omitempty"`
	} `json:"status"`
}

type Screw struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
}

// A plainStore has the methods of a Writable alone, and counts what is read of it.
type plainStore[T lw.Object] struct {
	lw.Writable[T]
	reads *atomic.Int32
}

func (s plainStore[T]) Get(ctx context.Context, key lw.Key) (T, error) {
	s.reads.Add(1)
	return s.Writable.Get(ctx, key)
}

const partsPath = "/apis/example.io/v1/namespaces/n/parts"

var parts = serve.Resource[*part]{
	Group: "example.io", Name: "parts", Kind: "Part", Status: true,
	Scale: &serve.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas"},
}

// parts serves a Memory of parts as a store of which nothing but the methods of a Writable is
// known.
func (b *bubble) parts(r serve.Resource[*part]) (*lw.Memory[*part], *atomic.Int32) {
	m, reads := lw.NewMemory[*part](), new(atomic.Int32)
	b.serve(func(ctx context.Context) error { return serve.ServeStore(ctx, b.h, plainStore[*part]{m, reads}, r) })
	return m, reads
}

const (
	applyYAML = "application/apply-patch+yaml"
	mergeJSON = "application/merge-patch+json"
	partA     = "apiVersion: example.io/v1\nkind: Part\nmetadata: {name: a}\nspec: {color: red}\n"
)

// The authorizer is asked for each verb and subresource before anything is read, and for a creation
// where an apply creates.
func TestRights(t *testing.T) {
	var asked []string
	var deny string
	authorize := func(_ *http.Request, a serve.Attributes) error {
		right := strings.Trim(fmt.Sprintf("%s %s/%s", a.Verb, a.Name, a.Subresource), "/ ")
		if asked = append(asked, right); right == deny {
			return errors.New("not you")
		}
		return nil
	}
	inBubble(t, serve.Options{Authorize: authorize}, func(b *bubble) {
		m, reads := b.parts(parts)
		for _, tt := range []struct{ method, path, contentType, body, asked string }{
			{"PATCH", "/a?fieldManager=m", applyYAML, partA, "patch a, create a"},
			{"PATCH", "/a?fieldManager=m", applyYAML, partA, "patch a"},
			{"PATCH", "/a", mergeJSON, `{}`, "patch a"},
			{"PUT", "/a/status", "", `{"metadata":{"name":"a"}}`, "update a/status"},
			{"PATCH", "/a/status", mergeJSON, `{}`, "patch a/status"},
			{"GET", "/a/status", "", "", "get a/status"},
			{"PATCH", "/a/scale", mergeJSON, `{"spec":{"replicas":2}}`, "patch a/scale"},
			{"GET", "/a/scale", "", "", "get a/scale"},
			{"POST", "", "", `{"metadata":{"name":"b"}}`, "create"},
			{"DELETE", "/b", "", "", "delete b"},
			{"DELETE", "?labelSelector=a=b", "", "", "deletecollection"},
		} {
			asked, deny = nil, ""
			before := m.ResourceVersion()
			for _, right := range strings.Split(tt.asked, ", ") {
				deny = right
				reads.Store(0)
				code, body := b.do(tt.method, partsPath+tt.path, tt.body, "Content-Type", tt.contentType)
				if code != http.StatusForbidden || m.ResourceVersion() != before || reads.Load() != 0 && !strings.HasPrefix(right, "create a") {
					t.Errorf("%s %s without %s: %d %s; %d reads", tt.method, tt.path, right, code, body, reads.Load())
				}
			}
			asked, deny = nil, ""
			if code, body := b.do(tt.method, partsPath+tt.path, tt.body, "Content-Type", tt.contentType); code/100 != 2 {
				t.Errorf("%s %s: %d %s", tt.method, tt.path, code, body)
			}
			if got := strings.Join(asked, ", "); got != tt.asked {
				t.Errorf("%s %s: asked for %s, want %s", tt.method, tt.path, got, tt.asked)
			}
		}
	})
}

// The functions of a Resource fill in, refuse and name; a panic is an error of its request.
func TestResourceFunctions(t *testing.T) {
	r := parts
	r.Default = func(p *part) error {
		if p.Spec.Color == "" {
			p.Spec.Color = "white"
		}
		if p.Spec.Color == "panic" {
			panic("no color")
		}
		return nil
	}
	r.Validate = func(_ context.Context, p, old *part) error {
		if p != nil && p.Spec.Replicas > 9 {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), p.Spec.Replicas, "too many")}.ToAggregate()
		}
		if p != nil && old != nil && p.Spec.Color != old.Spec.Color {
			return errors.New("the color stays")
		}
		return nil
	}
	r.ValidateName = func(name string, _ bool) []string {
		if strings.HasPrefix(name, "x") {
			return []string{"begins with x"}
		}
		return nil
	}
	inBubble(t, serve.Options{}, func(b *bubble) {
		m, _ := b.parts(r)
		for _, tt := range []struct {
			method, path, body string
			code               int
			text               string
		}{
			{"POST", "", `{"metadata":{"name":"A"}}`, 201, `"color":"white"`},
			{"POST", "", `{"metadata":{"name":"xa"}}`, 422, "begins with x"},
			{"POST", "", `{"metadata":{"name":"b"},"spec":{"replicas":10}}`, 422, `"field":"spec.replicas"`},
			{"POST", "", `{"metadata":{"name":"b"},"spec":{"color":"panic"}}`, 500, "no color"},
			{"PUT", "/A", `{"metadata":{"name":"A"},"spec":{"color":"red"}}`, 422, `"message":"the color stays"`},
			{"PATCH", "/A", `{"spec":{"replicas":11}}`, 422, "too many"},
			{"PATCH", "/A/scale", `{"spec":{"replicas":11}}`, 422, "too many"},
			{"PATCH", "/A/scale", `{"spec":{"replicas":3}}`, 200, `"replicas":3`},
			{"PATCH", "/A/status", `{"status":{"replicas":2},"spec":{"color":"red"}}`, 200, `"status":{"replicas":2`},
		} {
			contentType := map[string]string{"PATCH": mergeJSON}[tt.method]
			b.answers(tt.code, tt.text, tt.method, partsPath+tt.path, tt.body, "Content-Type", contentType)
		}
		p, err := m.Get(t.Context(), name("A"))
		if err != nil || p.Spec.Color != "white" || p.Spec.Replicas != 3 || p.Status.Replicas != 2 || p.Generation != 2 {
			t.Errorf("stored: %+v, %v", p, err)
		}
	})
}

// A collection is deleted as a list of it shows it, each object as if alone, and nothing else.
func TestDeleteCollection(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m, _ := b.parts(parts)
		for i, labels := range []string{"a=1", "a=1", "a=2", "b=1"} {
			p := &part{}
			p.Namespace, p.Name = "n", fmt.Sprint("p", i)
			k, v, _ := strings.Cut(labels, "=")
			p.Labels = map[string]string{k: v}
			if i == 1 {
				p.Finalizers = []string{"example.io/stay"}
			}
			store(t, m.Create, p)
		}
		left := func() (all []string) {
			for p := range m.All() {
				all = append(all, p.Name)
			}
			return all
		}
		if code, body := b.do("DELETE", partsPath+"?labelSelector=a&dryRun=All", ""); code != 200 || len(left()) != 4 {
			t.Errorf("a dry run: %d %s", code, body)
		}
		body := b.answers(200, "", "DELETE", partsPath+"?labelSelector=a=1", "")
		var list struct{ Items []part }
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 2 {
			t.Errorf("%v %s", err, body)
		}
		if diff := cmp.Diff([]string{"p1", "p2", "p3"}, left()); diff != "" {
			t.Error(diff)
		}
		if p, _ := m.Get(t.Context(), name("p1")); p.DeletionTimestamp == nil {
			t.Error("what has a finalizer is not marked")
		}
		b.answers(200, "", "PATCH", partsPath+"/p1", `{"metadata":{"finalizers":null}}`, "Content-Type", mergeJSON)
		b.answers(200, "", "DELETE", partsPath+"?fieldSelector=metadata.name=p3", "")
		if diff := cmp.Diff([]string{"p2"}, left()); diff != "" {
			t.Error(diff)
		}
	})
}

// A document describes the fields of a type, its lists and their keys.
func TestOpenAPIOfAType(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.parts(parts)
		_, body := b.do("GET", "/openapi/v3/apis/example.io/v1", "")
		for _, want := range []string{
			`"replicas":{"type":"integer"}`, `"x-kubernetes-list-map-keys":["name"]`, `"since":{"format":"date-time","type":"string"}`,
			`"tags":{"items":{"type":"string"},"type":"array","x-kubernetes-list-type":"set"`, `"application/strategic-merge-patch+json"`,
		} {
			if !strings.Contains(body, want) {
				t.Errorf("no %s in %s", want, body)
			}
		}
		if !json.Valid([]byte(body)) {
			t.Error("no JSON")
		}
		// The kind of a scale is of another group, by which clients of scales go.
		aggregated := "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"
		for path, accept := range map[string]string{"/apis/example.io/v1": "", "/apis": aggregated} {
			if _, body := b.do("GET", path, "", "Accept", accept); !strings.Contains(body, `"group":"autoscaling","version":"v1"`) {
				t.Errorf("%s: %s", path, body)
			}
		}
	})
}

// A given schema says which fields there are, which lists have keys, and what is explained.
func TestSchema(t *testing.T) {
	r := serve.Resource[*unstructured.Unstructured]{Group: "example.io", Name: "things", Kind: "Thing", Schema: []byte(`
type: object
properties:
  metadata: {type: object}
  spec:
    type: object
    properties:
      color: {type: string, description: its color}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object}}}
      labels: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}
      template: {type: object, x-kubernetes-embedded-resource: true}
      port: {x-kubernetes-int-or-string: true}
      parts:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items: {type: object, properties: {name: {type: string}, size: {type: integer}}}
`)}
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*unstructured.Unstructured]()
		stored(b, m, r)
		const path = "/apis/example.io/v1/namespaces/n/things"
		apply := func(spec string) string {
			return `{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":` + spec + `}`
		}
		for _, tt := range []struct {
			method, path, contentType, body string
			code                            int
			text                            string
		}{
			{"POST", "?fieldValidation=Strict", "", apply(`{"colour":"red"}`), 400, `unknown field \"spec.colour\"`},
			{"POST", "?fieldValidation=Strict", "", apply(`{"parts":[{"name":"p"},{"nam":"q"}]}`), 400, `unknown field \"spec.parts[1].nam\"`},
			{"POST", "?fieldValidation=Strict", "", `{"kind":"Thing","apiVersion":"example.io/v1","metadata":{"name":"a"},"more":1}`, 400, `unknown field \"more\"`},
			{"POST", "?fieldValidation=Strict&dryRun=All", "", apply(`{"free":{"x":1},"port":80,"template":{"apiVersion":"v1","kind":"Pod","metadata":{"x":1}},"labels":{"x":{"a":"b"}}}`), 201, `"x":1`},
			{"POST", "?fieldValidation=Strict", "", apply(`{"template":{"spec":{}},"labels":{"x":{"b":1}},"free":{"known":{"y":1}}}`), 400,
				`unknown field \"spec.free.known.y\", unknown field \"spec.labels.x.b\", unknown field \"spec.template.spec\"`},
			{"POST", "?dryRun=All", "", apply(`{"color":null,"free":{"x":null},"labels":{"x":null}}`), 201, `"spec":{"free":{"x":null},"labels":{}}`},
			{"POST", "", "", apply(`{"color":"<red>","colour":"red"}`), 201, `"generation":1`},
			{"PATCH", "/a", mergeJSON, `{"spec":{"colour":"red"},"status":{}}`, 200, `"generation":1`},
			{"PATCH", "/a?fieldManager=m", applyYAML, apply(`{"parts":[{"name":"p","size":1}]}`), 200, `"name":"p"`},
			{"PATCH", "/a?fieldManager=n", applyYAML, apply(`{"parts":[{"name":"q"}]}`), 200, `[{"name":"p","size":1},{"name":"q"}]`},
			{"PATCH", "/a?fieldManager=n", applyYAML, apply(`{"parts":[{"name":"p","size":2}]}`), 409, `.spec.parts[name=\"p\"].size`},
			{"PATCH", "/a?fieldManager=n&fieldValidation=Strict", applyYAML, apply(`{"colour":"x"}`), 500, "colour"},
		} {
			b.answers(tt.code, tt.text, tt.method, path+tt.path, tt.body, "Content-Type", tt.contentType)
		}
		if _, body := b.do("GET", "/openapi/v3/apis/example.io/v1", ""); !strings.Contains(body, `"description":"its color"`) || !strings.Contains(body, `"ownerReferences"`) {
			t.Error(body)
		}
	})
	for _, schema := range []string{"type: string", "{", "type: object\nproperties: 1", "[]", ""} {
		r.Schema = []byte(schema)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := serve.ServeStore(ctx, serve.New(nil), lw.NewMemory[*unstructured.Unstructured](), r); err == nil || !strings.Contains(err.Error(), "things: the schema") {
			t.Errorf("%q: %v", schema, err)
		}
	}
}

// FuzzWrite sends writes to a store. What is stored has the key of the request, and no other object
// changes.
func FuzzWrite(f *testing.F) {
	methods := []string{"POST", "PUT", "PATCH", "DELETE"}
	formats := []string{"application/json", mergeJSON, "application/json-patch+json", "application/strategic-merge-patch+json", applyYAML, "application/yaml", "application/cbor"}
	for _, seed := range []struct {
		method, format uint8
		path, body     string
	}{
		{0, 0, "", `{"metadata":{"name":"x","namespace":"n","Namespace":"o"},"spec":{"color":"red"}}`},
		{0, 5, "?dryRun=All", "metadata: {generateName: x-}"},
		{1, 0, "/a", `{"metadata":{"name":"a","finalizers":["x.io/y"]},"Metadata":{"name":"b"}}`},
		{2, 1, "/a/status", `{"metadata":{"name":"b"},"status":{"replicas":1}}`},
		{2, 2, "/a", `[{"op":"replace","path":"/metadata/namespace","value":"o"},{"op":"copy","from":"/spec","path":"/spec/next"}]`},
		{2, 3, "/a", `{"spec":{"screws":[{"name":"s","$patch":"delete"}],"$setElementOrder/screws":[{"name":"s"}]}}`},
		{2, 4, "/c?fieldManager=m&force=true", partA},
		{2, 1, "/a/scale", `{"spec":{"replicas":-1}}`},
		{3, 0, "/a?propagationPolicy=Orphan", `{"preconditions":{"uid":""}}`},
		{3, 0, "?labelSelector=a", ``},
	} {
		f.Add(seed.method, seed.format, seed.path, seed.body)
	}
	m := lw.NewMemory[*part]()
	h := handle(f, serve.Options{}, func(ctx context.Context, h *serve.Handler) error { return serve.ServeStore(ctx, h, m, parts) }).h
	f.Fuzz(func(t *testing.T, method, format uint8, path, body string) {
		for _, key := range []lw.Key{name("a"), name("b"), {Namespace: "o", Name: "a"}} {
			p := &part{}
			p.Namespace, p.Name = key.Namespace, key.Name
			_, _ = m.Create(t.Context(), p) // unless it is there
		}
		before := map[lw.Key]string{}
		for p := range m.All() {
			before[lw.KeyOf(p)] = p.ResourceVersion
		}
		req, err := http.NewRequestWithContext(t.Context(), methods[int(method)%len(methods)], "http://server"+partsPath+path, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(req.URL.Path, partsPath) {
			t.Skip("no request")
		}
		req.Header.Set("Content-Type", formats[int(format)%len(formats)])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code >= 500 && w.Code != http.StatusGatewayTimeout && !strings.Contains(path, "force") && formats[int(format)%len(formats)] != applyYAML {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		named, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, partsPath), "/"), "/")
		for p := range m.All() {
			key := lw.KeyOf(p)
			if was, ok := before[key]; ok && was == p.ResourceVersion {
				delete(before, key)
				continue
			}
			delete(before, key)
			if key.Namespace != "n" || named != "" && key.Name != named {
				t.Errorf("%s of %s has written %s", req.Method, req.URL, key)
			}
		}
		for key := range before {
			if key.Namespace != "n" || named != "" && key.Name != named {
				t.Errorf("%s of %s has removed %s", req.Method, req.URL, key)
			}
		}
		m.Compact()
	})
}
