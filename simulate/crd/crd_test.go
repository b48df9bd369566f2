package crd_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/crd"
)

const crews = `
kind: Kustomization
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crews.example.com}
spec:
  group: example.com
  names: {plural: crews, singular: crew, kind: Crew, listKind: CrewList}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties: {replicas: {type: integer, maximum: 7}}
            x-kubernetes-validations:
            - {rule: "!has(self.replicas) || self.replicas < 9", message: a crew had less than nine}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "self.replicas < 10", message: "a crew has less than ten"}
            properties:
              replicas: {type: integer, default: 3, minimum: 0}
              name: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf", message: "the name stays"}]}
              tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
              since: {type: string, format: date-time}
              steps: {type: array, items: {type: string}}
              jobs:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, count: {type: integer, default: 1}}}
          status:
            type: object
            properties:
              replicas: {type: integer, maximum: 9}
              phase: {type: string}
              conditions:
                type: array
                items:
                  type: object
                  properties: {type: {type: string}, status: {type: string}, lastTransitionTime: {type: string}}
`

func load(t *testing.T, files map[string]string) ([]*crd.Definition, error) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	first, err := crd.Load(fsys)
	if err == nil {
		// What the cache has must be the same.
		again, err := crd.Load(fsys)
		if err != nil || len(again) != len(first) {
			t.Errorf("read again: %d definitions, %v; want %d", len(again), err, len(first))
		}
		return again, err
	}
	return first, err
}

func send(t *testing.T, s *lwtest.Server, method, path, contentType, body string) (int, map[string]any) {
	t.Helper()
	r := rig.Must[*http.Request](t)(http.NewRequest(method, s.URL()+"/apis/example.com/"+path, strings.NewReader(body)))
	r.Header.Set("Content-Type", contentType)
	resp := rig.Must[*http.Response](t)(s.Client().Do(r))
	defer resp.Body.Close()
	data := rig.Must[[]byte](t)(io.ReadAll(resp.Body))
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return resp.StatusCode, u.Object
}

// A resource of a definition takes and refuses what a cluster does.
func TestResource(t *testing.T) {
	all := rig.Must[[]*crd.Definition](t)(load(t, map[string]string{"bases/crews.yaml": crews,
		"bases/other.yaml": "{{ .Values }}: : :"}))
	const crew = "v1/namespaces/default/crews"
	// Each step is made on what the steps before it have left.
	steps := []struct {
		name, method, path, contentType, body string
		code                                  int
		says                                  string         // of an error
		want                                  map[string]any // the spec, or the status of a write to it
	}{
		{"rules", "POST", crew, "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"replicas":10}}`, 422,
			"a crew has less than ten", nil},
		{"values", "POST", crew, "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"replicas":-1}}`, 422,
			"spec.replicas", nil},
		{"sets", "POST", crew, "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"tags":["x","x"]}}`, 422,
			"Duplicate value", nil},
		{"values and rules", "POST", crew, "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"replicas":10,"tags":["x","x"]}}`, 422,
			`[spec.tags[1]: Duplicate value: "x", spec: Invalid value: a crew has less than ten`, nil},
		{"types", "POST", crew, "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"replicas":"x"}}`, 422,
			"must be of type integer", nil},
		{"strict", "POST", crew + "?fieldValidation=Strict", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"other":1}}`, 400, "spec.other", nil},
		{"defaults and pruning", "POST", crew, "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"name":"a","other":1,"jobs":[{"name":"x"}]}}`, 201, "",
			map[string]any{"replicas": int64(3), "name": "a", "jobs": []any{map[string]any{"name": "x", "count": int64(1)}}}},
		{"transitions", "PATCH", crew + "/a", "application/merge-patch+json", `{"spec":{"name":"b"}}`, 422,
			"the name stays", nil},
		{"an update without a version", "PUT", crew + "/a", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"}}`, 422,
			"must be specified for an update", nil},
		{"apply merges by key", "PATCH", crew + "/a?fieldManager=x", "application/apply-patch+yaml",
			`{"apiVersion":"example.com/v1","kind":"Crew","metadata":{"name":"a"},"spec":{"jobs":[{"name":"y","count":2}]}}`,
			200, "",
			map[string]any{"replicas": int64(3), "name": "a", "jobs": []any{map[string]any{"name": "x", "count": int64(1)},
				map[string]any{"name": "y", "count": int64(2)}}}},
		{"the status is checked", "PATCH", crew + "/a/status", "application/merge-patch+json", `{"status":{"replicas":10}}`,
			422, "status.replicas", nil},
		{"the status alone", "PATCH", crew + "/a/status", "application/merge-patch+json",
			`{"spec":{"name":"b"},"status":{"replicas":2,"other":1}}`, 200, "", map[string]any{"replicas": int64(2)}},
		{"another version", "GET", "v1beta1/namespaces/default/crews/a", "", "", 200, "", nil},
		{"values of another version", "PATCH", "v1beta1/namespaces/default/crews/a", "application/merge-patch+json",
			`{"spec":{"replicas":8}}`, 422, "less than or equal to 7", nil},
		{"values and rules of another version", "PATCH", "v1beta1/namespaces/default/crews/a", "application/merge-patch+json",
			`{"spec":{"replicas":10}}`, 422, "less than or equal to 7, spec: Invalid value: a crew had less than nine", nil},
		{"a write in another version", "PATCH", "v1beta1/namespaces/default/crews/a", "application/merge-patch+json",
			`{"spec":{"replicas":7}}`, 200, "",
			map[string]any{"replicas": int64(7), "name": "a", "jobs": []any{map[string]any{"name": "x", "count": int64(1)},
				map[string]any{"name": "y", "count": int64(2)}}}},
		{"the scale", "PATCH", crew + "/a/scale", "application/merge-patch+json", `{"spec":{"replicas":5}}`, 200, "",
			map[string]any{"replicas": int64(2)}},
		{"the scale is checked", "PATCH", crew + "/a/scale", "application/merge-patch+json", `{"spec":{"replicas":11}}`, 422,
			"less than ten", nil},
		{"a deletion is not", "DELETE", crew + "/a", "", "", 200, "", nil},
	}
	synctest.Test(t, func(t *testing.T) {
		s := lwtest.NewServer(t, all[0].Resource)
		for _, step := range steps {
			code, got := send(t, s, step.method, step.path, step.contentType, step.body)
			if says, _ := got["message"].(string); code != step.code || !strings.Contains(says, step.says) {
				t.Errorf("%s: %d %v, want %d %q", step.name, code, got, step.code, step.says)
			}
			if step.want == nil {
				continue
			}
			part := "spec"
			if strings.HasPrefix(step.name, "the s") {
				part = "status"
			}
			if diff := cmp.Diff(step.want, got[part]); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", step.name, diff)
			}
		}
	})
}

