package apiserver_test

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/registry/conform"
)

// A Pod is what the table needs of one.
type Pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		NodeName   string      `json:"nodeName,omitempty"`
		Grace      *int64      `json:"terminationGracePeriodSeconds,omitempty"`
		Containers []Container `json:"containers" patchStrategy:"merge" patchMergeKey:"name"`
	} `json:"spec,omitempty"`
	Status struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitempty"`
}

type Container struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
}

func (p *Pod) Marshal() ([]byte, error)    { return json.Marshal(p) }
func (p *Pod) Unmarshal(data []byte) error { return json.Unmarshal(data, p) }

// conforming are the resources of the table.
func conforming(t testing.TB) (all []Resource) {
	pod, err := registry.TypeOf(reflect.TypeFor[*Pod]())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range conform.Resources {
		res := Resource{Group: "example.io", Resource: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status, Custom: true, Versioned: true}
		if r.Scale {
			res.Scale = &registry.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".status.selector"}
		}
		if r.Typed {
			res = Resource{Resource: r.Plural, Kind: r.Kind, Type: pod}
		}
		all = append(all, res)
	}
	return all
}

// The server answers writes as kube-apiserver does.
func TestConform(t *testing.T) {
	for _, managed := range []bool{false, true} {
		inBubble(t, func(b *bench) {
			resources := conforming(b)
			for i := range resources {
				resources[i].Managed = managed
			}
			srv := New(Options{Resources: resources})
			defer srv.Close()
			b.client = srv.Client()
			defer b.client.CloseIdleConnections()
			do := func(method, path, contentType, body string) (conform.Answer, error) {
				resp, err := b.request(method, "http://apiserver"+path, strings.NewReader(body), "Content-Type", contentType)
				if err != nil {
					return conform.Answer{}, err
				}
				data, err := io.ReadAll(resp.Body)
				return conform.Answer{Code: resp.StatusCode, Body: data, Warning: strings.Join(resp.Header["Warning"], "\n")}, err
			}
			for _, s := range conform.Sections() {
				s.Play(strings.ReplaceAll(s.Name, " ", "-"), do, func(c conform.Case, why string) {
					b.Errorf("requests.txt:%d: %s\n%s", c.Line, c.Text, why)
				})
			}
		})
	}
}
