package serve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

const oneWidget = "/apis/example.io/v1/namespaces/n/widgets/a"

// What a client asks the rows of a table to have beside the cells, they have; what is no such thing
// is refused as kube-apiserver does.
func TestIncludeObject(t *testing.T) {
	r := widgets
	r.Columns = []serve.Column[*Widget]{
		{Name: "Size", Value: func(w *Widget) serve.Cell { return serve.Int(w.Size) }},
		{Name: "Even", Type: "boolean", Description: "whether it is", Wide: true, Value: func(w *Widget) serve.Cell { return serve.Bool(w.Size%2 == 0) }},
	}
	served(t, serve.Options{}, r, func(b *bubble, _ *lw.Memory[*Widget]) {
		for include, want := range map[string]string{
			"":                        `{"kind":"PartialObjectMetadata"`,
			"?includeObject=Metadata": `{"kind":"PartialObjectMetadata"`,
			"?includeObject=Object":   `{"kind":"Widget"`,
			"?includeObject=None":     `null`,
		} {
			for _, p := range []string{path, oneWidget} {
				// What is accepted beside it is for servers that have no tables.
				body := b.answers(http.StatusOK, `"object":`+want, "GET", p+include, "", "Accept", asTable+",application/json")
				var table metav1.Table
				if err := json.Unmarshal([]byte(body), &table); err != nil || len(table.Rows) != 1 || table.Kind != "Table" || len(table.ColumnDefinitions) != 4 {
					t.Fatalf("%s: %v %s", include, err, body)
				}
				rig.Same(t, include, []any{"a", 3.0, false, "<unknown>"}, table.Rows[0].Cells)
				columns := []metav1.TableColumnDefinition{{Name: "Size", Type: "string"}, {Name: "Even", Type: "boolean", Description: "whether it is", Priority: 1}}
				rig.Same(t, include, columns, table.ColumnDefinitions[1:3])
			}
		}
		for _, p := range []string{path + "?", oneWidget + "?", path + "?watch=1&"} {
			b.answers(http.StatusBadRequest, `Unable to convert to Table as requested: includeObject: Invalid value: \"All\"`, "GET", p+"includeObject=All", "", "Accept", asTable)
		}
	}, newWidget(name("a"), 3))
}

// A list has one answer, whose headers say what it is. A large one is compressed on demand.
func TestListHeaders(t *testing.T) {
	served(t, serve.Options{}, widgets, func(b *bubble, m *lw.Memory[*Widget]) {
		for _, large := range []bool{false, true} {
			if large {
				store(t, m.Create, longWidget("b", 2, 128<<10))
			}
			for _, encoding := range []string{"identity", "gzip;q=1, br"} {
				before := 0
				ctx := httptrace.WithClientTrace(b.ctx, &httptrace.ClientTrace{
					Got100Continue: func() { before++ },
					Got1xxResponse: func(int, textproto.MIMEHeader) error { before++; return nil },
				})
				resp := b.send(ctx, "GET", path, "", "Accept-Encoding", encoding)
				data := bodyOf(t, resp)
				if resp.StatusCode != http.StatusOK || before > 0 {
					t.Errorf("%s, after %d others", resp.Status, before)
				}
				header := resp.Header.Clone()
				header.Del("Date")
				want := http.Header{
					"Content-Type": {"application/json"}, "Cache-Control": {"no-cache, private"}, "Vary": {"Accept, Accept-Encoding"},
					"Content-Length": {strconv.Itoa(len(data))},
				}
				if large && encoding != "identity" {
					want.Set("Content-Encoding", "gzip")
					data = unzipped(t, bytes.NewReader(data))
				}
				rig.Same(t, fmt.Sprintf("large %t, %s", large, encoding), want, header)
				var list struct{ Items []Widget }
				if err := json.Unmarshal(data, &list); err != nil || len(list.Items) != map[bool]int{false: 1, true: 2}[large] {
					t.Errorf("%d items, %v", len(list.Items), err)
				}
			}
		}
	}, newWidget(name("a"), 1))
}

// An error is in the encoding that the client accepts.
func TestErrorsAreNegotiated(t *testing.T) {
	served(t, serve.Options{}, widgets, func(b *bubble, _ *lw.Memory[*Widget]) {
		bad := path + "?resourceVersion=x"
		for _, tt := range []struct {
			method, path, accept string
			code                 int
			want                 string
		}{
			{"GET", bad, proto, 406, "Failure "},
			{"GET", bad, "application/json", 400, "Failure "},
			{"GET", bad, asTable + ",application/json", 400, "Failure "},
			{"GET", bad, "application/yaml", 406, "Failure "},
			{"DELETE", oneWidget, proto, 406, "Failure "},
			{"DELETE", oneWidget, proto + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", 200, "Success "},
		} {
			body := b.answers(tt.code, "", tt.method, tt.path, "", "Accept", tt.accept)
			var status metav1.Status
			err := json.Unmarshal([]byte(body), &status)
			if strings.HasPrefix(tt.accept, proto) {
				err = status.Unmarshal([]byte(protoMessage([]byte(body))))
			}
			if got := status.Status + " " + status.Message; err != nil || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s %s: %v: %q", tt.method, tt.accept, err, body)
			}
		}
	}, newWidget(name("a"), 1))
}

