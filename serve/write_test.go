package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// Clients write into a Memory.
func TestWrites(t *testing.T) {
	r := widgets
	r.Validate = func(_ context.Context, w, old *Widget) error {
		switch {
		case w == nil && old.Size == 9:
			return apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, old.Name, errors.New("it stays"))
		case w != nil && w.Size < 0:
			return errors.New("a size below zero")
		}
		return nil
	}
	served(t, serve.Options{}, r, func(b *bubble, _ *lw.Memory[*Widget]) {
		in, asJSON := in("n"), "application/json"
		w := b.watch("resourceVersion=1")
		b.calls("", []call{
			{"POST", in, asJSON, `{"metadata":{"name":"a"},"size":1}`, 201, `"resourceVersion":"2"`},
			{"POST", in, asJSON, `{"metadata":{"name":"a"},"size":1}`, 409, `widgets.example.io \"a\" already exists`},
			{"POST", in, asJSON, `{"metadata":{},"size":1}`, 422, "name"},
			{"POST", in, asJSON, `{"metadata":{"name":"b","namespace":"other"}}`, 400, "namespace"},
			{"POST", path, asJSON, `{"metadata":{"name":"b"}}`, 405, "MethodNotAllowed"},
			{"POST", in, asJSON, `{"kind":"Pod","metadata":{"name":"b"}}`, 400, "Pod"},
			{"POST", in, asJSON, `{"metadata":{"name":"b"},"size":-1}`, 422, "below zero"},
			{"POST", in, asJSON, `{"metadata":{"name":"b"},"size":"x"}`, 400, "size"},
			{"POST", in, asJSON, `{`, 400, "JSON"},
			{"POST", in + "?dryRun=All", asJSON, `{"metadata":{"name":"b"}}`, 201, `"name":"b"`},
			{"PUT", in + "/a", asJSON, `{"metadata":{"name":"a"},"size":2}`, 200, `"size":2`},
			{"PUT", in + "/a", asJSON, `{"metadata":{"name":"a","resourceVersion":"2"},"size":3}`, 409,
				`on widgets.example.io \"a\": the object has been modified`},
			{"PUT", in + "/a", asJSON, `{"metadata":{"name":"a","uid":"u"},"size":3}`, 409, "UID"},
			{"PUT", in + "/a", asJSON, `{"metadata":{"name":"b"},"size":3}`, 400, "name"},
			{"PUT", in + "/x", asJSON, `{"metadata":{"name":"x"},"size":3}`, 404, `widgets.example.io \"x\" not found`},
			{"PUT", in + "/a", asJSON, `{"metadata":{"name":"a","resourceVersion":"3"},"size":9}`, 200, `"resourceVersion":"4"`},
			{"PATCH", in + "/a", asJSON, `{}`, 415, "UnsupportedMediaType"},
			// An update is of one object and a creation of a collection: other paths have other methods.
			{"PUT", in, asJSON, `{"metadata":{"name":"a"},"size":5}`, 405, ""},
			{"PUT", path, asJSON, `{"metadata":{"name":"a","namespace":"n"},"size":5}`, 405, ""},
			{"POST", in + "/b", asJSON, `{"metadata":{"name":"b"},"size":5}`, 405, ""},
			{"PATCH", in, asJSON, `{}`, 405, ""},
			{"PUT", in + "/a/s", asJSON, `{"metadata":{"name":"a"},"size":5}`, 404, ""},
			{"POST", in + "/a/s", asJSON, `{"metadata":{"name":"a"},"size":5}`, 404, ""},
			{"DELETE", path, asJSON, ``, 405, "MethodNotAllowed"},
			{"DELETE", in + "/a", asJSON, ``, 403, "it stays"},
			{"PUT", in + "/a", asJSON, `{"metadata":{"name":"a"},"size":1}`, 200, `"resourceVersion":"5"`},
			{"DELETE", in + "/a", asJSON, `{"dryRun":["All"]}`, 200, "Success"},
			{"DELETE", in + "/a", asJSON, `{"preconditions":`, 400, "JSON"},
			{"DELETE", in + "/a", asJSON, `[]`, 400, "DeleteOptions"},
			{"DELETE", in + "/a", asJSON, strings.Repeat(" ", 4<<20), 413, "limit is 3145728"},
			{"DELETE", in + "/a", asJSON, `{"preconditions":{"resourceVersion":"4"}}`, 409, "Conflict"},
			{"DELETE", in + "/a", asJSON, `{"preconditions":{"uid":"u"}}`, 409, "Conflict"},
			{"DELETE", in + "/a", asJSON, `{"preconditions":{"resourceVersion":"5"}}`, 200, "Success"},
			{"DELETE", in + "/a", asJSON, ``, 404, `"details":{"name":"a","group":"example.io","kind":"widgets"}`},
			{"POST", in, asJSON, `{"metadata":{"generateName":"g-"},"size":1}`, 201, `"name":"g-`},
			{"POST", in, "application/json; charset", "{}", 415, ""},
			{"POST", in, "application/yaml", "a: b", 422, ""},
			{"POST", in, asJSON, strings.Repeat(" ", 4<<20), 413, ""},
		}...)
		got := w.take()
		if diff := cmp.Diff([]string{"ADDED a 2", "MODIFIED a 3", "MODIFIED a 4", "MODIFIED a 5", "DELETED a 6"},
			got[:5]); diff != "" || len(got) != 6 {
			b.t.Errorf("%s%v", diff, got)
		}
		w.cancel()
	})
}

