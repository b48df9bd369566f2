package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// discovered gets a path into an answer, and returns its kind.
func discovered[T any](b *bench, path string, into *T) string {
	b.Helper()
	resp, err := b.request(http.MethodGet, "http://apiserver"+path, nil,
		"Accept", "application/json")
	if err != nil {
		b.Fatal(err)
	}
	data := b.body(resp)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "application/json" {
		b.Fatalf("%s: %s, %s: %s", path, resp.Status, got, data)
	}
	var meta metav1.TypeMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		b.Fatal(err)
	}
	return meta.APIVersion + " " + meta.Kind
}

func TestDiscovery(t *testing.T) {
	inBubble(t, func(b *bench) {
		var core metav1.APIVersions
		kind := discovered(b, "/api", &core)
		same(b, "/api", "v1 APIVersions [v1]", fmt.Sprint(kind, " ", core.Versions))

		var groups metav1.APIGroupList
		kind = discovered(b, "/apis", &groups)
		got := []string{kind}
		for _, g := range groups.Groups {
			got = append(got, fmt.Sprint(g.Name, " ", g.Versions, " ", g.PreferredVersion))
		}
		if diff := cmp.Diff([]string{"v1 APIGroupList", "apps [{apps/v1 v1}] {apps/v1 v1}",
			"example.com [{example.com/v1 v1} {example.com/v1beta1 v1beta1}] {example.com/v1 v1}"}, got); diff != "" {
			b.Errorf("/apis (-want +got):\n%s", diff)
		}

		var group metav1.APIGroup
		kind = discovered(b, "/apis/apps", &group)
		same(b, "/apis/apps", "v1 APIGroup apps {apps/v1 v1}", fmt.Sprint(kind, " ", group.Name, " ", group.PreferredVersion))

		for path, want := range map[string][]string{
			"/api/v1":                   {"v1 APIResourceList v1", "pods/Pod/pod ns=true", "pods/eviction/Eviction/ ns=true create", "nodes/Node/node ns=false", "namespaces/Namespace/namespace ns=false"},
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
			same(b, path, want, got)
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
			{"GET", "/", "", 404},
			{"GET", "/version", "", 404},
			{"GET", "/api/v2", "", 404},
			{"GET", "/apis/none", "", 404},
			{"GET", "/apis/example.com/v2", "", 404},
			{"GET", "/apis/apps/v1/tools/a/status", "", 404},
			{"POST", "/apis", "", 405},
			{"GET", "/apis", "application/yaml", 406},
			{"GET", "/apis", "application/vnd.kubernetes.protobuf, */*", 200},
		} {
			if got := b.code(c.method, c.path, "", "Accept", c.accept); got != c.want {
				b.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.want)
			}
		}
		if n := len(b.Requests()); n != 0 {
			b.Errorf("%d requests in the log, want none", n)
		}
	})
}
