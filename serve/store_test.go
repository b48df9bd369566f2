package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
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

		Port *intstr.IntOrString `json:"port,omitempty"`
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

// parts serves a Memory of parts as a store that is known to be a Writable, and nothing more.
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

// The authorizer is asked before anything is read, and for a creation where an apply creates.
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
		for _, tt := range []call{ // the text is what is asked for
			{"PATCH", "/a?fieldManager=m", applyYAML, partA, 201, "patch a, create a"},
			{"PATCH", "/a?fieldManager=m", applyYAML, partA, 200, "patch a"},
			{"PATCH", "/a", mergeJSON, `{}`, 200, "patch a"},
			{"PUT", "/a/status", "", `{"metadata":{"name":"a"}}`, 200, "update a/status"},
			{"PATCH", "/a/status", mergeJSON, `{}`, 200, "patch a/status"},
			{"GET", "/a/status", "", "", 200, "get a/status"},
			{"PATCH", "/a/scale", mergeJSON, `{"spec":{"replicas":2}}`, 200, "patch a/scale"},
			{"GET", "/a/scale", "", "", 200, "get a/scale"},
			{"POST", "", "", `{"metadata":{"name":"b"}}`, 201, "create"},
			{"DELETE", "/b", "", "", 200, "delete b"},
			{"DELETE", "?labelSelector=a=b", "", "", 200, "deletecollection"},
		} {
			before := m.ResourceVersion()
			for _, deny = range strings.Split(tt.text, ", ") {
				reads.Store(0)
				b.answers(http.StatusForbidden, "", tt.method, partsPath+tt.path, tt.body, "Content-Type", tt.contentType)
				if m.ResourceVersion() != before || reads.Load() != 0 && !strings.HasPrefix(deny, "create a") {
					t.Errorf("%s %s without %s: %d reads", tt.method, tt.path, deny, reads.Load())
				}
			}
			asked, deny = nil, ""
			b.answers(tt.code, "", tt.method, partsPath+tt.path, tt.body, "Content-Type", tt.contentType)
			rig.Same(t, tt.method+" "+tt.path, tt.text, strings.Join(asked, ", "))
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
		if p != nil && p.Spec.Color == "odd" {
			panic("no judgement")
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
		b.calls(partsPath, []call{
			{"POST", "", "", `{"metadata":{"name":"A"}}`, 201, `"color":"white"`},
			{"POST", "", "", `{"metadata":{"name":"xa"}}`, 422, "begins with x"},
			{"POST", "", "", `{"metadata":{"name":"b"},"spec":{"replicas":10}}`, 422, `"field":"spec.replicas"`},
			{"POST", "", "", `{"metadata":{"name":"b"},"spec":{"color":"panic"}}`, 500, "no color"},
			{"POST", "", "", `{"metadata":{"name":"b"},"spec":{"color":"odd"}}`, 500, "no judgement"},
			{"GET", "/b", "", "", 404, ""}, // nothing was written
			{"PUT", "/A", "", `{"metadata":{"name":"A"},"spec":{"color":"red"}}`, 422, `"message":"the color stays"`},
			{"PATCH", "/A", mergeJSON, `{"spec":{"replicas":11}}`, 422, "too many"},
			{"PATCH", "/A/scale", mergeJSON, `{"spec":{"replicas":11}}`, 422, "too many"},
			{"PATCH", "/A/scale", mergeJSON, `{"spec":{"replicas":3}}`, 200, `"replicas":3`},
			{"PATCH", "/A/status", mergeJSON, `{"status":{"replicas":2},"spec":{"color":"red"}}`, 200, `"status":{"replicas":2`},
		}...)
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
		b.answers(200, "", "DELETE", partsPath+"?labelSelector=a&dryRun=All", "")
		rig.Same(t, "left after a dry run", 4, len(left()))
		list := forms[0].must(t, []byte(b.answers(200, "", "DELETE", partsPath+"?labelSelector=a=1", "")))
		rig.Same(t, "deleted", 2, len(list.Items))
		rig.Same(t, "left of a selection", []string{"p1", "p2", "p3"}, left())
		if p, _ := m.Get(t.Context(), name("p1")); p.DeletionTimestamp == nil {
			t.Error("what has a finalizer is not marked")
		}
		b.answers(200, "", "PATCH", partsPath+"/p1", noFinalizers, "Content-Type", mergeJSON)
		b.answers(200, "", "DELETE", partsPath+"?fieldSelector=metadata.name=p3", "")
		rig.Same(t, "left at last", []string{"p2"}, left())
	})
}