// Nothing is stored or deleted that Validate has not judged against the object that it replaces,
// also if that changes meanwhile. An update without a version is of whatever object there is, and
// so is a deletion, unless the client wants another version or another object.
func TestValidateSeesWhatIsReplaced(t *testing.T) {
	const frozen = 99 // a size that no write may replace
	for _, tt := range []struct {
		method, body string
		size         int // what another client writes meanwhile; 0: it deletes the object
		code         int
	}{
		{"PUT", `{"metadata":{"name":"a"},"size":5}`, frozen, http.StatusUnprocessableEntity},
		{"PUT", `{"metadata":{"name":"a"},"size":5}`, 3, http.StatusOK},
		{"PUT", `{"metadata":{"name":"a","uid":"UID"},"size":5}`, frozen, http.StatusUnprocessableEntity},
		{"PUT", `{"metadata":{"name":"a","uid":"UID"},"size":5}`, 3, http.StatusOK},
		{"PUT", `{"metadata":{"name":"a","uid":"another"},"size":5}`, 3, http.StatusConflict},
		{"PUT", `{"metadata":{"name":"a","resourceVersion":"2"},"size":5}`, 3, http.StatusConflict},
		{"PUT", `{"metadata":{"name":"a","resourceVersion":"2"},"size":5}`, frozen, http.StatusConflict},
		{"PUT", `{"metadata":{"name":"a"},"size":5}`, 0, http.StatusNotFound},
		{"DELETE", ``, frozen, http.StatusUnprocessableEntity},
		{"DELETE", ``, 3, http.StatusOK},
		{"DELETE", `{"preconditions":{"uid":"UID"}}`, frozen, http.StatusUnprocessableEntity},
		{"DELETE", `{"preconditions":{"uid":"UID"}}`, 3, http.StatusOK},
		{"DELETE", `{"preconditions":{"uid":"another"}}`, frozen, http.StatusConflict},
		{"DELETE", `{"preconditions":{"uid":"another"}}`, 3, http.StatusConflict},
		{"DELETE", `{"preconditions":{"resourceVersion":"2"}}`, 3, http.StatusConflict},
		{"DELETE", ``, 0, http.StatusNotFound},
	} {
		m := lw.NewMemory(newWidget(name("a"), 1))
		var judged []int
		r := widgets
		r.Validate = func(_ context.Context, w, old *Widget) error {
			if judged = append(judged, old.Size); len(judged) > 1 && old.Size == frozen {
				return errors.New("it is frozen")
			}
			if len(judged) > 1 {
				return nil
			}
			if tt.size == 0 {
				_, err := m.Delete(t.Context(), name("a"), "")
				return err
			}
			_, err := m.Update(t.Context(), newWidget(name("a"), tt.size))
			return err
		}
		inBubble(t, serve.Options{}, func(b *bubble) {
			b.memory(m, r)
			obj, _ := m.Get(t.Context(), name("a"))
			before := obj.UID
			b.answers(tt.code, "", tt.method, oneWidget, strings.ReplaceAll(tt.body, "UID", string(before)))
			obj, err := m.Get(t.Context(), name("a"))
			switch {
			case tt.code == http.StatusOK && tt.method == "PUT":
				if err != nil || obj.Size != 5 || obj.UID != before || judged[len(judged)-1] != tt.size {
					t.Errorf("%s %s: it is %+v, and was judged by %v", tt.method, tt.body, obj, judged)
				}
			case tt.code == http.StatusOK || tt.size == 0:
				if err == nil {
					t.Errorf("%s %s: it is left", tt.method, tt.body)
				}
			case len(judged) > 0 && obj.Size != tt.size:
				t.Errorf("%s %s: it is %+v after a refusal", tt.method, tt.body, obj)
			}
		})
	}
}

