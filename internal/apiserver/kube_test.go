package apiserver_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeRequests are requests, and what kube-apiserver 1.36 answers; the file says how it is read.
//
//go:embed testdata/kube.txt
var kubeRequests string

// A settings is what the table needs of a ConfigMap.
type settings struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Data              map[string]string `json:"data,omitempty"`
}

// TestKube plays the table against a server of each of its kinds.
func TestKube(t *testing.T) {
	typ := rig.Must[*registry.Type](t)(registry.TypeOf(reflect.TypeFor[*settings]()))
	scale := &registry.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".status.selector"}
	resources := []Resource{
		{Resource: "configmaps", Kind: "ConfigMap", Type: typ, Managed: true},
		{Resource: "secrets", Kind: "Secret"}, {Resource: "services", Kind: "Service"}, {Resource: "events", Kind: "Event"},
		{Resource: "pods", Kind: "Pod", Status: true}, {Resource: "namespaces", Kind: "Namespace", Cluster: true,
			Status: true},
		{Group: "coordination.k8s.io", Resource: "leases", Kind: "Lease"},
		{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler",
			Status: true},
		{Group: "apps", Resource: "deployments", Kind: "Deployment", Status: true, Scale: scale},
		{Group: "batch", Resource: "jobs", Kind: "Job", Status: true},
		{Group: "discovery.k8s.io", Resource: "endpointslices", Kind: "EndpointSlice"},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition", Cluster: true},
		{Group: "lab.example.org", Resource: "gizmos", Kind: "Gizmo", Custom: true, Versioned: true, Managed: true,
			Status: true, Scale: scale},
	}
	inBubbleOf(t, resources, func(b *bench) {
		last := ""
		for i, line := range strings.Split(kubeRequests, "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			request, want, ok := strings.Cut(line, " => ")
			if !ok {
				t.Fatalf("kube.txt:%d: %s", i+1, line)
			}
			method, rest, _ := strings.Cut(request, " ")
			path, rest, _ := strings.Cut(rest, " ")
			headers := []string{"Content-Type", "application/json", "User-Agent", "probe"}
			for strings.HasPrefix(rest, "@") {
				var header string
				header, rest, _ = strings.Cut(rest, " ")
				name, value, _ := strings.Cut(header[1:], "=")
				headers = append(headers, name, value)
			}
			if !strings.HasPrefix(path, "/") {
				resource, after := path, ""
				if at := strings.IndexAny(path, "/?"); at >= 0 {
					resource, after = path[:at], path[at:]
				}
				namespace := "ns"
				if b.Collection(resource).Resource.Cluster {
					namespace = ""
				}
				path = b.Collection(resource).URL(namespace) + after
			}
			path = strings.ReplaceAll(path, "$CONT", last)
			resp := b.must(b.request(method, "http://apiserver"+path, strings.NewReader(rest), headers...))
			body := string(b.body(resp))
			var list metav1.PartialObjectMetadataList
			if json.Unmarshal([]byte(body), &list) == nil && list.Continue != "" {
				last = list.Continue
			}
			for n, word := range strings.Split(want, " ~ ") {
				word = strings.ReplaceAll(word, `\n`, "\n")
				switch not := strings.HasPrefix(word, "not "); {
				case n == 0 && fmt.Sprint(resp.StatusCode) != word:
					t.Errorf("kube.txt:%d: %s\n%s: %s", i+1, line, resp.Status, body)
				case n > 0 && strings.Contains(body, strings.TrimPrefix(word, "not ")) == not:
					t.Errorf("kube.txt:%d: %s\n%s: %s\nwant %s", i+1, line, resp.Status, body, word)
				}
			}
		}
	})
}

// The first table of a watch has the columns, and those after it have none.
func TestWatchOfTables(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.create("a", "b")
		resp := b.must(b.request(http.MethodGet, b.URL("pods", "")+"?watch=1&resourceVersion=1&timeoutSeconds=1", nil,
			"Accept", "application/json;as=Table;g=meta.k8s.io;v=v1"))
		var got []string
		for line := range strings.Lines(string(b.body(resp))) {
			var ev struct {
				Type   string
				Object struct {
					Kind              string
					ColumnDefinitions []metav1.TableColumnDefinition
					Rows              []struct {
						Cells  []any
						Object metav1.PartialObjectMetadata
					}
				}
			}
			rig.OK(b, json.Unmarshal([]byte(line), &ev))
			for _, row := range ev.Object.Rows {
				got = append(got, fmt.Sprintf("%s %s %d columns %v %s@%s", ev.Type, ev.Object.Kind,
					len(ev.Object.ColumnDefinitions), row.Cells, row.Object.Kind, row.Object.ResourceVersion))
			}
		}
		rig.Same(b, "events", []string{"ADDED Table 2 columns [a 0s] PartialObjectMetadata@2",
			"ADDED Table 0 columns [b 0s] PartialObjectMetadata@3"}, got)
	})
}
