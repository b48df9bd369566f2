package etcd_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
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

// A served etcd answers the table of writes as kube-apiserver does.
func TestServed(t *testing.T) {
	bubble(t, func(t *testing.T, s *fake) {
		quiet := slog.New(slog.DiscardHandler)
		h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		for _, r := range conform.Resources {
			if r.Typed {
				serveEtcd[*Pod](ctx, t, s, h, serve.Resource[*Pod]{Name: r.Plural})
				continue
			}
			res := serve.Resource[*unstructured.Unstructured]{
				Group: "example.io", Name: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status, Versioned: true,
			}
			if r.Scale {
				res.Scale = &serve.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".status.selector"}
			}
			serveEtcd(ctx, t, s, h, res)
		}
		synctest.Wait()
		asked := 0
		ask := func(method, path, contentType, body string) (conform.Answer, error) {
			req := httptest.NewRequest(method, "http://server"+path, strings.NewReader(body)).WithContext(ctx)
			req.Header.Set("Content-Type", contentType)
			asked++
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			return conform.Answer{Code: w.Code, Body: w.Body.Bytes(), Warning: strings.Join(w.Result().Header["Warning"], "\n")}, nil
		}
		for _, section := range conform.Sections() {
			if section.Name == "grace" {
				continue // there are no kubelets
			}
			section.Play(strings.ReplaceAll(section.Name, " ", "-"), ask, func(c conform.Case, why string) {
				t.Errorf("requests.txt:%d: %s\n%s", c.Line, c.Text, why)
			})
		}
		if asked < 390 {
			t.Errorf("%d requests were made", asked)
		}
	})
}

func serveEtcd[T lw.Object](ctx context.Context, t *testing.T, s *fake, h *serve.Handler, r serve.Resource[T]) {
	c, err := etcd.New[T](s.Client, "/registry/"+r.Name+"/", &etcd.Options[T]{ClusterScoped: r.Cluster})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = serve.ServeStore(ctx, h, c, r) }()
}