// Objects without a namespace are found where they are, and nowhere else.
func TestClusterScope(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*Widget]()
		r := widgets
		r.Cluster = true
		b.memory(m, r)
		b.answers(http.StatusCreated, "", "POST", path, `{"metadata":{"name":"a"},"size":1}`)
		// A namespace is refused, or forgotten, but never stored.
		code, answer := b.do("POST", path, `{"metadata":{"name":"b","namespace":"n"},"size":1}`)
		if w, err := m.Get(t.Context(), lw.Key{Name: "b"}); code != http.StatusBadRequest && !(code == http.StatusCreated &&
			err == nil && w.Namespace == "") {
			t.Errorf("with a namespace: %d %s", code, answer)
		}
		if _, err := m.Get(t.Context(), name("b")); err == nil {
			t.Error("an object is in a namespace")
		}
		for _, tt := range []struct {
			method, path string
			code         int
		}{
			{"GET", path + "/a", 200}, {"GET", path + "?fieldSelector=metadata.name%3Da", 200}, {"GET", path, 200},
			{"GET", oneWidget, 404}, {"GET", strings.TrimSuffix(oneWidget, "/a"), 404},
			{"GET", strings.TrimSuffix(oneWidget, "/a") + "?watch=1", 404},
			{"POST", strings.TrimSuffix(oneWidget, "/a"), 404}, {"PUT", oneWidget, 404}, {"DELETE", oneWidget, 404},
			{"GET", path + "/a/status", 404},
		} {
			code, answer := b.do(tt.method, tt.path, `{"metadata":{"name":"a"},"size":2}`)
			if code != tt.code || code == 200 && !strings.Contains(answer, `"name":"a"`) {
				t.Errorf("%s %s: %d, want %d: %s", tt.method, tt.path, code, tt.code, answer)
			}
		}
		if w, _ := m.Get(t.Context(), lw.Key{Name: "a"}); w == nil || w.Size != 1 {
			t.Errorf("it is %+v", w)
		}
	})
	// And one with a namespace is not found without it, nor one that should have one.
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 1), newWidget(lw.Key{Name: "a"}, 1),
			newWidget(lw.Key{Namespace: "other", Name: "b"}, 1)), widgets)
		for at, want := range map[string]int{path + "/a": 404, oneWidget: 200, strings.Replace(oneWidget, "/n/",
			"/other/", 1): 404} {
			b.answers(want, "", "GET", at, "")
		}
	})
}