// Lists that are sets or maps have no order.
func TestShape(t *testing.T) {
	all := rig.Must[[]*crd.Definition](t)(load(t, map[string]string{"crews.yaml": crews}))
	normal := func(tags, steps []any, jobs ...any) map[string]string {
		return all[0].Shape.Flatten(map[string]any{
			"metadata": map[string]any{"name": "a", "uid": tags[0], "resourceVersion": "1", "finalizers": tags},
			"spec":     map[string]any{"tags": tags, "steps": steps, "jobs": jobs},
			"status":   map[string]any{"conditions": jobs},
		}, func(_, value string) string { return value })
	}
	x, y := map[string]any{"name": "x", "type": "X"}, map[string]any{"name": "y", "type": "Y"}
	want := normal([]any{"a", "b"}, []any{"a", "b"}, x, y)
	if diff := cmp.Diff(want, normal([]any{"b", "a"}, []any{"a", "b"}, y, x)); diff != "" {
		t.Errorf("the order of sets counts: (-want +got)\n%s", diff)
	}
	if cmp.Equal(want, normal([]any{"a", "b"}, []any{"b", "a"}, x, y)) {
		t.Error("the order of a list that is no set does not count")
	}
}

// What cannot be used is named, with its file and what to do.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"none": {map[string]string{"a.yaml": "kind: Kustomization"}, []string{"none has a CustomResourceDefinition",
			"config/crd/bases"}},
		"no YAML": {map[string]string{"a.yaml": "{{ .CustomResourceDefinition }}: : :"},
			[]string{"a.yaml, document 1", "Helm"}},
		"v1beta1": {map[string]string{"a.yaml": "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition"},
			[]string{"a.yaml", "v1beta1", "controller-gen"}},
		"no schema": {map[string]string{"a.yaml": strings.Replace(crews, "replicas: {type: integer, default: 3",
			"replicas: {default: 3", 1)}, []string{"a.yaml", "crews.example.com",
			"openAPIV3Schema.properties[spec].properties[replicas].type", "dry-run=server"}},
		"bad rule": {map[string]string{"a.yaml": strings.Replace(crews, "self.replicas < 10", "self.replica < 10", 1)},
			[]string{"crews.example.com", "undefined field 'replica'"}},
		"not served": {map[string]string{"a.yaml": strings.Replace(crews, "served: true\n    storage: true",
			"served: false\n    storage: true", 1)}, []string{"crews.example.com", "set served"}},
		"twice": {map[string]string{"a.yaml": crews, "b.yaml": crews}, []string{"b.yaml", "a.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.files)
			if err == nil {
				t.Fatal("no error")
			}
			for _, says := range test.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("the error is %q, want %q in it", err, says)
				}
			}
		})
	}
}

