package apiserver_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/apiserver"
)

// The status changes through its subresource alone, and nothing else changes there.
func TestStatusSubresource(t *testing.T) {
	inBubble(t, func(b *bench) {
		sites := b.URL("sites", "ns")
		for _, c := range []struct{ method, path, body, want, ready string }{
			{"POST", "", `{"metadata":{"name":"a"},"spec":{"x":1},"status":{"ready":"1"}}`, "201 a@2 gen=1", ""},
			{"PUT", "/a", `{"metadata":{"name":"a"},"spec":{"x":1},"status":{"ready":"2"}}`, "200 a@2 gen=1", ""},
			{"PUT", "/a/status", `{"metadata":{"name":"a","labels":{"l":"1"},"resourceVersion":"1"},"status":{"ready":"3"}}`, "409 Conflict", ""},
			{"PUT", "/a/status", `{"metadata":{"name":"a","labels":{"l":"1"}},"spec":{"x":9},"status":{"ready":"3"}}`, "200 a@3 gen=1", "3"},
			{"GET", "/a/status", "", "200 a@3 gen=1", "3"},
			{"PUT", "/a", `{"metadata":{"name":"a"},"spec":{"x":2}}`, "200 a@4 gen=2", "3"},
			{"POST", "/a/status", `{"metadata":{"name":"a"}}`, "405 MethodNotAllowed", "3"},
			{"DELETE", "/a/status", "", "405 MethodNotAllowed", "3"},
			{"PUT", "/b/status", `{"metadata":{"name":"b"}}`, "404 NotFound", "3"},
		} {
			same(b, c.method+" "+c.path+" "+c.body, c.want, b.sendTo(c.method, sites+c.path, c.body))
			if got := b.named(sites + "?labelSelector=l%3D1"); got != "" {
				b.Errorf("%s %s has written the labels", c.method, c.path)
			}
			// The selector sees what is stored.
			want := ""
			if c.ready != "" {
				want = "a"
			}
			if got := b.named(sites + "?fieldSelector=status.ready%3D" + c.ready); c.ready != "" && got != want {
				b.Errorf("%s %s: with status.ready=%q: %q, want %q", c.method, c.path, c.ready, got, want)
			}
		}
		resp := b.must(b.request(http.MethodGet, sites+"/a", nil))
		data := b.body(resp)
		obj, err := b.Collection("sites").Get(key("a"))
		if err != nil {
			b.Fatal(err)
		}
		same(b, "GET", string(obj.JSON), string(data))
		same(b, "spec and status", `"spec":{"x":2},"status":{"ready":"3"}}`, string(data[len(data)-38:]))
		requests := b.Requests(Get)
		if len(requests) < 2 || requests[0].Subresource != "status" || requests[0].Name != "a" || requests[len(requests)-1].Subresource != "" {
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
			{"POST", "", `{"metadata":{"name":"a"}}`, "201 a@2 gen=1"},
			{"PUT", "/a/status", `{"metadata":{"name":"a"},"status":{"phase":"Active"}}`, "200 a@3 gen=1"},
		} {
			same(b, c.method+" "+c.path, c.want, b.sendTo(c.method, url+c.path, c.body))
		}
	})
}

// Of the built-in kinds, nodes and service CIDRs keep the status that they are created with. An update
// of any leaves it alone.
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
			obj, err := b.Collection(r.Resource).Get(types.NamespacedName{Name: "a"})
			if err != nil {
				b.Fatal(err)
			}
			var got struct{ Status json.RawMessage }
			if err := json.Unmarshal(obj.JSON, &got); err != nil || string(got.Status) != c.want || obj.Labels["l"] != "1" {
				b.Errorf("%s.%s: %v, the status is %q, want %q", r.Resource, r.Group, err, got.Status, c.want)
			}
		})
	}
}