// An update neither dates nor forgets the time of creation of the object that is stored.
func TestUpdateKeepsTheDate(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		dated := newNote("dated", "x")
		dated.CreationTimestamp = metav1.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		m := stored(b, lw.NewMemory(newNote("a", "x"), dated), notes)
		for _, n := range []string{"a", "dated"} {
			was, _ := m.Get(t.Context(), name(n))
			body := fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{"text":"y"}}}`, n)
			var got Note
			noErr(t, json.Unmarshal([]byte(b.answers(200, "", "PUT", notesOfN+"/"+n, body)), &got))
			now, _ := m.Get(t.Context(), name(n))
			for _, obj := range []*Note{&got, now} {
				if !obj.CreationTimestamp.Equal(&was.CreationTimestamp) || obj.Annotations["text"] != "y" {
					t.Errorf("%s: %+v, was %+v", n, obj, was)
				}
			}
		}
	})
}

// The OpenAPI documents name a patch with fieldValidation for each kind, which is what kubectl
// looks for before it writes. verify/e2e/upstream/kubectl is kubectl itself.
func TestOpenAPI(t *testing.T) {
	nodes := serve.Resource[*Widget]{Name: "nodes", Kind: "Node", Cluster: true}
	inBubble(t, serve.Options{}, func(b *bubble) {
		if code, body := b.do("HEAD", "/openapi/v3", ""); code != 200 || body != "" {
			t.Errorf("HEAD: %d %s", code, body)
		}
		b.answers(200, `"paths":{}`, "GET", "/openapi/v3", "")
		b.memory(lw.NewMemory[*Widget](), widgets)
		b.memory(lw.NewMemory[*Widget](), nodes)
		type document struct {
			OpenAPI string
			Info    struct{ Title, Version string }
			Paths   map[string]struct {
				ServerRelativeURL string
				Patch             struct {
					Kind       map[string]string `json:"x-kubernetes-group-version-kind"`
					Parameters []struct{ Name, In string }
				}
			}
		}
		get := func(path string) (d document) {
			if d = read[document](b, path); d.OpenAPI != "3.0.0" || d.Info.Version == "" {
				b.t.Fatalf("%s: %+v", path, d)
			}
			return d
		}
		urls := map[string]string{}
		kinds := map[string]string{} // by path
		for name, version := range get("/openapi/v3").Paths {
			urls[name] = version.ServerRelativeURL
			for path, operations := range get(version.ServerRelativeURL).Paths {
				p := operations.Patch
				if len(p.Parameters) != 4 || p.Parameters[2].Name != "fieldValidation" || p.Parameters[2].In != "query" {
					b.t.Errorf("%s: %+v", path, p)
				}
				kinds[path] = p.Kind["group"] + "/" + p.Kind["version"] + "/" + p.Kind["kind"]
			}
		}
		rig.Same(b.t, "documents", map[string]string{"apis/example.io/v1": "/openapi/v3/apis/example.io/v1",
			"api/v1": "/openapi/v3/api/v1"}, urls)
		rig.Same(b.t, "kinds", map[string]string{
			in("{namespace}") + "/{name}": "example.io/v1/Widget", "/api/v1/nodes/{name}": "/v1/Node",
		}, kinds)
		for _, path := range []string{"/openapi/v3/apis/other.io/v1", "/openapi/v3x", "/openapi/v2/x"} {
			b.answers(404, "", "GET", path, "")
		}
		b.answers(200, `"swagger":"2.0"`, "GET", "/openapi/v2", "")
		b.answers(405, "", "POST", "/openapi/v3", "")
		b.answers(406, "", "GET", "/openapi/v3", "", "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
	})
}

// Nothing is read or done for a client that the answer cannot be sent to.
func TestNotAcceptableIsNotDone(t *testing.T) {
	r := widgets
	r.Scale = &serve.Scale{Replicas: ".size", StatusReplicas: ".size"}
	served(t, serve.Options{}, r, func(b *bubble, m *lw.Memory[*Widget]) {
		in := in("n")
		b.answers(201, "", "POST", in, `{"metadata":{"name":"a","finalizers":["x.io/y"]},"size":1}`)
		version := m.ResourceVersion()
		for _, c := range []struct{ method, path, body string }{
			{"POST", in, `{"metadata":{"name":"b"}}`}, {"POST", in, `{`},
			{"PUT", in + "/a", `{"metadata":{"name":"a"},"size":2}`}, {"PUT", in + "/a", `{`},
			{"PATCH", in + "/a", `{"size":2}`}, {"PATCH", in + "/a", `{`},
			{"DELETE", in + "/a", ""}, {"DELETE", in + "/a", `{`},
			{"DELETE", in, ""}, {"DELETE", in, `{`},
			{"PATCH", in + "/a/scale", `{"spec":{"replicas":2}}`}, {"GET", in + "/a/scale", ""},
		} {
			for _, accept := range []string{"text/html", "application/yaml"} {
				b.answers(406, "", c.method, c.path, c.body, "Content-Type", mergeJSON, "Accept", accept)
			}
		}
		b.answers(406, "", "PATCH", in+"/a/scale", `{"spec":{"replicas":2}}`, "Content-Type", mergeJSON, "Accept",
			"application/cbor")
		rig.Same(b.t, "version", version, m.ResourceVersion())
	})
}

// A field that the objects do not have is refused, warned of or ignored, as fieldValidation says.
func TestFieldValidation(t *testing.T) {
	const head = `{"apiVersion":"example.io/v1","kind":"Widget","metadata":{"creationTimestamp":null,"labels":{"a":"b"},"name":`
	served(t, serve.Options{}, widgets, func(b *bubble, _ *lw.Memory[*Widget]) {
		for _, tt := range []struct {
			name, body, directive string
			code                  int
			text, warning         string
		}{
			{"a", head + `"a"},"size":1}`, "Strict", 201, `"size":1`, ""},
			{"b", head + `"b"},"size":1}`, "", 201, `"size":1`, ""},
			{"c", head + `"c"},"siez":1}`, "Strict", 400, `unknown field \"siez\"`, ""},
			{"d", head + `"d"},"siez":1}`, "Warn", 201, `"size":0`, `299 - "unknown field \"siez\""`},
			{"e", head + `"e"},"siez":1}`, "", 201, `"size":0`, `299 - "unknown field \"siez\""`},
			{"f", head + `"f"},"siez":1}`, "Ignore", 201, `"size":0`, ""},
			{"g", head + `"g","notes":{}}}`, "Strict", 400, `unknown field \"metadata.notes\"`, ""},
			{"h", head + `"h"},"size":"x"}`, "Strict", 400, "string", ""},
			{"i", head + `"i"},"size":1}`, "Loose", 422, `Unsupported value: \"Loose\"`, ""},
		} {
			resp := b.send(b.ctx, "POST", in("n")+"?fieldValidation="+tt.directive, tt.body)
			body := string(bodyOf(t, resp))
			if resp.StatusCode != tt.code || !strings.Contains(body, tt.text) || resp.Header.Get("Warning") != tt.warning {
				b.t.Errorf("%s: %d %v %s\nwant %d, %s, warning %s", tt.name, resp.StatusCode, resp.Header, body, tt.code, tt.text,
					tt.warning)
			}
			if code, _ := b.do("GET", in("n")+"/"+tt.name, ""); (code == 200) != (tt.code == 201) {
				b.t.Errorf("%s: %d after the answer %d", tt.name, code, tt.code)
			}
		}
		b.answers(400, "siez", "PUT", in("n")+"/a?fieldValidation=Strict", head+`"a"},"siez":1}`)
	})
}

