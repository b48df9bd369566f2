package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// discovered gets a path into an answer, and returns its kind.
func discovered[T any](b *bench, path string, into *T) string {
	b.Helper()
	resp := b.must(b.request(http.MethodGet, "http://apiserver"+path, nil, "Accept", "application/json"))
	data := b.body(resp)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "application/json" {
		b.Fatalf("%s: %s, %s: %s", path, resp.Status, got, data)
	}
	var meta metav1.TypeMeta
	rig.OK(b, json.Unmarshal(data, &meta))
	rig.OK(b, json.Unmarshal(data, into))
	return meta.APIVersion + " " + meta.Kind
}

func TestDiscovery(t *testing.T) {
	inBubble(t, func(b *bench) {
		var core metav1.APIVersions
		kind := discovered(b, "/api", &core)
		rig.Same(b, "/api", "v1 APIVersions [v1]", fmt.Sprint(kind, " ", core.Versions))

		var groups metav1.APIGroupList
		kind = discovered(b, "/apis", &groups)
		got := []string{kind}
		for _, g := range groups.Groups {
			got = append(got, fmt.Sprint(g.Name, " ", g.Versions, " ", g.PreferredVersion))
		}
		rig.Same(b, "/apis", []string{"v1 APIGroupList", "apps [{apps/v1 v1}] {apps/v1 v1}",
			"example.com [{example.com/v1 v1} {example.com/v1beta1 v1beta1}] {example.com/v1 v1}"}, got)

		var group metav1.APIGroup
		kind = discovered(b, "/apis/apps", &group)
		rig.Same(b, "/apis/apps", "v1 APIGroup apps {apps/v1 v1}", fmt.Sprint(kind, " ", group.Name, " ",
			group.PreferredVersion))

		for path, want := range map[string][]string{
			"/api/v1": {"v1 APIResourceList v1", "bindings/Binding/binding ns=true create", "pods/Pod/pod ns=true",
				"pods/ephemeralcontainers/Pod/ ns=true get,patch,update", "pods/resize/Pod/ ns=true get,patch,update",
				"pods/binding/Binding/ ns=true create",
				"pods/eviction/Eviction/ ns=true create", "nodes/Node/node ns=false", "namespaces/Namespace/namespace ns=false"},
			"/apis/apps/v1":             {"v1 APIResourceList apps/v1", "tools/Tool/tool ns=false"},
			"/apis/example.com/v1beta1": {"v1 APIResourceList example.com/v1beta1", "sites/Site/site ns=true"},
			"/apis/example.com/v1/": {"v1 APIResourceList example.com/v1", "widgets/Widget/widget ns=true",
				"sites/Site/site ns=true", "sites/status/Site/ ns=true get,patch,update"},
		} {
			var list metav1.APIResourceList
			kind := discovered(b, path, &list)
			got := []string{kind + " " + list.GroupVersion}
			for _, r := range list.APIResources {
				line := fmt.Sprintf("%s/%s/%s ns=%t", r.Name, r.Kind, r.SingularName, r.Namespaced)
				if verbs := strings.Join(r.Verbs, ","); verbs != "create,delete,deletecollection,get,list,patch,update,watch" {
					line += " " + verbs
				}
				got = append(got, line)
			}
			rig.Same(b, path, want, got)
		}
	})
}

// What is not there is not found, and what is there is only read.
func TestDiscoveryRefuses(t *testing.T) {
	inBubble(t, func(b *bench) {
		for _, c := range []struct {
			method, path, accept string
			want                 int
		}{
			{"GET", "/", "", 200},
			{"GET", "/index", "", 404},
			{"GET", "/version", "", 200},
			{"GET", "/openapi/v3", "", 200},
			{"GET", "/openapi/v3/api/v1", "", 200},
			{"GET", "/openapi/v3/apis/example.com/v1beta1", "", 200},
			{"GET", "/openapi/v3/apis/example.com/v7", "", 404},
			{"POST", "/openapi/v3", "", 405},
			{"GET", "/api/v2", "", 404},
			{"GET", "/apis/none", "", 404},
			{"GET", "/apis/example.com/v2", "", 404},
			{"GET", "/apis/apps/v1/tools/a/status", "", 404},
			{"POST", "/apis", "", 405},
			{"GET", "/apis", "application/yaml", 406},
			{"GET", "/apis", "application/vnd.kubernetes.protobuf, */*", 200},
		} {
			rig.Same(b, c.method+" "+c.path, c.want, b.code(c.method, c.path, "", "Accept", c.accept))
		}
		rig.Same(b, "requests in the log", 0, len(b.Requests()))
	})
}

