package clientgo_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/rig"
)

// podJSON is a pod as a server answers with it.
func podJSON(namespace, name, version string, more ...string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"u-%s","resourceVersion":%q%s}}`, name, namespace, name, version, strings.Join(more, ""))
}

const (
	success   = `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","kind":"pods","uid":"u-a"}}`
	marked    = `,"deletionTimestamp":"2026-11-26T00:00:00Z"`
	webLabels = `,"labels":{"app":"web"}`
)

// Which answers are told, and to whom. What a row does not say is a create of default/a in the
// followed namespace.
func TestTellWritesTells(t *testing.T) {
	all, inDefault := "https://server/api/v1/pods", "https://server/api/v1/namespaces/default/pods"
	one := inDefault + "/a"
	for _, tt := range []struct {
		name    string
		follows string // URLs, of one informer each
		method  string
		url     string
		sends   string
		code    int
		header  string
		answer  string
		want    string
	}{
		{name: "create", want: "tell default/a u-a 7"},
		{name: "create in another namespace", url: "https://server/api/v1/namespaces/other/pods", answer: podJSON("other", "a", "7")},
		{name: "the same, for all namespaces", follows: all, url: "https://server/api/v1/namespaces/other/pods", answer: podJSON("other", "a", "7"), want: "tell other/a u-a 7"},
		{name: "two informers", follows: all + " " + inDefault, want: "tell default/a u-a 7; tell default/a u-a 7"},
		{name: "update", method: "PUT", url: one, code: 200, want: "tell default/a u-a 7"},
		{name: "patch", method: "PATCH", url: one + "?fieldManager=x", code: 200, want: "tell default/a u-a 7"},
		{name: "status", method: "PUT", url: one + "/status", code: 200, want: "tell default/a u-a 7"},
		{name: "scale", method: "PUT", url: one + "/scale", code: 200, answer: strings.Replace(podJSON("default", "a", "7"), `"Pod"`, `"Scale"`, 1)},
		{name: "eviction", method: "POST", url: one + "/eviction", answer: success},
		{name: "a proxy", method: "POST", url: one + "/proxy/status"},
		{name: "another resource", url: "https://server/api/v1/namespaces/default/secrets"},
		{name: "another version", url: "https://server/apis/x/v2/namespaces/default/pods", follows: "https://server/apis/x/v1/pods"},
		{name: "another server", url: "https://other/api/v1/namespaces/default/pods"},
		{name: "the same prefix", url: "https://server/k8s/one/api/v1/namespaces/default/pods", follows: "https://server/k8s/one/api/v1/pods?watch=1", want: "tell default/a u-a 7"},
		{name: "another prefix", url: "https://server/k8s/two/api/v1/namespaces/default/pods", follows: "https://server/k8s/one/api/v1/pods"},
		{name: "dry run", url: inDefault + "?dryRun=All"},
		{name: "dry run of a delete", method: "DELETE", url: one, code: 200, sends: `{"kind":"DeleteOptions","dryRun":["All"]}`, answer: success},
		{name: "delete", method: "DELETE", url: one, code: 200, sends: `{"kind":"DeleteOptions","propagationPolicy":"Foreground"}`, answer: success, want: "deleted default/a u-a "},
		{name: "delete without a UID", method: "DELETE", url: one, code: 200, answer: strings.Replace(success, `,"uid":"u-a"`, "", 1)},
		{name: "delete, answered with the object", method: "DELETE", url: one, code: 202, want: "tell default/a u-a 7"},
		{name: "delete, answered with the object as it was", method: "DELETE", url: one, code: 200, want: "deleted default/a u-a "},
		{name: "delete without grace", method: "DELETE", url: one, code: 202, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":0`), want: "deleted default/a u-a "},
		{name: "delete without grace, with a finalizer", method: "DELETE", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":0,"finalizers":["x/y"]`), want: "tell default/a u-a 7"},
		{name: "delete with grace", method: "DELETE", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":30`), want: "tell default/a u-a 7"},
		{name: "delete, the grace is not known", method: "DELETE", url: one, code: 200, answer: podJSON("default", "a", "7", marked), want: "tell default/a u-a 7"},
		{name: "an update of what is marked", method: "PUT", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":0`), want: "tell default/a u-a 7"},
		{name: "delete of many", method: "DELETE", url: inDefault, code: 200, answer: success},
		{name: "an update answered with a Status", method: "PUT", url: one, code: 200, answer: success},
		{name: "refused", method: "PUT", url: one, code: 409, answer: `{"kind":"Status","status":"Failure"}`},
		{name: "failed", method: "PUT", url: one, code: 500},
		{name: "not modified", method: "PUT", url: one, code: 304},
		{name: "without a version", answer: podJSON("default", "a", "")},
		{name: "of another name", method: "PUT", url: one, code: 200, answer: podJSON("default", "b", "7")},
		{name: "metadata alone", answer: strings.Replace(podJSON("default", "a", "7"), `"Pod"`, `"PartialObjectMetadata"`, 1)},
		{name: "metadata by its type", header: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
		{name: "another encoding", header: "application/yaml"},
		{name: "no JSON", answer: `{"kind":`},
		{name: "selected", follows: all + "?labelSelector=app%3Dweb&fieldSelector=metadata.name%3Da", answer: podJSON("default", "a", "7", webLabels), want: "tell default/a u-a 7"},
		{name: "left out by labels", follows: all + "?labelSelector=app%3Dweb", want: "deleted default/a u-a 7"},
		{name: "left out by name", follows: all + "?fieldSelector=metadata.name%3Db", want: "deleted default/a u-a 7"},
		{name: "selected by what only the server knows", follows: all + "?fieldSelector=spec.nodeName%3Dn1"},
	} {
		rig.Bubble(t, tt.name, func(t *testing.T) {
			var told, sent []string
			code, answer := cmp.Or(tt.code, 201), cmp.Or(tt.answer, podJSON("default", "a", "7"))
			server := roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					body, _ := io.ReadAll(r.Body)
					sent = append(sent, string(body))
				}
				return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {cmp.Or(tt.header, "application/json")}}, Body: io.NopCloser(strings.NewReader(answer))}, nil
			})
			client := clientgo.TellWrites(&http.Client{Transport: server})
			var tellers []*request.Teller
			do := func(client *http.Client, ctx context.Context, method, url, sends string) {
				r := rig.Must[*http.Request](t)(http.NewRequestWithContext(ctx, method, url, io.NopCloser(strings.NewReader(sends))))
				resp := rig.Must[*http.Response](t)(client.Do(r))
				body, err := io.ReadAll(resp.Body)
				if resp.Body.Close(); err != nil || string(body) != answer {
					t.Errorf("%s: the caller has %q, %v", method, body, err)
				}
			}
			for _, url := range strings.Fields(cmp.Or(tt.follows, inDefault)) {
				tellers = append(tellers, &request.Teller{
					Tell: func(a *request.Answer) error {
						told = append(told, fmt.Sprintf("tell %s/%s %s %s", a.Namespace, a.Name, a.UID, a.ResourceVersion))
						return nil
					},
					TellDeleted: func(key types.NamespacedName, uid types.UID, version string) error {
						told = append(told, fmt.Sprintf("deleted %s %s %s", key, uid, version))
						return nil
					},
				})
				do(client, request.WithTeller(t.Context(), tellers[len(tellers)-1]), "GET", url, "")
			}
			method, url := cmp.Or(tt.method, "POST"), cmp.Or(tt.url, inDefault)
			do(client, t.Context(), method, url, tt.sends)
			if diff := gocmp.Diff(tt.want, strings.Join(told, "; ")); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if got := sent[len(sent)-1]; got != tt.sends {
				t.Errorf("the server got %q", got)
			}
			do(clientgo.TellWrites(&http.Client{Transport: server}, clientgo.Capture(client)), t.Context(), method, url, tt.sends)
			if n := len(strings.Split(tt.want, ";")); tt.want != "" && len(told) != 2*n {
				t.Errorf("another client tells %d of %d", len(told)-n, n)
			}
			for _, teller := range tellers {
				teller.End()
			}
			told = nil
			do(client, t.Context(), method, url, tt.sends)
			if len(told) > 0 {
				t.Errorf("an informer that has stopped is told %q", told)
			}
		})
	}
}