// A document describes the fields of a type, its lists and their keys.
func TestOpenAPIOfAType(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.parts(parts)
		_, body := b.do("GET", "/openapi/v3/apis/example.io/v1", "")
		for _, want := range []string{
			`"replicas":{"type":"integer"}`, `"x-kubernetes-list-map-keys":["name"]`,
			`"since":{"format":"date-time","type":"string"}`,
			`"port":{"format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]}`,
			`"tags":{"items":{"type":"string"},"type":"array","x-kubernetes-list-type":"set"`,
			`"application/strategic-merge-patch+json"`,
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
			b.answers(200, `"group":"autoscaling","version":"v1"`, "GET", path, "", "Accept", accept)
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
		stored(b, lw.NewMemory[*unstructured.Unstructured](), r)
		const path = "/apis/example.io/v1/namespaces/n/things"
		apply := func(spec string) string {
			return `{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":` + spec + `}`
		}
		b.calls(path, []call{
			{"POST", "?fieldValidation=Strict", "", apply(`{"colour":"red"}`), 400, `unknown field \"spec.colour\"`},
			{"POST", "?fieldValidation=Strict", "", apply(`{"parts":[{"name":"p"},{"nam":"q"}]}`), 400,
				`unknown field \"spec.parts[1].nam\"`},
			{"POST", "?fieldValidation=Strict", "",
				`{"kind":"Thing","apiVersion":"example.io/v1","metadata":{"name":"a"},"more":1}`, 400, `unknown field \"more\"`},
			{"POST", "?fieldValidation=Strict&dryRun=All", "",
				apply(`{"free":{"x":1},"port":80,"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}},"labels":{"x":{"a":"b"}}}`),
				201, `"x":1`},
			{"POST", "?fieldValidation=Strict", "",
				apply(`{"template":{"metadata":{"x":1},"spec":{}},"labels":{"x":{"b":1}},"free":{"known":{"y":1}}}`), 400,
				`unknown field \"spec.free.known.y\", unknown field \"spec.labels.x.b\", ` +
					`unknown field \"spec.template.metadata.x\", unknown field \"spec.template.spec\"`},
			{"POST", "?dryRun=All", "", apply(`{"color":null,"free":{"x":null},"labels":{"x":null}}`), 201,
				`"spec":{"free":{"x":null},"labels":{}}`},
			{"POST", "", "", apply(`{"color":1}`), 422, `spec.color in body must be of type string`},
			{"POST", "", "", apply(`{"parts":[{"name":"p"},{"name":"p"}]}`), 422, `spec.parts[1]: Duplicate value`},
			{"POST", "", "", apply(`{"color":"<red>","colour":"red"}`), 201, `"generation":1`},
			{"PATCH", "/a", mergeJSON, `{"spec":{"colour":"red"},"status":{}}`, 200, `"generation":1`},
			{"PATCH", "/a?fieldManager=m", applyYAML, apply(`{"parts":[{"name":"p","size":1}]}`), 200, `"name":"p"`},
			{"PATCH", "/a?fieldManager=n", applyYAML, apply(`{"parts":[{"name":"q"}]}`), 200,
				`[{"name":"p","size":1},{"name":"q"}]`},
			{"PATCH", "/a?fieldManager=n", applyYAML, apply(`{"parts":[{"name":"p","size":2}]}`), 409,
				`.spec.parts[name=\"p\"].size`},
			{"PATCH", "/a?fieldManager=n&fieldValidation=Strict", applyYAML, apply(`{"colour":"x"}`), 500, "colour"},
		}...)
		if _, body := b.do("GET", "/openapi/v3/apis/example.io/v1", ""); !strings.Contains(body,
			`"description":"its color"`) || !strings.Contains(body, `"ownerReferences"`) {
			t.Error(body)
		}
	})
	for _, schema := range []string{"type: string", "{", "type: object\nproperties: 1", "[]", ""} {
		r.Schema = []byte(schema)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := serve.ServeStore(ctx, serve.New(nil), lw.NewMemory[*unstructured.Unstructured](), r); err == nil ||
			!strings.Contains(err.Error(), "things: the schema") {
			t.Errorf("%q: %v", schema, err)
		}
	}
}
