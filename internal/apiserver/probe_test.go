package apiserver_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/conform"
	"github.com/go-lw/lw/internal/verify/rig"
)

// conforming are the resources of the table of writes.
func conforming(t testing.TB, managed bool) (all []Resource) {
	pod := rig.Must[*registry.Type](t)(registry.TypeOf(reflect.TypeFor[*conform.Pod]()))
	for _, r := range conform.Resources {
		res := Resource{Group: "example.io", Resource: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Status: r.Status,
			Scale: r.Scale, Custom: true, Versioned: true, Managed: managed}
		if r.Typed {
			res = Resource{Resource: r.Plural, Kind: r.Kind, Type: pod, Grace: true, Managed: managed}
		}
		all = append(all, res)
	}
	return all
}

// The server answers writes as kube-apiserver does.
func TestConform(t *testing.T) {
	for _, managed := range []bool{false, true} {
		inBubbleOf(t, conforming(t, managed), func(b *bench) {
			conform.Play(b, conform.Server{Client: b.client, URL: "http://apiserver"}, true)
		})
	}
}

// TestProbes expects what was measured on a real API server. The names are numbers in the catalogue
// of facts. The end-to-end tests expect the same of real servers.
func TestProbes(t *testing.T) {
	const streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
	expectList := func(b *bench, query, want string) {
		b.Helper()
		rig.Same(b, fmt.Sprintf("list %q", query), want, b.list(query))
	}
	expectWatch := func(b *bench, query string, f func(), want ...string) {
		b.Helper()
		s := b.watch(query)
		s.all()
		f()
		rig.Same(b, fmt.Sprintf("watch %q", query), want, s.all())
		s.close()
	}
	nothing := func() {}
	for _, probe := range []struct {
		name string
		run  func(b *bench)
	}{
		{"P1 one counter for all resources", func(b *bench) {
			b.create("a")
			b.put("nodes", []byte(`{"metadata":{"name":"n"}}`))
			expectList(b, "", "200 rv=3 a@2")
		}},
		{"P2 too old is an ERROR event over 200", func(b *bench) {
			b.create("a", "b", "c")
			b.Line.Compact(3)
			expectWatch(b, "resourceVersion=2", nothing, "ERROR 410 too old resource version: 2 (3)", "EOF")
		}},
		{"P3 future versions", func(b *bench) {
			b.create("a")
			expectList(b, "resourceVersion=9", "504 Timeout: Timeout: Too large resource version: 9, current: 2")
			expectWatch(b, "resourceVersion=9&allowWatchBookmarks=true&timeoutSeconds=100",
				func() { b.create("b"); time.Sleep(101 * time.Second) }, "EOF")
			expectWatch(b, streamed+"resourceVersion=9&allowWatchBookmarks=true", nothing,
				"ERROR 504 Timeout: Too large resource version: 9, current: 3", "EOF")
		}},
		{"P4 synthetic events in the order of keys", func(b *bench) {
			b.create("b", "a", "c")
			b.touch("a", "x")
			for _, rv := range []string{"", "0"} {
				expectWatch(b, "resourceVersion="+rv, func() { b.create("d") },
					"ADDED a@5 app=x", "ADDED b@2", "ADDED c@4", "ADDED d@"+map[string]string{"": "6", "0": "8"}[rv])
				b.remove("d")
			}
		}},
		{"P5 streamed list", func(b *bench) {
			b.create("a")
			b.Line.Advance(5)
			expectWatch(b, streamed+"allowWatchBookmarks=true", func() { b.create("b") }, "ADDED a@2", "BOOKMARK @7 end",
				"ADDED b@8")
			expectWatch(b, streamed, nothing, "ADDED a@2", "ADDED b@8")
		}},
		{"P6 selector transitions", func(b *bench) {
			b.create("a")
			expectWatch(b, "resourceVersion=2&labelSelector=app%3Dx", func() { b.touch("a", "x"); b.touch("a", "y") },
				"ADDED a@3 app=x", "DELETED a@4 app=x")
		}},
		{"P7 deletion has its own version", func(b *bench) {
			b.create("a")
			expectWatch(b, "resourceVersion=2", func() { b.remove("a"); b.create("a") }, "DELETED a@3", "ADDED a@4")
		}},
		{"P8 pages of one state", func(b *bench) {
			b.create("a", "b", "c")
			resp := b.must(b.do("limit=2"))
			first := b.page(resp)
			if n := first.RemainingItemCount; n == nil || *n != 1 {
				b.Errorf("remainingItemCount: got %v, want 1", n)
			}
			b.remove("c")
			expectList(b, "limit=2&continue="+first.Continue, "200 rv=4 c@4")
			b.Line.Compact(5)
			if got := b.list("limit=2&continue=" + first.Continue); !strings.HasPrefix(got, "410 Expired") {
				b.Errorf("expired token: got %q, want 410", got)
			}
		}},
		{"P9 version 0 ignores the limit", func(b *bench) {
			b.create("a", "b")
			expectList(b, "resourceVersion=0&limit=1", "200 rv=3 a@2 b@3")
		}},
		{"P10 exact", func(b *bench) {
			b.create("a", "b", "c")
			expectList(b, "resourceVersion=3&resourceVersionMatch=Exact", "200 rv=3 a@2 b@3")
			b.Line.Compact(4)
			expectList(b, "resourceVersion=3&resourceVersionMatch=Exact", "410 Expired: too old resource version: 3 (4)")
		}},
		{"P13 a write that changes nothing", func(b *bench) {
			b.create("a")
			expectWatch(b, "resourceVersion=2", func() {
				b.touch("a", "x")
				b.touch("a", "x")
				b.create("b")
			}, "MODIFIED a@3 app=x", "ADDED b@4")
		}},
		{"P15 exclusive", func(b *bench) {
			b.create("a", "b")
			expectWatch(b, "resourceVersion=2", nothing, "ADDED b@3")
		}},
		{"P16 bookmarks", func(b *bench) {
			b.create("a")
			expectWatch(b, "resourceVersion=2&allowWatchBookmarks=true&timeoutSeconds=2",
				func() { time.Sleep(5 * time.Second) }, "EOF")
			expectWatch(b, "resourceVersion=2&allowWatchBookmarks=true&timeoutSeconds=3", func() { time.Sleep(5 * time.Second) },
				"BOOKMARK @2", "EOF")
			expectWatch(b, "resourceVersion=2&allowWatchBookmarks=true&timeoutSeconds=4", func() { time.Sleep(5 * time.Second) },
				"BOOKMARK @2", "EOF")
			expectWatch(b, "resourceVersion=2&timeoutSeconds=90", func() { time.Sleep(91 * time.Second) }, "EOF")
			expectWatch(b, "resourceVersion=2&allowWatchBookmarks=true", func() { b.Line.Advance(1); b.Line.Bookmark() },
				"BOOKMARK @3")
		}},
		{"P17 bad requests", func(b *bench) {
			for query, want := range map[string]int{
				"resourceVersion=abc":                           400,
				"watch=1&resourceVersion=abc":                   500,
				"resourceVersionMatch=Exact":                    422,
				"resourceVersionMatch=Exact&resourceVersion=0":  422,
				"watch=1&sendInitialEvents=true":                422,
				"watch=1&resourceVersionMatch=NotOlderThan":     422,
				"labelSelector=%3D":                             400,
				"fieldSelector=spec.other%3Dx":                  400,
				"fieldSelector=spec.nodeName%3Dx":               200,
				"limit=x":                                       400,
				"limit=":                                        400,
				"limit=-1":                                      200,
				"timeoutSeconds=-1":                             200,
				"watch=":                                        200,
				"watch&labelSelector=%3D&resourceVersion=0":     400,
				"watch=1&timeoutSeconds=x":                      400,
				"continue=nonsense":                             400,
				"watch=false":                                   200,
				"sendInitialEvents=true&resourceVersionMatch=":  422,
				"resourceVersion=1&resourceVersionMatch=Newish": 422,
				"watch=1&labelSelector=%3D&resourceVersion=0":   400,
				"resourceVersion=1&resourceVersionMatch=Exact":  200,
				"resourceVersion=1&limit=1&fieldSelector=a%3Db": 400,
			} {
				rig.Same(b, query, want, b.code(http.MethodGet, "/api/v1/pods?"+query, ""))
			}
		}},
		{"paths", func(b *bench) {
			b.create("a")
			for path, want := range map[string]int{
				"/api/v1/pods":                               200,
				"/api/v1/namespaces/ns/pods":                 200,
				"/api/v1/namespaces/ns/pods/a":               200,
				"/api/v1/namespaces/ns/pods/b":               404,
				"/api/v1/namespaces":                         200,
				"/api/v1/namespaces/ns":                      404,
				"/api/v1/nodes":                              200,
				"/api/v1/namespaces/ns/nodes":                404,
				"/apis/example.com/v1/widgets":               200,
				"/apis/example.com/v1/namespaces/ns/widgets": 200,
				"/apis/example.com/v2/widgets":               404,
				"/api/v1/namespaces/ns/pods/a/status":        404,
				"/api/v1/widgets":                            404,
				"/":                                          200,
				"/api/v1/namespaces/other/pods/a":            404,
				"/apis/example.com/v1/namespaces/ns/widgets/w?x=1&y=%20": 404,
			} {
				rig.Same(b, path, want, b.code(http.MethodGet, path, ""))
			}
		}},
	} {
		subtest(t, probe.name, probe.run)
	}
}
