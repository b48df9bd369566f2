package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
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
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 3)), r)
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
	})
}

// A list has one answer, whose headers say what it is. A large one is compressed for those who
// accept that.
func TestListHeaders(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := b.memory(lw.NewMemory(newWidget(name("a"), 1)), widgets)
		for _, large := range []bool{false, true} {
			if large {
				w := longWidget("b", 2, 128<<10)
				store(t, m.Create, w)
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
					z, err := gzip.NewReader(bytes.NewReader(data))
					noErr(t, err)
					if data, err = io.ReadAll(z); err != nil {
						t.Fatal(err)
					}
				}
				rig.Same(t, fmt.Sprintf("large %t, %s", large, encoding), want, header)
				var list struct{ Items []Widget }
				if err := json.Unmarshal(data, &list); err != nil || len(list.Items) != map[bool]int{false: 1, true: 2}[large] {
					t.Errorf("%d items, %v", len(list.Items), err)
				}
			}
		}
	})
}

// A deletion that is refused deletes nothing.
func TestDeleteRefused(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := b.memory(lw.NewMemory(newWidget(name("a"), 1)), widgets)
		for _, tt := range []struct {
			body string
			code int
			text string
		}{
			{`{"dryRun":["All"]}`, http.StatusOK, "Success"},
			{`{"preconditions":`, http.StatusBadRequest, "JSON"},
			{`[]`, http.StatusBadRequest, "DeleteOptions"},
			{strings.Repeat(" ", 4<<20), http.StatusRequestEntityTooLarge, "limit is 3145728"},
		} {
			code, body := b.do("DELETE", oneWidget, tt.body)
			if _, err := m.Get(t.Context(), name("a")); code != tt.code || !strings.Contains(body, tt.text) || err != nil {
				t.Errorf("%.40q: %d %s, want %d with %q; left: %t", tt.body, code, body, tt.code, tt.text, err == nil)
			}
		}
	})
}

// An error is in the encoding that the client accepts.
func TestErrorsAreNegotiated(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 1)), widgets)
		text := func(method, path, accept string) (int, string) {
			code, body := b.do(method, path, "", "Accept", accept)
			var status metav1.Status
			err := json.Unmarshal([]byte(body), &status)
			if accept == proto {
				err = status.Unmarshal([]byte(protoMessage([]byte(body))))
			}
			if err != nil {
				t.Fatalf("%s %s: %v: %q", method, accept, err, body)
			}
			return code, status.Status + " " + status.Message
		}
		for _, accept := range []string{proto, "application/json", asTable + ",application/json", "application/yaml"} {
			if code, got := text("GET", path+"?resourceVersion=x", accept); code != http.StatusBadRequest && code != http.StatusNotAcceptable || !strings.HasPrefix(got, "Failure ") {
				t.Errorf("%s: %d %s", accept, code, got)
			}
		}
		if code, got := text("DELETE", oneWidget, proto); code != http.StatusOK || got != "Success " {
			t.Errorf("a deletion: %d %s", code, got)
		}
	})
}

// A version that does not come is waited for three seconds, as on kube-apiserver, also if the
// informer's server does not answer meanwhile.
func TestPatience(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory(newWidget(name("a"), 1))
		stuck := &stuckSource{Source: m}
		b.relay(stuck, widgets)
		// Of the server that answers, the relay asks whether the version is one that it will not see.
		for _, query := range []string{"?resourceVersion=9", "?resourceVersion=9&resourceVersionMatch=Exact", "/a?resourceVersion=9"} {
			for _, now := range []bool{false, true} {
				stuck.now.Store(now)
				from := path
				if strings.HasPrefix(query, "/") {
					from = strings.TrimSuffix(oneWidget, "/a")
				}
				began := time.Now()
				code, body := b.do("GET", from+query, "")
				if code != http.StatusGatewayTimeout || !strings.Contains(body, "ResourceVersionTooLarge") || !strings.Contains(body, `"retryAfterSeconds":1`) {
					t.Errorf("%s: %d %s", query, code, body)
				}
				// Before and after the server is asked, the relay waits for a tenth of a second.
				if took := time.Since(began); took < 200*time.Millisecond || took > 3200*time.Millisecond || now && took != 3200*time.Millisecond {
					t.Errorf("%s, stuck %t: the answer took %v", query, now, took)
				}
			}
		}
		stuck.now.Store(false)
		// One that comes in time is answered.
		for _, tt := range []struct{ query, with string }{{"?resourceVersion=4", "b"}, {"?resourceVersion=6&resourceVersionMatch=Exact", "c"}} {
			code, body := 0, ""
			go func() { code, body = b.do("GET", path+tt.query, "") }()
			synctest.Wait()
			put(t, m.Update, "a", len(tt.query))
			put(t, m.Create, tt.with, 1)
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			if code != http.StatusOK || !strings.Contains(body, `"name":"`+tt.with+`"`) {
				t.Errorf("%s: %d %s", tt.query, code, body)
			}
		}
	})
	// A collection without a server waits as long.
	inBubble(t, serve.Options{}, func(b *bubble) {
		r := widgets
		r.Fresh = serve.FreshHere
		b.relay(lw.NewMemory(newWidget(name("a"), 1)), r)
		began := time.Now()
		if code, body := b.do("GET", path+"?resourceVersion=9", ""); code != http.StatusGatewayTimeout || time.Since(began) != 3*time.Second {
			t.Errorf("%d after %v: %s", code, time.Since(began), body)
		}
	})
}

// A stuckSource is a source whose server, now, answers no list.
type stuckSource struct {
	lw.Source[*Widget]
	now atomic.Bool
}

func (s *stuckSource) List(ctx context.Context, opts metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	if s.now.Load() {
		<-ctx.Done()
		return metav1.ListMeta{}, context.Cause(ctx)
	}
	return s.Source.List(ctx, opts, yield)
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

// An error of an object's bytes names the field.
func TestObjectErrors(t *testing.T) {
	for data, want := range map[string]string{
		`{}`:                                 "without metadata",
		`{"metadata":{"name":5}}`:            "metadata.name",
		`{"metadata":{"namespace":[]}}`:      "metadata.namespace",
		`{"metadata":{"uid":{}}}`:            "metadata.uid",
		`{"metadata":{"resourceVersion":7}}`: "metadata.resourceVersion",
		`{"metadata":{"labels":{"a":1}}}`:    "metadata.labels",
		`{"metadata":[]}`:                    "not a JSON object",
	} {
		if err := new(serve.Object).UnmarshalJSON([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
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
