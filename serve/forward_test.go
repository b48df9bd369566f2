package serve_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// While a relay is newer than its server, nobody is sent there: who came back with the version of
// another history would be told of what that history does not have.
func TestForwardToAnOlderServer(t *testing.T) {
	inBubble(t, serve.Options{Forward: teapot}, func(b *bubble) {
		m := b.relayed(lw.NewMemory(newWidget(name("a"), 1)))
		put(t, m.Create, "b", 1)
		synctest.Wait()
		noErr(b.t, m.Rewind("2"))
		synctest.Wait()
		b.answers(http.StatusGatewayTimeout, "", "GET", path, "")
		time.Sleep(time.Minute)
		b.answers(http.StatusOK, "", "GET", path, "")
	})
}

// What is forwarded was allowed as what the server there does with it. A path that names nothing,
// or that may mean something else to a proxy in between, is not forwarded.
func TestForwardAsAuthorized(t *testing.T) {
	var asked []serve.Attributes
	forwarded := 0
	opts := serve.Options{
		Authorize: func(_ *http.Request, a serve.Attributes) error { asked = append(asked, a); return nil },
		Forward:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { forwarded++; w.WriteHeader(http.StatusTeapot) }),
	}
	served(t, opts, widgets, func(b *bubble, _ *lw.Memory[*Widget]) {
		pod := serve.Attributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "n", Name: "p"}
		with := func(a serve.Attributes, verb, subresource string) serve.Attributes {
			a.Verb, a.Subresource = verb, subresource
			return a
		}
		for _, tt := range []struct {
			method, path string
			want         []serve.Attributes // nil: it is not forwarded
		}{
			{"GET", "/healthz", []serve.Attributes{{Verb: "get"}}},
			{"GET", "/openapi//v3/", []serve.Attributes{{Verb: "get"}}},
			{"PATCH", "/apis/x.io/v1", []serve.Attributes{{Verb: "patch"}}},
			{"GET", "/api/v1/watch/namespaces/n/secrets", []serve.Attributes{{Verb: "watch", Version: "v1", Resource: "secrets", Namespace: "n"}}},
			{"DELETE", "/api/v1/watch/secrets/s", []serve.Attributes{{Verb: "watch", Version: "v1", Resource: "secrets", Name: "s"}}},
			{"GET", "/api/v1/nodes/n/proxy/logs//x/", []serve.Attributes{{Verb: "get", Version: "v1", Resource: "nodes", Name: "n", Subresource: "proxy"}}},
			{"POST", "/api/v1/namespaces/n/pods/p/proxy/a/b/c/d/e/f/g", []serve.Attributes{with(pod, "create", "proxy")}},
			{"GET", "/api/v1/proxy/namespaces/n/pods/p/api/v1/secrets", []serve.Attributes{with(pod, "proxy", "")}},
			{"GET", "//api/v1/namespaces/n/pods/p//", []serve.Attributes{pod}},
			{"GET", "/api/v1/namespaces/n%2Fpods%2Fp/log", []serve.Attributes{with(pod, "get", "log")}},
			{"get", "/api/v1/namespaces/n/pods/p", []serve.Attributes{with(pod, "", "")}},
			// With the program's own credentials the server there cannot ask for the right to create these.
			{"GET", "/api/v1/namespaces/n/pods/p/exec", []serve.Attributes{with(pod, "create", "exec"), with(pod, "get", "exec")}},
			{"GET", "/api/v1/namespaces/n/pods/p/attach", []serve.Attributes{with(pod, "create", "attach"), with(pod, "get", "attach")}},
			{"POST", "/api/v1/namespaces/n/pods/p/portforward", []serve.Attributes{with(pod, "create", "portforward")}},

			{"GET", "/api/v1/watch", nil},
			{"GET", "/api/v1/watch/", nil},
			{"GET", "/apis/x.io/v1/proxy", nil},
			{"GET", "/api/v1//secrets", nil},
			{"GET", "/api//v1/secrets", nil},
			{"GET", "/apis//v1/secrets", nil},
			{"GET", "/apis/x.io//things", nil},
			{"GET", "/api/v1/namespaces//secrets", nil},
			{"GET", "/api/v1/namespaces/n//secrets", nil},
			{"GET", "/api/v1/watch//secrets", nil},
			{"GET", "/api/v1/pods//log", nil},
			{"GET", "/api/v1/namespaces/n/pods/p//exec", nil},
			{"GET", "/version/../api/v1/secrets", nil},
			{"GET", "/openapi/%2e%2e/api/v1/secrets", nil},
			{"GET", "/api/v1/./secrets", nil},
			{"GET", "/api/v1/namespaces/n/services/s/proxy/../../../secrets", nil},
			{"GET", "/api/v1/secrets?" + strings.Repeat("x", 33<<10), nil},
		} {
			asked, forwarded = nil, 0
			code, body := b.do(tt.method, tt.path, "")
			if tt.want == nil {
				if forwarded > 0 || code/100 != 4 || len(asked) != 1 {
					t.Errorf("%s %.60s: %d %s, asked for %+v", tt.method, tt.path, code, body, asked)
				}
				continue
			}
			for i := range asked {
				if asked[i].Path == "" {
					t.Errorf("%s %s: no path", tt.method, tt.path)
				}
				asked[i].Path = ""
			}
			if diff := cmp.Diff(tt.want, asked); diff != "" || forwarded != 1 {
				t.Errorf("%s %s: forwarded %d times (-want +asked):\n%s", tt.method, tt.path, forwarded, diff)
			}
		}
	})
}

