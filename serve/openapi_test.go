package serve_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
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
		if diff := cmp.Diff(map[string]string{"apis/example.io/v1": "/openapi/v3/apis/example.io/v1", "api/v1": "/openapi/v3/api/v1"}, urls); diff != "" {
			b.t.Error(diff)
		}
		if diff := cmp.Diff(map[string]string{
			"/apis/example.io/v1/namespaces/{namespace}/widgets/{name}": "example.io/v1/Widget", "/api/v1/nodes/{name}": "/v1/Node",
		}, kinds); diff != "" {
			b.t.Error(diff)
		}
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
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory[*Widget](), widgets)
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