// A collection that is not served any more is empty, its watches have ended, and it is not found.
func TestSetServed(t *testing.T) {
	inBubble(t, func(b *bench) {
		held := func(p *metav1.PartialObjectMetadata) { p.Finalizers = []string{"x"} }
		b.create("a")
		b.put("pods", pod("b", held))
		s := b.watch("resourceVersion=3")
		s.all()
		b.pods.SetServed(true) // nothing changes
		rig.Same(b, "served twice", []string(nil), s.all())
		b.pods.SetServed(false)
		rig.Same(b, "watch", []string{"DELETED a@4", "DELETED b@5", "EOF"}, s.all())
		for path, want := range map[string]int{"/api/v1/pods": 404, "/api/v1/namespaces/ns/pods/a": 404, "/api/v1/nodes": 200,
			"/apis/example.com/v1": 200} {
			rig.Same(b, path, want, b.code(http.MethodGet, path, ""))
		}
		b.Collection("tools").SetServed(false)
		for _, path := range []string{"/apis/apps", "/apis/apps/v1"} {
			rig.Same(b, path, 404, b.code(http.MethodGet, path, ""))
		}
		b.pods.SetServed(true)
		rig.Same(b, "list", "200 rv=5", b.list(""))
		b.create("a")
		rig.Same(b, "list", "200 rv=6 a@6", b.list(""))
	})
}

// The status changes through its subresource alone, and nothing else changes there.
func TestStatusSubresource(t *testing.T) {
	inBubble(t, func(b *bench) {
		sites := b.URL("sites", "ns")
		for _, c := range []struct{ method, path, body, want, ready string }{
			{"POST", "", `{"metadata":{"name":"a"},"spec":{"x":1},"status":{"ready":"1"}}`, "201 a@2 gen=1", ""},
			{"PUT", "/a", `{"metadata":{"name":"a"},"spec":{"x":1},"status":{"ready":"2"}}`, "200 a@2 gen=1", ""},
			{"PUT", "/a/status", `{"metadata":{"name":"a","labels":{"l":"1"},"resourceVersion":"1"},"status":{"ready":"3"}}`,
				"409 Conflict", ""},
			{"PUT", "/a/status", `{"metadata":{"name":"a","labels":{"l":"1"}},"spec":{"x":9},"status":{"ready":"3"}}`,
				"200 a@3 gen=1", "3"},
			{"GET", "/a/status", "", "200 a@3 gen=1", "3"},
			{"PUT", "/a", `{"metadata":{"name":"a"},"spec":{"x":2}}`, "200 a@4 gen=2", "3"},
			{"POST", "/a/status", `{"metadata":{"name":"a"}}`, "405 MethodNotAllowed", "3"},
			{"DELETE", "/a/status", "", "405 MethodNotAllowed", "3"},
			{"PUT", "/b/status", `{"metadata":{"name":"b"}}`, "404 NotFound", "3"},
		} {
			rig.Same(b, c.method+" "+c.path+" "+c.body, c.want, b.sendTo(c.method, sites+c.path, c.body))
			rig.Same(b, "with the labels after "+c.method+" "+c.path, "", b.named(sites+"?labelSelector=l%3D1"))
			// The selector sees what is stored.
			if got := b.named(sites + "?fieldSelector=status.ready%3D" + c.ready); c.ready != "" && got != "a" {
				b.Errorf("%s %s: with status.ready=%q: %q, want a", c.method, c.path, c.ready, got)
			}
		}
		resp := b.must(b.request(http.MethodGet, sites+"/a", nil))
		data := b.body(resp)
		obj := rig.Must[Object](b)(b.Collection("sites").Get(key("a")))
		rig.Same(b, "GET", string(obj.JSON), string(data))
		rig.Same(b, "spec and status", `"spec":{"x":2},"status":{"ready":"3"}}`, string(data[len(data)-38:]))
		requests := b.Requests(Get)
		if len(requests) < 2 || requests[0].Subresource != "status" || requests[0].Name != "a" ||
			requests[len(requests)-1].Subresource != "" {
			b.Errorf("requests: %+v", requests)
		}
	})
}