// Who may not create a connection to a pod, or may not read it, is not forwarded.
func TestForwardOfConnections(t *testing.T) {
	refused, forwarded := "", 0
	opts := serve.Options{
		Authorize: func(_ *http.Request, a serve.Attributes) error {
			if a.Verb == refused {
				return errors.New("no")
			}
			return nil
		},
		Forward: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { forwarded++ }),
	}
	inBubble(t, opts, func(b *bubble) {
		for _, refused = range []string{"create", "get"} {
			if code, _ := b.do("GET", "/api/v1/namespaces/n/pods/p/portforward", ""); code != http.StatusForbidden || forwarded > 0 {
				t.Errorf("without %s: %d, forwarded %d times", refused, code, forwarded)
			}
		}
		refused = "create"
		if b.do("GET", "/api/v1/namespaces/n/pods/p/log", ""); forwarded != 1 {
			t.Error("the log of a pod is not forwarded")
		}
	})
}

// What only the informer's server can answer is forwarded: reads of the newest state while it
// cannot be asked, and what is not served here.
func TestForward(t *testing.T) {
	for _, forward := range []http.Handler{nil, teapot} {
		code := func(otherwise int) int {
			if forward != nil {
				return http.StatusTeapot
			}
			return otherwise
		}
		inBubble(t, serve.Options{Forward: forward}, func(b *bubble) {
			m := b.relayed(lw.NewMemory(newWidget(name("a"), 1)))
			m.Fail(errors.New("away"))
			for query, want := range map[string]int{
				path:                        code(http.StatusGatewayTimeout),
				path + "?resourceVersion=0": http.StatusOK,
				path + "?resourceVersion=2": http.StatusOK,
				"/api/v1/pods":              code(http.StatusNotFound),
				"/healthz":                  code(http.StatusNotFound),
				path + "?limit=x":           http.StatusBadRequest,
				path + "?fieldSelector=a=b": code(http.StatusBadRequest), // the server knows more fields
				"/apis":                     code(http.StatusOK),         // and more kinds
				"/apis/example.io/v1":       code(http.StatusOK),
				"/openapi/v3":               code(http.StatusOK),
				"/version":                  code(http.StatusOK),
			} {
				b.answers(want, "", "GET", query, "")
			}
			b.answers(code(http.StatusNotAcceptable), "", "GET", oneWidget, "", "Accept", "application/yaml")
			b.answers(code(http.StatusMethodNotAllowed), "", "POST", path, "{}")
		})
	}
}

// A client that goes while the informer's server does not answer is forwarded to nobody.
func TestForwardOfAClientThatIsGone(t *testing.T) {
	var forwarded atomic.Int32
	inBubble(t, serve.Options{Forward: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded.Add(1) })}, func(b *bubble) {
		stuck := &late{valve: newValve(lw.NewMemory(newWidget(name("a"), 1)))}
		b.relay(stuck, widgets)
		stuck.silent.Store(true)
		for _, p := range []string{path, oneWidget, path + "?watch=1"} {
			b.leave(p)
		}
		time.Sleep(time.Minute)
		if n := forwarded.Load(); n != 0 {
			t.Errorf("%d requests were forwarded", n)
		}
	})
}
