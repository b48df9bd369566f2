package serve_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/registry/conform"
	"github.com/go-lw/lw/serve"
)

// A Pod is what the table of writes needs of one.
type Pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		NodeName   string      `json:"nodeName,omitempty"`
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

// conforming serves what the table of writes is about.
func (b *bubble) conforming(managed bool) {
	for _, r := range conform.Resources {
		if r.Typed {
			b.serve(func(ctx context.Context) error {
				return serve.ServeStore(ctx, b.h, lw.NewMemory[*Pod](), serve.Resource[*Pod]{Name: r.Plural, Managed: managed})
			})
			continue
		}
		res := serve.Resource[*unstructured.Unstructured]{
			Group: "example.io", Name: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status, Versioned: true, Managed: managed,
		}
		if r.Scale {
			res.Scale = &serve.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".status.selector"}
		}
		b.serve(func(ctx context.Context) error {
			return serve.ServeStore(ctx, b.h, lw.NewMemory[*unstructured.Unstructured](), res)
		})
	}
}

// ask is do for a table of requests.
func (b *bubble) ask(method, path, contentType, body string) (conform.Answer, error) {
	req, err := http.NewRequestWithContext(b.ctx, method, "http://server"+path, strings.NewReader(body))
	if err != nil {
		return conform.Answer{}, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := b.client.Do(req)
	if err != nil {
		return conform.Answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return conform.Answer{Code: resp.StatusCode, Body: data, Warning: strings.Join(resp.Header["Warning"], "\n")}, err
}

// A served store answers writes as kube-apiserver does.
func TestConform(t *testing.T) {
	for _, managed := range []bool{false, true} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			b.conforming(managed)
			for _, s := range conform.Sections() {
				if s.Name == "grace" {
					continue // a served store has no kubelets, for which a Pod would wait
				}
				s.Play(strings.ReplaceAll(s.Name, " ", "-"), b.ask, func(c conform.Case, why string) {
					b.t.Errorf("requests.txt:%d: %s\n%s", c.Line, c.Text, why)
				})
			}
		})
	}
}