// named returns the name of the one object in a list, or "".
func (b *bench) named(url string) string {
	b.Helper()
	resp := b.must(b.request(http.MethodGet, url, nil))
	list := b.page(resp)
	if len(list.Items) != 1 {
		return ""
	}
	return list.Items[0].Name
}

// A namespace may have a status, although its path looks like that of a resource named status.
func TestStatusOfANamespace(t *testing.T) {
	inBubbleOf(t, []Resource{{Resource: "namespaces", Kind: "Namespace", Cluster: true, Status: true}}, func(b *bench) {
		url := b.URL("namespaces", "")
		for _, c := range []struct{ method, path, body, want string }{
			{"POST", "", `{"metadata":{"name":"a"}}`, "201 a@2 gen=0"},
			{"PUT", "/a/status", `{"metadata":{"name":"a"},"status":{"phase":"Active"}}`, "200 a@3 gen=0"},
		} {
			rig.Same(b, c.method+" "+c.path, c.want, b.sendTo(c.method, url+c.path, c.body))
		}
	})
}

// Of the built-in kinds, nodes and service CIDRs keep the status that they are created with. An
// update of any leaves it alone.
func TestCreateWithStatus(t *testing.T) {
	kept := `{"ready":"1"}`
	for _, c := range []struct {
		Resource
		want string
	}{
		{Resource{Resource: "nodes", Kind: "Node"}, kept},
		{Resource{Group: "networking.k8s.io", Resource: "servicecidrs", Kind: "ServiceCIDR"}, kept},
		{Resource{Resource: "namespaces", Kind: "Namespace"}, ""},
		{Resource{Group: "example.com", Resource: "nodes", Kind: "Node", Custom: true}, ""},
		{Resource{Group: "networking.k8s.io", Resource: "nodes", Kind: "Node"}, ""},
	} {
		r := c.Resource
		r.Cluster, r.Status = true, true
		inBubbleOf(t, []Resource{r}, func(b *bench) {
			b.sendTo("POST", b.URL(r.Resource, ""), `{"metadata":{"name":"a"},"status":{"ready":"1"}}`)
			b.sendTo("PUT", b.URL(r.Resource, "")+"/a", `{"metadata":{"name":"a","labels":{"l":"1"}},"status":{"ready":"2"}}`)
			obj := rig.Must[Object](b)(b.Collection(r.Resource).Get(types.NamespacedName{Name: "a"}))
			var got struct{ Status json.RawMessage }
			if err := json.Unmarshal(obj.JSON, &got); err != nil || string(got.Status) != c.want || obj.Labels["l"] != "1" {
				b.Errorf("%s.%s: %v, the status is %q, want %q", r.Resource, r.Group, err, got.Status, c.want)
			}
		})
	}
}

// The scale of an object in another version is that of the object in that version.
func TestScaleInAnotherVersion(t *testing.T) {
	twice := Resource{
		Group: "example.com", Resource: "sets", Kind: "Set", Custom: true, Versions: []string{"v1beta1"},
		Scale: &registry.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas"},
		Convert: func(object []byte, version string) ([]byte, error) {
			to := strings.NewReplacer(`"replicas":2`, `"replicas":4`, `"example.com/v1"`, `"example.com/`+version+`"`)
			return []byte(to.Replace(string(object))), nil
		},
	}
	inBubbleOf(t, []Resource{twice}, func(b *bench) {
		b.put("sets", []byte(`{"metadata":{"namespace":"ns","name":"a"},"spec":{"replicas":2}}`))
		for version, want := range map[string]string{"v1": `"spec":{"replicas":2}`, "v1beta1": `"spec":{"replicas":4}`} {
			resp := b.must(b.request(http.MethodGet, "http://apiserver/apis/example.com/"+version+
				"/namespaces/ns/sets/a/scale", nil))
			if body := string(b.body(resp)); resp.StatusCode != 200 || !strings.Contains(body, want) {
				b.Errorf("%s: %d %s, want %s", version, resp.StatusCode, body, want)
			}
		}
	})
}
