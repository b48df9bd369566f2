package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// send sends a write and says what was answered: "201 a@2 gen=1" or "409 Conflict".
func (b *bench) send(method, path, body string, header ...string) string {
	b.Helper()
	return b.sendTo(method, b.URL("pods", "ns")+path, body, header...)
}

// sendTo is send for any URL.
func (b *bench) sendTo(method, url, body string, header ...string) string {
	b.Helper()
	resp := b.must(b.request(method, url, strings.NewReader(body), header...))
	data := b.body(resp)
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err == nil && status.Kind == "Status" {
		if status.Status == metav1.StatusSuccess {
			return fmt.Sprintf("%d %s %s", resp.StatusCode, status.Status, status.Details.UID)
		}
		return fmt.Sprintf("%d %s", resp.StatusCode, status.Reason)
	}
	var obj metav1.PartialObjectMetadata
	rig.OK(b, json.Unmarshal(data, &obj))
	return fmt.Sprintf("%d %s@%s gen=%d", resp.StatusCode, obj.Name, obj.ResourceVersion, obj.Generation)
}

func TestWrites(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put("pods", []byte(`{"metadata":{"namespace":"ns","name":"a","uid":"u"}}`))
		for _, c := range []struct{ method, path, body, want string }{
			{"POST", "", `{"metadata":{"name":"a"}}`, "409 AlreadyExists"},
			{"POST", "", `{"metadata":{}}`, "422 Invalid"},
			{"POST", "", `{"metadata":{"name":"a/b"}}`, "422 Invalid"},
			{"POST", "", `{"metadata":{"name":"b","namespace":"other"}}`, "400 BadRequest"},
			{"POST", "", `{"metadata":{"name":"b","resourceVersion":"1"}}`, "400 BadRequest"},
			{"POST", "", `{"kind":"Node","metadata":{"name":"b"}}`, "400 BadRequest"},
			{"POST", "", `{"apiVersion":"v2","metadata":{"name":"b"}}`, "400 BadRequest"},
			{"POST", "", `{"metadata":{"name":7}}`, "400 BadRequest"},
			{"POST", "", `[]`, "400 BadRequest"},
			{"POST", "", `{"metadata":`, "400 BadRequest"},
			{"POST", "", `{} {}`, "400 BadRequest"},
			{"POST", "", "", "400 BadRequest"},
			{"PUT", "/a", `{"metadata":{"name":"a","resourceVersion":"2"},"spec":{"x":1}}`, "200 a@3 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"a","resourceVersion":"2"},"spec":{"x":2}}`, "409 Conflict"},
			{"PUT", "/a", `{"metadata":{"name":"a","uid":"v"},"spec":{"x":2}}`, "409 Conflict"},
			{"PUT", "/a", `{"metadata":{"name":"a","resourceVersion":"x"},"spec":{"x":2}}`, "422 Invalid"},
			{"PUT", "/a", `{"metadata":{"name":"a","generation":9},"spec":{"x": 1}}`, "200 a@3 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"a","labels":{"l":"1"}},"spec":{"x":1}}`, "200 a@4 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"a","labels":{"l":"1"}},"status":{"s":1},"spec":{"x":1}}`, "200 a@5 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"b"}}`, "400 BadRequest"},
			{"PUT", "/b", `{"metadata":{"name":"b"}}`, "404 NotFound"},
			{"PATCH", "/a", `{}`, "415 UnsupportedMediaType"},
			{"PATCH", "", `{}`, "405 MethodNotAllowed"},
			{"DELETE", "/b", "", "404 NotFound"},
			{"DELETE", "/a", `{"preconditions":{"resourceVersion":"4"}}`, "409 Conflict"},
			{"DELETE", "/a", `{"preconditions":{"uid":"v"}}`, "409 Conflict"},
			{"DELETE", "/a", `{"preconditions":{"resourceVersion":"x"}}`, "409 Conflict"},
			{"DELETE", "/a", `[`, "400 BadRequest"},
			{"DELETE", "/a", `{"preconditions":{"resourceVersion":"5","uid":"u"}}`, "200 a@6 gen=2"},
			{"GET", "/a", "", "404 NotFound"},
		} {
			rig.Same(b, c.method+" "+c.path+" "+c.body, c.want, b.send(c.method, c.path, c.body, "Content-Type",
				"application/json; charset=utf-8"))
		}
		rig.Same(b, "text", "415 UnsupportedMediaType", b.send("POST", "", "x", "Content-Type", "text/plain"))
		rig.Same(b, "4 MiB", "413 RequestEntityTooLarge", b.send("POST", "", strings.Repeat(" ", 4<<20)))
	})
}

