package serve_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/serve"
)

// The OpenAPI documents name a patch with fieldValidation for each kind, which is what kubectl
// looks for before it writes. e2e/upstream/kubectl is kubectl itself.
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
		rig.Same(b.t, "documents", map[string]string{"apis/example.io/v1": "/openapi/v3/apis/example.io/v1", "api/v1": "/openapi/v3/api/v1"}, urls)
		rig.Same(b.t, "kinds", map[string]string{
			in("{namespace}") + "/{name}": "example.io/v1/Widget", "/api/v1/nodes/{name}": "/v1/Node",
		}, kinds)
		for _, tt := range []struct {
			method, path, accept string
			code                 int
		}{
			{"GET", "/openapi/v3/apis/other.io/v1", "", 404},
			{"GET", "/openapi/v3x", "", 404},
			{"GET", "/openapi/v2", "", 404},
			{"POST", "/openapi/v3", "", 405},
			{"GET", "/openapi/v3", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", 406},
		} {
			b.answers(tt.code, "", tt.method, tt.path, "", "Accept", tt.accept)
		}
	})
}

// A field that the objects do not have is refused, warned of or ignored, as fieldValidation says.
func TestFieldValidation(t *testing.T) {
	const in = "/apis/example.io/v1/namespaces/n/widgets"
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
			resp := b.send(b.ctx, "POST", in+"?fieldValidation="+tt.directive, tt.body)
			body := string(bodyOf(t, resp))
			if resp.StatusCode != tt.code || !strings.Contains(body, tt.text) || resp.Header.Get("Warning") != tt.warning {
				b.t.Errorf("%s: %d %v %s\nwant %d, %s, warning %s", tt.name, resp.StatusCode, resp.Header, body, tt.code, tt.text, tt.warning)
			}
			if code, _ := b.do("GET", in+"/"+tt.name, ""); (code == 200) != (tt.code == 201) {
				b.t.Errorf("%s: %d after the answer %d", tt.name, code, tt.code)
			}
		}
		b.answers(400, "siez", "PUT", in+"/a?fieldValidation=Strict", head+`"a"},"siez":1}`)
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
		stored(b, lw.NewMemory[*unstructured.Unstructured](), r)
		const path = "/apis/example.io/v1/namespaces/n/things"
		apply := func(spec string) string {
			return `{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":` + spec + `}`
		}
		b.calls(path, []call{
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
		}...)
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