// A version that does not come is waited for three seconds, as on kube-apiserver, also if the
// informer's server does not answer meanwhile.
func TestPatience(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		stuck := &late{valve: newValve(m)}
		b.relay(stuck, widgets)
		// Of the server that answers, the relay asks whether the version is one that it will not see.
		for _, query := range []string{path + "?resourceVersion=9", path + "?resourceVersion=9&resourceVersionMatch=Exact", oneWidget + "?resourceVersion=9"} {
			for _, now := range []bool{false, true} {
				stuck.silent.Store(now)
				got := <-b.begin(query)
				if got.code != http.StatusGatewayTimeout || !strings.Contains(got.body, "ResourceVersionTooLarge") || !strings.Contains(got.body, `"retryAfterSeconds":1`) {
					t.Errorf("%s: %+v", query, got)
				}
				// Before and after the server is asked, the relay waits for a tenth of a second.
				if got.took < 200*time.Millisecond || got.took > 3200*time.Millisecond || now && got.took != 3200*time.Millisecond {
					t.Errorf("%s, stuck %t: the answer took %v", query, now, got.took)
				}
			}
		}
		stuck.silent.Store(false)
		// One that comes in time is answered.
		for _, tt := range []struct{ query, with string }{{"?resourceVersion=4", "b"}, {"?resourceVersion=6&resourceVersionMatch=Exact", "c"}} {
			answer := b.begin(path + tt.query)
			put(t, m.Update, "a", len(tt.query))
			put(t, m.Create, tt.with, 1)
			got := <-answer
			if got.code != http.StatusOK || got.took > 200*time.Millisecond || !strings.Contains(got.body, `"name":"`+tt.with+`"`) {
				t.Errorf("%s: %+v", tt.query, got)
			}
		}
	})
	// A collection without a server waits as long.
	inBubble(t, serve.Options{}, func(b *bubble) {
		r := widgets
		r.Fresh = serve.FreshHere
		b.relay(lw.NewMemory(newWidget(name("a"), 1)), r)
		b.answersAfter(3*time.Second, http.StatusGatewayTimeout, "", path+"?resourceVersion=9")
	})
}

// The kind is the name of the type, and what else follows from it, unless the Resource says it.
func TestDefaultsOfAResource(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 1)), serve.Resource[*Widget]{Name: "widgets"})
		b.answers(http.StatusOK, `{"kind":"WidgetList","apiVersion":"v1"`, "GET", "/api/v1/widgets", "")
		found := read[metav1.APIResourceList](b, "/api/v1")
		if len(found.APIResources) != 1 {
			t.Fatalf("%+v", found)
		}
		want := metav1.APIResource{Name: "widgets", SingularName: "widget", Kind: "Widget", Namespaced: true}
		got := found.APIResources[0]
		got.Verbs, got.StorageVersionHash = nil, ""
		rig.Same(t, "the resource", want, got)
	})
}

// Versions that are no numbers cannot be served: nobody could tell which is the newer one.
func TestOpaqueVersions(t *testing.T) {
	for _, tt := range []struct{ list, object, event, want string }{
		{"x", "5", "", `"x"`}, {"5", "x", "", `"x"`}, {"5", "", "", `""`}, {"", "5", "", `""`}, {"5", "4", "y6", `"y6"`}, {"05", "4", "", `"05"`},
		{"5", "4", "6", ""},
	} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			src := &scripted{tt.list, []*Widget{at("a", tt.object, 1)}, make(chan lw.WatchEvent[*Widget], 1)}
			if tt.event != "" {
				src.events <- lw.WatchEvent[*Widget]{Type: watch.Added, Object: at("b", tt.event, 1), ResourceVersion: tt.event}
			}
			inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			go func() { _ = inf.Run(b.ctx) }()
			ended := make(chan error, 1)
			go func() { ended <- serve.Serve(b.ctx, b.h, inf, widgets) }()
			time.Sleep(time.Second)
			select {
			case err := <-ended:
				if tt.want == "" || !strings.Contains(err.Error(), "widgets: the resource version "+tt.want+" is not a decimal number") {
					t.Errorf("%+v: Serve ended with %v", tt, err)
				}
			default:
				if tt.want != "" {
					t.Errorf("%+v is served", tt)
				}
			}
		})
	}
}

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
			b.answers(http.StatusForbidden, "", "GET", "/api/v1/namespaces/n/pods/p/portforward", "")
		}
		rig.Same(t, "forwarded", 0, forwarded)
		refused = "create"
		b.do("GET", "/api/v1/namespaces/n/pods/p/log", "")
		rig.Same(t, "the log of a pod, forwarded", 1, forwarded)
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
		rig.Same(t, "requests that were forwarded", 0, forwarded.Load())
	})
}