// The server's own program stores what it likes: a UID, managedFields, labels that no client may
// write.
func TestWritesWithoutHTTP(t *testing.T) {
	inBubble(t, func(b *bench) {
		obj := b.put("pods", []byte(`{"metadata":{"namespace":"ns","name":"A_b","uid":"u","labels":{"a b":"c d"},"managedFields":[{"manager":"m"}]}}`))
		obj, err := b.pods.Update(obj.JSON)
		if want := `"name":"A_b","namespace":"ns","uid":"u","resourceVersion":"2","generation":1`; err != nil ||
			!strings.Contains(string(obj.JSON), want) || !strings.Contains(string(obj.JSON),
			`"managedFields":[{"manager":"m"}]`) {
			b.Errorf("%s, %v", obj.JSON, err)
		}
		for _, object := range []string{`{"metadata":{"namespace":"ns"}}`, `{"metadata":{"name":"a"}}`,
			`{"metadata":{"namespace":"ns","name":"a/b"}}`, `[]`, `null`, `x`} {
			if _, err := b.pods.Create([]byte(object)); err == nil {
				b.Errorf("%s was accepted", object)
			}
		}
		for object, want := range map[string]string{
			`{"metadata":{"name":"a"}}`:       `Pod "a": the namespace is ""`,
			`{"metadata":{"namespace":"ns"}}`: `Pod: the object has no name`,
			`[]`:                              `cannot be decoded as Pod`,
		} {
			if _, err := b.pods.Update([]byte(object)); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), want) {
				b.Errorf("%s: %v, want %s", object, err, want)
			}
		}
	})
}

func TestGenerateName(t *testing.T) {
	inBubble(t, func(b *bench) {
		names := map[string]bool{}
		for range 100 {
			obj := b.put("pods", []byte(`{"metadata":{"generateName":"x-","namespace":"ns"}}`))
			if name := obj.Key.Name; !strings.HasPrefix(name, "x-") || len(name) != len("x-")+5 || names[name] {
				b.Fatalf("name %q", name)
			}
			names[obj.Key.Name] = true
		}
	})
}