// FuzzWrite sends writes. What is stored has the key of the request; nothing else changes.
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

// A newerPart is a part of version v2.
type newerPart struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Paint string `json:"paint,omitempty"`
		Count int32  `json:"count,omitempty"`
	} `json:"spec"`
}

// newerParts is a resource in version v2.
func newerParts(name, kind string) serve.Resource[*newerPart] {
	return serve.Resource[*newerPart]{Group: "example.io", Version: "v2", Name: name, Kind: kind}
}

func newer(p *part) (*newerPart, error) {
	if p.Spec.Color == "unknown" {
		return nil, errors.New("no such paint")
	}
	n := &newerPart{ObjectMeta: p.ObjectMeta}
	n.Spec.Paint, n.Spec.Count = p.Spec.Color, p.Spec.Replicas
	return n, nil
}

func older(n *newerPart) (*part, error) {
	p := &part{ObjectMeta: n.ObjectMeta}
	switch p.Spec.Color, p.Spec.Replicas = n.Spec.Paint, n.Spec.Count; n.Spec.Paint {
	case "panic":
		panic("no paint")
	case "other":
		p.Name = "other"
	case "refused":
		return nil, errors.New("not this paint")
	}
	return p, nil
}

// A kind is read and written in two versions, and stored in one.
func TestConverted(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*part]()
		noErr(t, m.Rewind("1"))
		v1 := parts
		v1.Scale = nil
		stored(b, m, v1)
		stored(b, serve.Converted(m, newer, older), newerParts("parts", "Part"))
		go b.h.Collect(b.ctx)
		v2 := strings.Replace(partsPath, "v1", "v2", 1)
		b.calls("", []call{
			{"POST", partsPath, "", `{"metadata":{"name":"a"},"spec":{"color":"red","replicas":2}}`, 201, `"color":"red"`},
			{"GET", v2 + "/a", "", "", 200, `"spec":{"paint":"red","count":2}`},
			{"GET", v2, "", "", 200, `"apiVersion":"example.io/v2"`},
			{"GET", v2 + "?watch=1&timeoutSeconds=1&resourceVersion=1", "", "", 200, `"paint":"red"`},
			{"PUT", v2 + "/a", "", `{"metadata":{"name":"a","resourceVersion":"1"},"spec":{}}`, 409, "Conflict"},
			{"PUT", v2 + "/a", "", `{"apiVersion":"example.io/v1","kind":"Part","metadata":{"name":"a"}}`, 400, "v1"},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"blue"}}`, 200, `"generation":2`},
			{"GET", partsPath + "/a", "", "", 200, `"color":"blue"`},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"panic"}}`, 500, "no paint"},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"other"}}`, 500, "has become"},
			{"PATCH", v2 + "/a", mergeJSON, `{"spec":{"paint":"refused"}}`, 500, "not this paint"},
			{"POST", v2, "", `{"metadata":{"name":"a"}}`, 409, "AlreadyExists"},
			{"PATCH", v2 + "/b?fieldManager=m", applyYAML, "apiVersion: example.io/v2\nkind: Part\nmetadata: {name: b}\nspec: {paint: red}", 201, `"apiVersion":"example.io/v2"`},
			{"PATCH", partsPath + "/b?fieldManager=n", applyYAML, "apiVersion: example.io/v1\nkind: Part\nmetadata: {name: b}\nspec: {color: green}", 200, `"manager":"m"`},
			{"GET", v2 + "/b", "", "", 200, `"paint":"green"`},
			{"PATCH", v2 + "/b?fieldManager=m", applyYAML, "apiVersion: example.io/v2\nkind: Part\nmetadata: {name: b, labels: {x: q}}\nspec: {paint: green}", 200, `"x":"q"`},
			{"PATCH", partsPath + "/b?fieldManager=n", applyYAML, "apiVersion: example.io/v1\nkind: Part\nmetadata: {name: b, labels: {x: z}}\nspec: {color: green}", 409, `\"m\"`},
			{"DELETE", v2 + "/b?propagationPolicy=Foreground", "", "", 200, ""},
			{"GET", partsPath + "/b", "", "", 404, ""},
			{"GET", "/apis/example.io", "", "", 200, `"groupVersion":"example.io/v2"`},
			{"PATCH", partsPath + "/a", mergeJSON, `{"spec":{"color":"unknown"}}`, 200, ""},
			{"GET", v2 + "/a?resourceVersion=0", "", "", 200, "blue"}, // as it was
			{"PUT", v2 + "/a", "", `{"metadata":{"name":"a"}}`, 500, "no such paint"},
		}...)
	})
}
