package apiserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			if diff := cmp.Diff(c.want, b.sendTo(c.method, sites+c.path, c.body)); diff != "" {
				b.Errorf("%s %s %s (-want +got):\n%s", c.method, c.path, c.body, diff)
			}
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
		resp, err := b.request(http.MethodGet, sites+"/a", nil)
		if err != nil {
			b.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			b.Fatal(err)
		}
		obj, err := b.Collection("sites").Get(key("a"))
		if err != nil {
			b.Fatal(err)
		}
		if diff := cmp.Diff(string(obj.JSON), string(data)); diff != "" {
			b.Errorf("GET (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(`"spec":{"x":2},"status":{"ready":"3"}}`, string(data[len(data)-38:])); diff != "" {
			b.Errorf("spec and status (-want +got):\n%s", diff)
		}
		requests := b.Requests(Get)
		if len(requests) < 2 || requests[0].Subresource != "status" || requests[0].Name != "a" || requests[len(requests)-1].Subresource != "" {
			b.Errorf("requests: %+v", requests)
		}
	})
}

// named returns the name of the one object in a list, or "".
func (b *bench) named(url string) string {
	b.Helper()
	resp, err := b.request(http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	list := b.page(resp)
	if len(list.Items) != 1 {
		return ""
	}
	return list.Items[0].Name
}

// A namespace may have a status, although its path looks like that of a resource named status.
func TestStatusOfANamespace(t *testing.T) {
	inBubble(t, func(b *bench) {
		srv := New(Options{Resources: []Resource{{Resource: "namespaces", Kind: "Namespace", Cluster: true, Status: true}}})
		client := srv.Client()
		defer srv.Close()
		defer client.CloseIdleConnections()
		b.client = client
		url := srv.URL("namespaces", "")
		for _, c := range []struct{ method, path, body, want string }{
			{"POST", "", `{"metadata":{"name":"a"}}`, "201 a@2 gen=1"},
			{"PUT", "/a/status", `{"metadata":{"name":"a"},"status":{"phase":"Active"}}`, "200 a@3 gen=1"},
		} {
			if diff := cmp.Diff(c.want, b.sendTo(c.method, url+c.path, c.body)); diff != "" {
				b.Errorf("%s %s (-want +got):\n%s", c.method, c.path, diff)
			}
		}
	})
}

// Of the built-in kinds, nodes and service CIDRs keep the status that they are created with. An update
// of any leaves it alone.
func TestCreateWithStatus(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := []Resource{
			{Resource: "nodes", Kind: "Node"}, {Group: "networking.k8s.io", Resource: "servicecidrs", Kind: "ServiceCIDR"}, {Resource: "namespaces", Kind: "Namespace"},
			{Group: "example.com", Resource: "nodes", Kind: "Node", Custom: true}, {Group: "networking.k8s.io", Resource: "nodes", Kind: "Node"},
		}
		want := []string{`{"ready":"1"}`, `{"ready":"1"}`, ``, ``, ``}
		for i, r := range all {
			r.Cluster, r.Status = true, true
			srv := New(Options{Resources: []Resource{r}})
			b.client = srv.Client()
			b.sendTo("POST", srv.URL(r.Resource, ""), `{"metadata":{"name":"a"},"status":{"ready":"1"}}`)
			b.sendTo("PUT", srv.URL(r.Resource, "")+"/a", `{"metadata":{"name":"a","labels":{"l":"1"}},"status":{"ready":"2"}}`)
			obj, err := srv.Collection(r.Resource).Get(types.NamespacedName{Name: "a"})
			if err != nil {
				b.Fatal(err)
			}
			var got struct{ Status json.RawMessage }
			if err := json.Unmarshal(obj.JSON, &got); err != nil || string(got.Status) != want[i] || obj.Labels["l"] != "1" {
				b.Errorf("%s.%s: %v, the status is %q, want %q", r.Resource, r.Group, err, got.Status, want[i])
			}
			b.client.CloseIdleConnections()
			srv.Close()
		}
	})
}