// What was read is kept, by the names and the contents of the files. What is kept and cannot be
// read is read again.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	other := strings.NewReplacer("crews", "teams", "Crew", "Team", "crew", "team").Replace(crews)
	load := func(files ...string) int {
		t.Helper()
		fsys := fstest.MapFS{}
		for i, text := range files {
			fsys[fmt.Sprintf("%d.yaml", i)] = &fstest.MapFile{Data: []byte(text)}
		}
		return len(rig.Must[[]*crd.Definition](t)(crd.Load(fsys)))
	}
	kept := func() (names []string) {
		names = rig.Must[[]string](t)(filepath.Glob(filepath.Join(dir, "lw-simulate", "*")))
		return names
	}
	rig.Same(t, "one", 1, load(crews))
	one := kept()
	rig.Same(t, "one in two files", 1, load(crews, "kind: Other"))
	rig.Same(t, "files that are kept", one, kept())
	rig.Same(t, "two", 2, load(crews, other))
	rig.Same(t, "another order", 2, load(other, crews))
	rig.Same(t, "the number of files that are kept", 3, len(kept()))
	if len(one) != 1 || filepath.Ext(one[0]) != ".json" {
		t.Fatalf("it is kept in %q", one)
	}
	first := rig.Must[[]byte](t)(os.ReadFile(one[0]))
	for _, file := range kept() {
		rig.OK(t, os.WriteFile(file, first, 0o666))
	}
	rig.Same(t, "what is kept", 1, load(crews, other))
	for _, file := range kept() {
		rig.OK(t, os.WriteFile(file, []byte("{"), 0o666))
	}
	rig.Same(t, "what is kept is broken", 2, load(crews, other))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(one[0], "none"))
	rig.Same(t, "nothing can be kept", 2, load(crews, other))
}

// An object that is none of the definition's is an error.
func TestOfAnother(t *testing.T) {
	r := rig.Must[[]*crd.Definition](t)(load(t, map[string]string{"crews.yaml": crews}))[0].Resource
	crew := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/" + version, "kind": "Crew",
			"spec": map[string]any{"replicas": int64(3)}}}
	}
	for name, tt := range map[string]struct {
		a    lwtest.Admission
		says string
	}{
		"right":                 {lwtest.Admission{Object: crew("v1"), Old: crew("v1beta1")}, ""},
		"a deletion":            {lwtest.Admission{Verb: lwtest.Delete, Old: crew("v9")}, ""},
		"a version":             {lwtest.Admission{Object: crew("v9")}, "simulate: crews.example.com: no version example.com/v9"},
		"a version that it had": {lwtest.Admission{Object: crew("v1"), Old: crew("v9")}, "simulate: crews.example.com: no version example.com/v9"},
		"a type": {lwtest.Admission{Object: &metav1.PartialObjectMetadata{}},
			"simulate: crews.example.com: *v1.PartialObjectMetadata is not unstructured"},
	} {
		errs := []error{r.Validate(t.Context(), tt.a)}
		if tt.a.Verb != lwtest.Delete && tt.a.Old == nil {
			errs = append(errs, r.Default(t.Context(), tt.a))
		}
		for _, err := range errs {
			if got := fmt.Sprint(err); err == nil && tt.says != "" || err != nil && got != tt.says {
				t.Errorf("%s: %v, want %q", name, err, tt.says)
			}
		}
	}
}

// The definitions are those of the files of YAML and JSON in all folders.
func TestFiles(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	fsys := fstest.MapFS{}
	for i, name := range []string{"a.yaml", "b.yml", "c.json", "d/e.yaml", "f.yaml/g.yaml", "h.txt", "i", "j.yaml.bak"} {
		plural := strings.Repeat("x", i+1)
		text := strings.NewReplacer("crews", plural+"crews", "Crew", "Crew"+plural, "crew", "crew"+plural).Replace(crews)
		text = strings.ReplaceAll(text, plural+"crew"+plural+"s", plural+"crews")
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	rig.Same(t, "the definitions", 5, len(rig.Must[[]*crd.Definition](t)(crd.Load(fsys))))
	_, err := crd.Load(os.DirFS(filepath.Join(t.TempDir(), "none")))
	if err == nil || !strings.HasPrefix(err.Error(), "simulate: the CRDs cannot be read: ") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
