package wire_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/internal/wire"
)

// served is a discovery of a few resources.
func served() *wire.Discovery {
	verbs := []string{"get", "list", "watch"}
	return &wire.Discovery{
		Resources: func() []wire.Resource {
			return []wire.Resource{
				{Version: "v1", Name: "pods", Singular: "pod", Kind: "Pod", ShortNames: []string{"po"}, Namespaced: true,
					Verbs: verbs},
				{Version: "v1", Name: "pods/status", Kind: "Pod", Namespaced: true, Verbs: verbs[:1]},
				{Version: "v1", Name: "nodes", Singular: "node", Kind: "Node", Verbs: verbs},
				{Group: "b.io", Version: "v2", Name: "sites", Singular: "site", Kind: "Site", Verbs: verbs},
				{Group: "b.io", Version: "v1", Name: "sites", Singular: "site", Kind: "Site", Verbs: verbs},
				{Group: "a.io", Version: "v1", Name: "tools", Singular: "tool", Kind: "Tool", Verbs: verbs},
			}
		},
		Version: &version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0"},
	}
}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// ask sends a request to d.
func ask(d *wire.Discovery, method, path, accept string) (*http.Request, *httptest.ResponseRecorder) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept", accept)
	d.ServeHTTP(w, r)
	return r, w
}