func TestFieldSelector(t *testing.T) {
	inBubble(t, func(b *bench) {
		for name, node := range map[string]string{"a": "n1", "b": "n2"} {
			b.put("pods", fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q},"spec":{"nodeName":%q}}`, name, node))
		}
		resp := b.must(b.do("fieldSelector=spec.nodeName%3Dn2"))
		if list := b.page(resp); len(list.Items) != 1 || list.Items[0].Name != "b" {
			b.Errorf("got %v, want b", list.Items)
		}
	})
}

// An exact list of one name is what a witness asks for: the object as it was at a version, whatever
// it is now.
func TestExactListOfAName(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.create("a", "b") // 2, 3
		b.touch("a", "x")  // 4
		b.remove("a")      // 5
		b.create("a")      // 6
		ask := func(name, namespace string, version int) string {
			return b.list(fmt.Sprintf("fieldSelector=metadata.name%%3D%s,metadata.namespace%%3D%s&resourceVersion=%d&resourceVersionMatch=Exact&limit=1",
				name, namespace, version))
		}
		look := func() (said []string) {
			for version := 2; version <= 7; version++ {
				said = append(said, ask("a", "ns", version))
			}
			return append(said, ask("b", "ns", 2), ask("b", "ns", 3), ask("b", "other", 6))
		}
		want := []string{
			"200 rv=2 a@2", "200 rv=3 a@2", "200 rv=4 a@4", "200 rv=5", "200 rv=6 a@6",
			"504 Timeout: Timeout: Too large resource version: 7, current: 6",
			"200 rv=2", "200 rv=3 b@3", "200 rv=6",
		}
		rig.Same(b, "lists", want, look())
		b.Line.Compact(4)
		for i, version := range map[int]int{0: 2, 1: 3, 6: 2, 7: 3} {
			want[i] = fmt.Sprintf("410 Expired: too old resource version: %d (4)", version)
		}
		rig.Same(b, "compacted", want, look())
	})
}

func TestScope(t *testing.T) {
	srv := New(Options{Resources: resources})
	for what, c := range map[string]struct {
		collection string
		object     any
	}{
		"a pod without a namespace": {"pods", []byte(`{"metadata":{"name":"a"}}`)},
		"a node with a namespace":   {"nodes", []byte(`{"metadata":{"name":"a","namespace":"ns"}}`)},
		"a channel":                 {"pods", make(chan int)},
	} {
		if _, err := srv.Collection(c.collection).Create(c.object); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	rig.MustPanic(t, "apiserver: ", func() { srv.Collection("widget") })
	rig.MustPanic(t, "apiserver: ", func() { New(Options{Resources: []Resource{{Kind: "Pod"}}}) })
}

// TestReplay writes, compacts, disconnects and restores at random, and applies the events that a
// client gets. After each step that must give the state at the last version that the client has.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"put", "put", "put", "delete", "advance", "cut", "bookmark"}), 1,
			40).Draw(rt, "steps")
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), len(steps), len(steps)).Draw(rt, "names")
		var failure string
		synctest.Test(t, func(t *testing.T) {
			srv := New(Options{Resources: resources})
			b := &bench{T: t, Server: srv, client: srv.Client(), pods: srv.Collection("pods")}
			defer srv.Close()
			defer b.client.CloseIdleConnections()
			state := map[string]string{}
			version := ""
			var s *stream
			for i, step := range steps {
				if s == nil {
					s = b.watch("allowWatchBookmarks=true&resourceVersion=" + version)
					s.all()
				}
				switch step {
				case "put":
					if _, err := b.pods.Get(key(names[i])); err != nil {
						b.create(names[i])
					} else {
						b.touch(names[i], fmt.Sprint(i))
					}
				case "delete":
					_, _ = b.pods.Delete(key(names[i])) // there may be none
				case "advance":
					srv.Line.Advance(3)
				case "bookmark":
					srv.Line.Bookmark()
				case "cut":
					srv.Line.Disconnect()
				}
				for _, line := range s.news() {
					var typ, what string
					if line == "EOF" {
						s = nil
						break
					}
					if n, err := fmt.Sscan(line, &typ, &what); n != 2 {
						failure = fmt.Sprintf("event %q: %v", line, err)
						return
					}
					name, v, _ := strings.Cut(what, "@")
					version = v
					switch typ {
					case "DELETED":
						delete(state, name)
					case "ADDED", "MODIFIED":
						state[name] = v
					}
				}
				if version == "" {
					continue
				}
				var at uint64
				_, _ = fmt.Sscan(version, &at) // 0 fails below
				truth, err := b.pods.StateAt(at)
				if err != nil {
					failure = err.Error()
					return
				}
				want := map[string]string{}
				for _, obj := range truth {
					want[obj.Key.Name] = fmt.Sprint(obj.Version)
				}
				if diff := cmp.Diff(want, state); diff != "" {
					failure = fmt.Sprintf("step %d %s, version %s (-want +got):\n%s", i, step, version, diff)
					return
				}
			}
			if s != nil {
				s.close()
			}
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

// BenchmarkWatch is the cost of one event through HTTP over a port, with a reader that only counts
// lines.
func BenchmarkWatch(b *testing.B) {
	srv := New(Options{Resources: resources})
	url, stop, err := srv.Start("127.0.0.1:0")
	rig.OK(b, err)
	defer stop()
	pods := srv.Collection("pods")
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	const objects = 1000
	body := fmt.Sprintf(`"spec":{"x":%q}}`, strings.Repeat("x", 2000))
	for i := range objects {
		rig.Must[Object](b)(pods.Create(fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"p%d"},%s`, i, body)))
	}
	b.Run("streamed list", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			resp := rig.Must[*http.Response](b)(client.Get(url + pods.URL("") +
				"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60"))
			for dec, ev := json.NewDecoder(resp.Body), (struct{ Type string }{}); ev.Type != "BOOKMARK"; {
				rig.OK(b, dec.Decode(&ev))
			}
			_ = resp.Body.Close()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*objects), "ns/object")
	})
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			rig.Must[Object](b)(pods.Update(fmt.Appendf(nil,
				`{"metadata":{"namespace":"ns","name":"p%d","labels":{"n":"%d"}},%s`, i%objects, i, body)))
		}
	})
}

// An object with a finalizer is marked when it is deleted, and gone when its last finalizer is.
func TestFinalizers(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.watch("resourceVersion=1")
		b.put("pods", []byte(`{"metadata":{"namespace":"ns","name":"a","uid":"u","finalizers":["x","y"],"deletionTimestamp":"2020-01-01T00:00:00Z"}}`))
		for _, c := range []struct{ method, path, body, want string }{
			{"POST", "", `{"metadata":{"name":"a","finalizers":["x.io/x"],"deletionTimestamp":"2020-01-01T00:00:00Z"}}`,
				"409 AlreadyExists"},
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["x","y"],"deletionTimestamp":"2020-01-01T00:00:00Z"}}`,
				"422 Invalid"},
			{"DELETE", "/a", `{"preconditions":{"uid":"v"}}`, "409 Conflict"},
			{"DELETE", "/a", `{"preconditions":{"resourceVersion":"1"}}`, "409 Conflict"},
			{"DELETE", "/a", `{"preconditions":{"uid":"u","resourceVersion":"2"}}`, "200 a@3 gen=2"},
			{"DELETE", "/a", "", "200 a@3 gen=2"}, // again: nothing changes
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["x","y","z"]}}`, "422 Invalid"},
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["y"]}}`, "200 a@4 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"a","resourceVersion":"3"}}`, "409 Conflict"},
			{"PUT", "/a", `{"metadata":{"name":"a","uid":"v"}}`, "409 Conflict"},
			{"GET", "/a", "", "200 a@4 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"a","uid":"u","resourceVersion":"4"}}`, "200 a@4 gen=2"},
			{"GET", "/a", "", "404 NotFound"},
			{"PUT", "/a", `{"metadata":{"name":"a"}}`, "404 NotFound"},
			{"DELETE", "/a", "", "404 NotFound"},
			{"POST", "", `{"metadata":{"name":"a"}}`, "201 a@6 gen=1"},
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["x"]}}`, "200 a@7 gen=1"},
			{"PUT", "/a", `{"metadata":{"name":"a"}}`, "200 a@8 gen=1"},
		} {
			rig.Same(b, c.method+" "+c.path+" "+c.body, c.want, b.send(c.method, c.path, c.body))
		}
		want := []string{"ADDED a@2", "MODIFIED a@3", "MODIFIED a@4", "DELETED a@5", "ADDED a@6", "MODIFIED a@7",
			"MODIFIED a@8"}
		rig.Same(b, "watch", want, s.all())
		s.close()
	})
}

// The collection's own methods know finalizers too, and the mark has its time.
func TestFinalizersWithoutHTTP(t *testing.T) {
	inBubble(t, func(b *bench) {
		held := func(p *metav1.PartialObjectMetadata) { p.Finalizers = []string{"x"} }
		b.put("pods", pod("a", held))
		obj := rig.Must[Object](b)(b.pods.Delete(key("a")))
		var marked metav1.PartialObjectMetadata
		rig.OK(b, json.Unmarshal(obj.JSON, &marked))
		if marked.DeletionTimestamp.IsZero() || marked.DeletionGracePeriodSeconds == nil || marked.ResourceVersion != "3" {
			b.Errorf("deleted: %s", obj.JSON)
		}
		rig.Must[Object](b)(b.pods.Update(pod("a")))
		if _, err := b.pods.Get(key("a")); !apierrors.IsNotFound(err) {
			b.Errorf("Get of what is gone: %v", err)
		}
	})
}

// An eviction deletes a Pod as its options say.
func TestEviction(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put("pods", []byte(`{"metadata":{"namespace":"ns","name":"a","uid":"u"}}`))
		for _, c := range []struct {
			method, path, body string
			code               int
		}{
			{"POST", "/a/eviction", `{"metadata":{"name":"a"},"deleteOptions":{"preconditions":{"uid":"v"}}}`, 409},
			{"POST", "/a/eviction?dryRun=All", `{"metadata":{"name":"a"}}`, 201},
			{"POST", "/a/eviction", `{}`, 400},
			{"POST", "/a/eviction", `{"metadata":{"name":"b"}}`, 400},
			{"POST", "/a/eviction", `{"metadata":{"name":"a"},"deleteOptions":{"dryRun":["All"]}}`, 201},
			{"POST", "/a/eviction", `{"metadata":{"name":"a"},"deleteOptions":{"dryRun":["Some"]}}`, 422},
			{"POST", "/a/eviction", `[]`, 400},
			{"PUT", "/a/eviction", `{}`, 405},
			{"GET", "/a/eviction", ``, 405},
			{"POST", "/b/eviction", `{"metadata":{"name":"b"}}`, 404},
			{"GET", "/a", "", 200},
			{"POST", "/a/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}`, 201},
			{"GET", "/a", "", 404},
		} {
			got := b.code(c.method, "/api/v1/namespaces/ns/pods"+c.path, c.body, "Content-Type", "application/json")
			rig.Same(b, c.method+" "+c.path+" "+c.body, c.code, got)
		}
	})
}