// TestDiscoveryBytes pins what is sent to the byte. The forms are those of a kube-apiserver.
func TestDiscoveryBytes(t *testing.T) {
	const verbs = `"verbs":["get","list","watch"]`
	site := func(version string) string {
		return `{"version":"` + version + `","resources":[{"resource":"sites","responseKind":{"group":"b.io","version":"` +
			version +
			`","kind":"Site"},"scope":"Cluster","singularResource":"site",` + verbs + `}],"freshness":"Current"}`
	}
	for _, tt := range []struct{ path, accept, contentType, want string }{
		{"/api", "", typeJSON,
			`{"kind":"APIVersions","apiVersion":"v1","versions":["v1"],"serverAddressByClientCIDRs":null}`},
		{"/api", "application/json;g=example.io;v=v2;as=APIGroupDiscoveryList," + typeJSON, typeJSON,
			`{"kind":"APIVersions","apiVersion":"v1","versions":["v1"],"serverAddressByClientCIDRs":null}`},
		{"/apis/", "*/*", typeJSON, `{"kind":"APIGroupList","apiVersion":"v1","groups":[` +
			`{"name":"a.io","versions":[{"groupVersion":"a.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"a.io/v1","version":"v1"}},` +
			`{"name":"b.io","versions":[{"groupVersion":"b.io/v2","version":"v2"},{"groupVersion":"b.io/v1","version":"v1"}],` +
			`"preferredVersion":{"groupVersion":"b.io/v2","version":"v2"}}]}`},
		{"/apis/a.io", "", typeJSON,
			`{"kind":"APIGroup","apiVersion":"v1","name":"a.io","versions":[{"groupVersion":"a.io/v1","version":"v1"}],` +
				`"preferredVersion":{"groupVersion":"a.io/v1","version":"v1"}}`},
		{"/api/v1", aggregated + "," + typeJSON, typeJSON,
			`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[` +
				`{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod",` + verbs + `,"shortNames":["po"]},` +
				`{"name":"pods/status","singularName":"","namespaced":true,"kind":"Pod","verbs":["get"]},` +
				`{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node",` + verbs + `}]}`},
		{"/apis/b.io/v1", "", typeJSON, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"b.io/v1","resources":[` +
			`{"name":"sites","singularName":"site","namespaced":false,"kind":"Site",` + verbs + `}]}`},
		{"/version", aggregated + "," + typeJSON, typeJSON,
			`{"major":"1","minor":"36","gitVersion":"v1.36.0","gitCommit":"","gitTreeState":"",` +
				`"buildDate":"","goVersion":"","compiler":"","platform":""}`},
		{"/api", typeJSON + "," + aggregated + ";profile=nopeer;q=0.1", aggregated,
			`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{},"versions":[` +
				`{"version":"v1","resources":[{"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced",` +
				`"singularResource":"pod",` + verbs + `,"shortNames":["po"],"subresources":[{"subresource":"status",` +
				`"responseKind":{"group":"","version":"v1","kind":"Pod"},"verbs":["get"]}]},` +
				`{"resource":"nodes","responseKind":{"group":"","version":"v1","kind":"Node"},"scope":"Cluster","singularResource":"node",` + verbs +
				`}],"freshness":"Current"}]}]}`},
		{"/apis", aggregated, aggregated,
			`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"a.io"},"versions":[` +
				`{"version":"v1","resources":[{"resource":"tools","responseKind":{"group":"a.io","version":"v1","kind":"Tool"},"scope":"Cluster",` +
				`"singularResource":"tool",` + verbs + `}],"freshness":"Current"}]},` +
				`{"metadata":{"name":"b.io"},"versions":[` + site("v2") + "," + site("v1") + `]}]}`},
	} {
		_, w := ask(served(), "GET", tt.path, tt.accept)
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != tt.contentType {
			t.Errorf("%s: %d, %s; want %s", tt.path, w.Code, got, tt.contentType)
		}
		if both := tt.path == "/api" || tt.path == "/apis" ||
			tt.path == "/apis/"; (w.Header().Get("Vary") == "Accept") != both {
			t.Errorf("%s: Vary: %q", tt.path, w.Header().Get("Vary"))
		}
		// The members that a version of apimachinery leaves out if they are empty are left out.
		got := strings.ReplaceAll(w.Body.String(), `,"creationTimestamp":null`, "")
		got = strings.ReplaceAll(got, `"creationTimestamp":null`, "")
		rig.Same(t, fmt.Sprintf("%s for %s", tt.path, tt.accept), tt.want+"\n", got)
	}
}

// TestDiscoveryProtobuf reads an answer with apimachinery's decoder.
func TestDiscoveryProtobuf(t *testing.T) {
	_, w := ask(served(), "GET", "/apis/a.io/v1", typeProto)
	got, _, err := encodings["protobuf"].object.Decode(w.Body.Bytes(), nil, &metav1.APIResourceList{})
	if err != nil || w.Code != 200 || w.Header().Get("Content-Type") != typeProto {
		t.Fatalf("%s: %v", w.Header(), err)
	}
	if head := "k8s\x00\n\x15\n\x02v1\x12\x0fAPIResourceList"; !strings.HasPrefix(w.Body.String(), head) {
		t.Errorf("the answer begins with %.30q, want %q", w.Body, head)
	}
	want := &metav1.APIResourceList{GroupVersion: "a.io/v1", APIResources: []metav1.APIResource{
		{Name: "tools", SingularName: "tool", Kind: "Tool", Verbs: metav1.Verbs{"get", "list", "watch"}},
	}}
	got.GetObjectKind().SetGroupVersionKind(want.GroupVersionKind())
	rig.Same[any](t, "resources", want, got)
}

func TestDiscoveryRefuses(t *testing.T) {
	empty := &wire.Discovery{Resources: func() []wire.Resource { return nil }}
	for _, tt := range []struct {
		discovery            *wire.Discovery
		method, path, accept string
		want                 int
	}{
		{served(), "GET", "/", "", 404},
		{served(), "GET", "/api/v2", "", 404},
		{served(), "GET", "/api/v1/pods", "", 404},
		{served(), "GET", "/apis/none", "", 404},
		{served(), "GET", "/apis/a.io/v2", "", 404},
		{served(), "GET", "//apis", "", 404},
		{served(), "POST", "/apis", "", 405},
		{served(), "POST", "/apis", typeProto, 405},
		{served(), "POST", "/apis", typeJSON + asPartial + "," + typeProto, 405},
		{served(), "POST", "/apis/none", "", 404},
		{served(), "GET", "/apis", "application/yaml", 406},
		{served(), "GET", "/version", typeProto, 406},
		{served(), "GET", "/apis", "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", 406},
		{served(), "GET", "/apis", typeJSON + ";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", 406},
		{served(), "GET", "/apis", typeJSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscovery", 406},
		{empty, "GET", "/version", "", 404},
		{empty, "GET", "/openapi/v2", "", 404},
		{served(), "POST", "/openapi/v2", "", 405},
		{served(), "GET", "/openapi/v2/x", "", 404},
		{empty, "GET", "/api/v1", "", 404},
		{empty, "GET", "/apis", "", 200},
		{empty, "GET", "/api", aggregated, 200},
	} {
		r, w := ask(tt.discovery, tt.method, tt.path, tt.accept)
		if w.Code != tt.want {
			t.Errorf("%s %s for %q: %d, want %d", tt.method, tt.path, tt.accept, w.Code, tt.want)
		}
		var status metav1.Status
		if w.Code == 405 || w.Code == 406 {
			e := encodings["json"]
			if tt.method == "POST" && tt.accept != "" {
				e = encodings["protobuf"]
			}
			if _, _, err := e.object.Decode(w.Body.Bytes(), nil, &status); err != nil || int(status.Code) != w.Code {
				t.Errorf("%s %s: %v, %s", tt.method, tt.path, err, w.Body)
			}
		}
		if allow := w.Header().Get("Allow"); (allow == "GET") != (w.Code == 405) {
			t.Errorf("%s %s: Allow: %q", tt.method, tt.path, allow)
		}
		if tt.discovery.Serve(httptest.NewRecorder(), r) != (w.Code != 404) {
			t.Errorf("%s %s: Serve and ServeHTTP do not agree", tt.method, tt.path)
		}
	}
}

// The document of version 2 is for kubectl, which asks for protobuf.
func TestOpenAPIv2(t *testing.T) {
	d := served()
	d.Version = &version.Info{GitVersion: "v1"}
	const want, typ = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
		"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	const message, inJSON = "\n\x032.0\x12\x10\n\nKubernetes\x12\x02v1B\x00",
		`{"info":{"title":"Kubernetes","version":"v1"},"paths":{},"swagger":"2.0"}` + "\n"
	for _, tt := range []struct {
		accept      string
		code        int
		contentType string
		body        string
	}{
		{want, 200, typ, message},
		{typ, 200, typ, message},
		{typ + ",application/json", 200, typ, message},
		{"", 200, typeJSON, inJSON},
		{"application/json", 200, typeJSON, inJSON},
		{"*/*", 200, typeJSON, inJSON},
		{"application/yaml", 406, typeJSON, ""},
	} {
		_, w := ask(d, "GET", "/openapi/v2", tt.accept)
		if w.Code != tt.code || w.Header().Get("Content-Type") != tt.contentType || tt.body != "" &&
			w.Body.String() != tt.body {
			t.Errorf("%s: %d %s %q", tt.accept, w.Code, w.Header(), w.Body)
		}
	}
}