// Nothing is read or done for a client that the answer cannot be sent to.
func TestNotAcceptableIsNotDone(t *testing.T) {
	scaled := slices.Clone(resources)
	scaled[0].Scale = &registry.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas"}
	inBubbleOf(t, scaled, func(b *bench) {
		b.put("pods", []byte(`{"metadata":{"namespace":"ns","name":"a","uid":"u"},"spec":{"replicas":1}}`))
		version := b.Line.Version()
		for _, c := range []struct{ method, path, body string }{
			{"POST", "", `{"metadata":{"name":"b"}}`}, {"POST", "", `{`},
			{"PUT", "/a", `{"metadata":{"name":"a"},"spec":{}}`}, {"PUT", "/a", `{`},
			{"PATCH", "/a", `{"spec":null}`}, {"PATCH", "/a", `{`},
			{"DELETE", "/a", ""}, {"DELETE", "/a", `{`},
			{"DELETE", "", ""}, {"DELETE", "", `{`},
			{"PUT", "/a/scale", `{"metadata":{"name":"a"},"spec":{"replicas":2}}`},
			{"PATCH", "/a/scale", `{"spec":{"replicas":2}}`}, {"GET", "/a/scale", ""},
			{"POST", "/a/eviction", `{"metadata":{"name":"a"}}`}, {"POST", "/a/eviction", `{`},
		} {
			for _, accept := range []string{"text/html", "application/yaml"} {
				rig.Same(b, c.method+" "+c.path+" "+c.body, "406 NotAcceptable",
					b.send(c.method, c.path, c.body, "Content-Type", "application/merge-patch+json", "Accept", accept))
			}
		}
		resp := b.must(b.request("GET", b.URL("pods", "ns")+"/a/scale", nil, "Accept", acceptProto))
		rig.Same(b, "a scale in protobuf alone", http.StatusNotAcceptable, resp.StatusCode)
		b.body(resp)
		rig.Same(b, "version", version, b.Line.Version())
		// A deletion is answered with a Status, which has no metadata alone.
		resp = b.must(b.request("DELETE", b.URL("pods", "ns")+"/a", nil, "Accept", acceptProto+partialObject))
		rig.Same(b, "the answer to a deletion", "200 "+acceptProto, fmt.Sprint(resp.StatusCode, " ",
			resp.Header.Get("Content-Type")))
		b.body(resp)
	})
}
