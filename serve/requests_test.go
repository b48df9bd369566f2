package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// Lists that are too many at once wait for five seconds, and are refused after that.
func TestListsWait(t *testing.T) {
	inBubble(t, serve.Options{Limits: serve.Limits{Lists: 1}}, func(b *bubble) {
		release := make(chan struct{})
		r := widgets
		r.Encode = func(w *Widget) ([]byte, error) {
			<-release
			return json.Marshal(w)
		}
		b.memory(lw.NewMemory(newWidget(name("a"), 1)), r)
		first := b.begin(path)
		second := <-b.begin(path)
		if second.code != http.StatusTooManyRequests || !strings.Contains(second.body, "1 lists are in progress") ||
			!strings.Contains(second.body, `"retryAfterSeconds":1`) || second.took != 5*time.Second {
			t.Errorf("a second list: %+v", second)
		}
		third := b.begin(path)
		time.Sleep(4 * time.Second)
		close(release)
		for what, answer := range map[string]<-chan reply{"the first list": first,
			"the one that has waited for its turn": third} {
			rig.Same(t, what, http.StatusOK, (<-answer).code)
		}
		for range 3 { // each gives its turn back
			b.answers(http.StatusOK, "", "GET", path, "")
		}
	})
}

// A watch without timeoutSeconds ends cleanly between once and twice Limits.WatchTimeout, each at
// its own time; with it, then, but not later than after a day.
func TestWatchTimeout(t *testing.T) {
	inBubble(t, serve.Options{Limits: serve.Limits{WatchTimeout: 10 * time.Minute}}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 1)), widgets)
		lasts := func(query string) time.Duration {
			began := time.Now()
			w := b.watch("resourceVersion=2" + query)
			for range w.events {
				t.Errorf("an event on a watch with %q", query)
			}
			return time.Since(began)
		}
		seen := map[time.Duration]bool{}
		for range 20 {
			d := lasts("")
			if seen[d] = true; d < 10*time.Minute || d >= 20*time.Minute {
				t.Errorf("a watch lasted %v", d)
			}
		}
		if len(seen) < 2 {
			t.Error("all watches last as long")
		}
		if d := lasts("&timeoutSeconds=0"); d < 10*time.Minute || d >= 20*time.Minute {
			t.Errorf("a watch of no seconds lasted %v", d)
		}
		for query, want := range map[string]time.Duration{"7": 7 * time.Second, "86400": 24 * time.Hour,
			"999999999999": 24 * time.Hour} {
			if d := lasts("&timeoutSeconds=" + query); d != want {
				t.Errorf("a watch of %s seconds lasted %v", query, d)
			}
		}
	})
}

// What an authorizer is asked, for each way to ask.
func TestVerbs(t *testing.T) {
	var asked []serve.Attributes
	inBubble(t, serve.Options{Authorize: func(_ *http.Request, a serve.Attributes) error {
		asked = append(asked, a)
		return nil
	}}, func(b *bubble) {
		r := widgets
		r.Fresh = serve.FreshHere
		b.relay(lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 2)), r)
		in, watch := "/apis/example.io/v1/namespaces/n/widgets", "/apis/example.io/v1/watch/namespaces/n/widgets"
		for _, tt := range []struct {
			method, path string
			want         serve.Attributes // Verb, Name, Namespace, Subresource and selectors
			code         int
			text         string
		}{
			{"GET", in + "?labelSelector=a&fieldSelector=size=1", serve.Attributes{Verb: "list", Namespace: "n",
				LabelSelector: "a", FieldSelector: "size=1"}, 200, ""},
			{"GET", path + "?watch=1&timeoutSeconds=1&fieldSelector=size=9", serve.Attributes{Verb: "watch",
				FieldSelector: "size=9"}, 200, ""},
			{"HEAD", in, serve.Attributes{Verb: "list", Namespace: "n"}, 200, ""},
			{"HEAD", in + "/a", serve.Attributes{Verb: "get", Namespace: "n", Name: "a"}, 200, ""},
			{"HEAD", in + "?watch=1", serve.Attributes{Verb: "watch", Namespace: "n"}, 405, ""},
			{"PATCH", in + "/a", serve.Attributes{Verb: "patch", Namespace: "n", Name: "a"}, 405, "MethodNotAllowed"},
			{"DELETE", in + "/a", serve.Attributes{Verb: "delete", Namespace: "n", Name: "a"}, 405, "MethodNotAllowed"},
			{"DELETE", in, serve.Attributes{Verb: "deletecollection", Namespace: "n"}, 405, "MethodNotAllowed"},
			{"POST", in, serve.Attributes{Verb: "create", Namespace: "n"}, 405, "MethodNotAllowed"},
			{"PUT", in + "/a", serve.Attributes{Verb: "update", Namespace: "n", Name: "a"}, 405, "MethodNotAllowed"},
			{"GET", in + "/a/status", serve.Attributes{Verb: "get", Namespace: "n", Name: "a", Subresource: "status"}, 404,
				"NotFound"},
			{"GET", in + "/none", serve.Attributes{Verb: "get", Namespace: "n", Name: "none"}, 404,
				`widgets.example.io \"none\" not found`},
			{"GET", path + "/a", serve.Attributes{Verb: "get", Name: "a"}, 404, "NotFound"},
			{"GET", in + "?limit=x", serve.Attributes{Verb: "list", Namespace: "n"}, 400, "strconv.ParseInt"},
			// An object is read, whatever else the query says.
			{"GET", in + "/a?watch=1&timeoutSeconds=1&limit=x", serve.Attributes{Verb: "get", Namespace: "n", Name: "a"}, 200,
				`{"kind":"Widget","apiVersion":"example.io/v1","metadata":{"namespace":"n","name":"a"`},
			{"GET", in + "/a?resourceVersion=x", serve.Attributes{Verb: "get", Namespace: "n", Name: "a"}, 400,
				"resource version"},
			// A name that the selector requires is a name.
			{"GET", in + "?fieldSelector=metadata.name=a", serve.Attributes{Verb: "list", Namespace: "n", Name: "a",
				FieldSelector: "metadata.name=a"}, 200, `"name":"a"`},
			{"GET", in + "?fieldSelector=metadata.name=a/b", serve.Attributes{Verb: "list", Namespace: "n",
				FieldSelector: "metadata.name=a/b"}, 200, `"items":[]`},
			{"GET", in + "?fieldSelector=metadata.name!=b", serve.Attributes{Verb: "list", Namespace: "n",
				FieldSelector: "metadata.name!=b"}, 200, `"name":"a"`},
			{"GET", in + "?fieldSelector=metadata.name=a&labelSelector=(", serve.Attributes{Verb: "list", Namespace: "n",
				FieldSelector: "metadata.name=a", LabelSelector: "("}, 400, "found '('"},
			{"GET", in + "?fieldSelector=metadata.name=a&limit=x", serve.Attributes{Verb: "list", Namespace: "n",
				FieldSelector: "metadata.name=a"}, 400, "strconv.ParseInt"},
			// The old form of a watch. The authorizer is not told of its selectors.
			{"GET", watch + "?resourceVersion=0&timeoutSeconds=1&labelSelector=even%3Dno", serve.Attributes{Verb: "watch",
				Namespace: "n"}, 200, `{"type":"ADDED","object":{"kind":"Widget"`},
			{"GET", "/apis/example.io/v1/watch/widgets?watch=false&resourceVersion=0&timeoutSeconds=1&fieldSelector=size=1",
				serve.Attributes{Verb: "watch"}, 200, `"ADDED"`},
			{"GET", watch + "/a?resourceVersion=0&timeoutSeconds=1", serve.Attributes{Verb: "watch", Namespace: "n", Name: "a"},
				200, `"name":"a"`},
			{"GET", watch + "/a?resourceVersion=0&timeoutSeconds=1&fieldSelector=size=1,metadata.name=a",
				serve.Attributes{Verb: "watch", Namespace: "n", Name: "a"}, 200, `"name":"a"`},
			{"GET", watch + "/a?fieldSelector=metadata.name=x", serve.Attributes{Verb: "watch", Namespace: "n", Name: "a"}, 400,
				"metadata.name"},
			{"GET", watch + "/a?fieldSelector=size=1", serve.Attributes{Verb: "watch", Namespace: "n", Name: "a"}, 400,
				"metadata.name"},
			{"GET", watch + "?limit=x", serve.Attributes{Verb: "watch", Namespace: "n"}, 400, "strconv.ParseInt"},
			{"GET", "/apis/example.io/v1/watch/widgets/a", serve.Attributes{Verb: "watch", Name: "a"}, 404, "NotFound"},
			{"POST", watch, serve.Attributes{Verb: "watch", Namespace: "n"}, 405, "MethodNotAllowed"},
			{"GET", "/apis/example.io/v1/proxy/namespaces/n/widgets/a/x", serve.Attributes{Verb: "proxy", Namespace: "n",
				Name: "a"}, 404, "NotFound"},
			{"OPTIONS", in, serve.Attributes{Namespace: "n"}, 405, "options"},
			{"get", in, serve.Attributes{Namespace: "n"}, 405, "MethodNotAllowed"},
			{"DELETE", in + "?labelSelector=x&fieldSelector=size=1", serve.Attributes{Verb: "deletecollection", Namespace: "n",
				LabelSelector: "x", FieldSelector: "size=1"}, 405, "MethodNotAllowed"},
			{"GET", in + "?watch=1&resourceVersion=0&timeoutSeconds=1&labelSelector=even%3Dno", serve.Attributes{Verb: "watch",
				Namespace: "n", LabelSelector: "even=no"}, 200, `"name":"a"`},
		} {
			asked = nil
			code, body := b.do(tt.method, tt.path, "")
			if code != tt.code || !strings.Contains(body, tt.text) || strings.Contains(body, `"name":"b"`) {
				t.Errorf("%s %s: %d %s, want %d with %q", tt.method, tt.path, code, body, tt.code, tt.text)
			}
			tt.want.Group, tt.want.Version, tt.want.Resource = "example.io", "v1", "widgets"
			tt.want.Path, tt.want.Query, _ = strings.Cut(tt.path, "?")
			rig.Same(t, tt.method+" "+tt.path, []serve.Attributes{tt.want}, asked)
		}
	})
}

// Subresources of a namespace are no collections; the authorizer is told of all that is asked.
func TestWhatIsNotServed(t *testing.T) {
	var asked serve.Attributes
	inBubble(t, serve.Options{Authorize: func(_ *http.Request, a serve.Attributes) error {
		asked = a
		return nil
	}}, func(b *bubble) {
		b.memory(lw.NewMemory[*Widget](), widgets)
		for path, want := range map[string]serve.Attributes{
			"/version":             {},
			"/api/v1/namespaces":   {Version: "v1", Resource: "namespaces"},
			"/api/v1/namespaces/n": {Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n"},
			"/api/v1/namespaces/n/status": {Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n",
				Subresource: "status"},
			"/api/v1/namespaces/n/finalize": {Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n",
				Subresource: "finalize"},
			"/api/v1/namespaces/n/pods":      {Version: "v1", Resource: "pods", Namespace: "n"},
			"/api/v1/namespaces/status/pods": {Version: "v1", Resource: "pods", Namespace: "status"},
			"/api/v1/namespaces/n/status/x": {Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n",
				Subresource: "status"},
			"/api/v1/namespaces/n/pods/x/log": {Version: "v1", Resource: "pods", Namespace: "n", Name: "x",
				Subresource: "log"},
			"/apis/a.io/v2/things/x/scale": {Group: "a.io", Version: "v2", Resource: "things", Name: "x",
				Subresource: "scale"},
			"/api/v1/namespaces/n/pods/x/log/more": {Version: "v1", Resource: "pods", Namespace: "n", Name: "x",
				Subresource: "log"},
			"/apis/example.io/v1/widgets/x/y/z": {Group: "example.io", Version: "v1", Resource: "widgets", Name: "x",
				Subresource: "y"},
			"/apis/example.io/v1/namespaces//widgets": {Group: "example.io", Version: "v1", Resource: "widgets"},
			"/apis/example.io/v1/watch":               {Group: "example.io", Version: "v1"},
			"/apis/example.io/v1/namespaces/n/widgets": {Group: "example.io", Version: "v1", Resource: "widgets",
				Namespace: "n"},
		} {
			code := http.StatusNotFound
			if path == "/version" || want.Resource == "widgets" && want.Namespace == "n" {
				code = http.StatusOK
			}
			b.answers(code, "", "GET", path, "")
			want.Path, want.Verb = asked.Path, asked.Verb
			rig.Same(t, path, want, asked)
			if asked.Path != path || asked.Verb == "" {
				t.Errorf("%s: asked for %+v", path, asked)
			}
		}
	})
}

// A write adds what a server adds: the namespace, a name, and the time of creation, which an update
// leaves as it is. A table shows the age.
func TestWriteAdds(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		stored(b, lw.NewMemory[*Note](), notes)
		in := "/apis/example.io/v1/namespaces/n/notes"
		write := func(method, path, body, contentType string) *Note {
			t.Helper()
			code, answer := b.do(method, path, body, "Content-Type", contentType)
			var n Note
			if err := json.Unmarshal([]byte(answer), &n); err != nil || code/100 != 2 {
				t.Fatalf("%s %s: %d %v %s", method, body, code, err, answer)
			}
			return &n
		}
		began := metav1.NewTime(time.Now()).Rfc3339Copy()
		made := write("POST", in, `{"metadata":{"name":"a","annotations":{"text":"x"}}}`, "application/json; charset=utf-8")
		if made.Namespace != "n" || !made.CreationTimestamp.Equal(&began) || made.UID == "" || made.ResourceVersion != "2" ||
			made.Annotations["text"] != "x" {
			t.Errorf("created: %+v", made)
		}
		time.Sleep(90 * time.Minute)
		changed := write("PUT", in+"/a", `{"metadata":{"name":"a","annotations":{"text":"y"}}}`, "")
		if !changed.CreationTimestamp.Equal(&began) || changed.UID != made.UID || changed.Annotations["text"] != "y" {
			t.Errorf("replaced: %+v", changed)
		}
		forged := write("POST", in, `{"metadata":{"name":"old","namespace":"n","creationTimestamp":"2001-02-03T04:05:06Z"}}`,
			"application/json")
		if forged.CreationTimestamp.Year() == 2001 {
			t.Errorf("the client has said when it was created: %+v", forged)
		}
		body, err := cbor.Marshal(map[string]any{"metadata": map[string]any{"generateName": "from-cbor-",
			"labels": map[string]any{"a": "b"}}})
		noErr(t, err)
		for range 2 {
			if n := write("POST", in, string(body), "application/cbor"); len(n.Name) != len("from-cbor-xxxxx") ||
				!strings.HasPrefix(n.Name, "from-cbor-") || n.Labels["a"] != "b" {
				t.Errorf("from CBOR: %+v", n)
			}
		}
		b.answers(http.StatusBadRequest, "", "POST", in, "{}", "Content-Type", "application/cbor")
		for _, include := range []string{"", "None", "Object"} {
			table := read[metav1.Table](b, in+"/a?includeObject="+include, "Accept", asTable)
			rig.Same(t, fmt.Sprintf("a table with %q", include), []any{"a", "90m"}, table.Rows[0].Cells)
		}
	})
}

// Status says what there is, and counts what was done for clients.
func TestStatus(t *testing.T) {
	served(t, serve.Options{}, widgets, func(b *bubble, m *lw.Memory[*Widget]) {
		w := b.watch("resourceVersion=3")
		other := b.watch("resourceVersion=0")
		put(t, m.Update, "a", 5)
		remove(t, m, "b")
		w.want(t, "MODIFIED a 4", "DELETED b 5")
		other.want(t, "ADDED a 2", "ADDED b 3", "MODIFIED a 4", "DELETED b 5")
		b.do("GET", path, "")
		got := b.h.Status()[0]
		if got.Bytes < 100 || got.Bytes > 1000 {
			t.Errorf("two events have %d bytes", got.Bytes)
		}
		got.Bytes = 0
		want := serve.Status{
			Group: "example.io", Version: "v1", Resource: "widgets", Synced: true, Objects: 1, ResourceVersion: 5, Oldest: 1,
			Events: 2, Watches: 2, Lists: 1, Opened: 2, Sent: 4, Encoded: 3,
		}
		want.Oldest = got.Oldest // of the Memory
		if diff := cmp.Diff(want, got); diff != "" || got.Oldest > 3 {
			t.Errorf("oldest %d (-want +got):\n%s", got.Oldest, diff)
		}
		m.Compact()
		b.watch("resourceVersion=2").want(t, "ERROR 410", "END")
		w.cancel()
		synctest.Wait()
		if s := b.h.Status()[0]; s.Expired != 1 || s.Oldest != 5 || s.Watches != 1 || s.Opened != 3 {
			t.Errorf("after a compaction: %+v", s)
		}
		other.cancel()
	}, newWidget(name("a"), 1), newWidget(name("b"), 2))
}

// A client with many slow lists takes no turns of others, and gives its own back.
func TestListsOfAClient(t *testing.T) {
	client := func(r *http.Request) string { return r.Header.Get("Client") }
	for _, limits := range []serve.Limits{{Lists: 20}, {Lists: 20, ListsPerClient: 2}, {Lists: 3, ListsPerClient: 2}} {
		inBubble(t, serve.Options{Client: client, Limits: limits}, func(b *bubble) {
			release := make(chan struct{})
			r := widgets
			r.Columns = []serve.Column[*Widget]{{Name: "Slow", Value: func(w *Widget) serve.Cell {
				if w.Name == "slow" {
					<-release
				}
				return serve.Text("")
			}}}
			b.memory(lw.NewMemory(newWidget(lw.Key{Namespace: "n", Name: "slow"}, 1),
				newWidget(lw.Key{Namespace: "fast", Name: "a"}, 1)), r)
			fast := "/apis/example.io/v1/namespaces/fast/widgets"
			var answers []<-chan reply
			for range 20 {
				answers = append(answers, b.begin(path, "Client", "greedy", "Accept", asTable))
			}
			for range 3 {
				b.answersAfter(0, http.StatusOK, "", fast, "Client", "modest")
			}
			b.answers(http.StatusTooManyRequests, "2 lists are in progress of this client", "GET", fast, "", "Client", "greedy")
			synctest.Wait()
			var answered []int // before the slow ones go on
			for _, answer := range answers {
				answered = append(answered, len(answer))
			}
			close(release)
			codes := map[int]int{}
			for i, answer := range answers {
				codes[(<-answer).code*10+answered[i]]++
			}
			rig.Same(t, fmt.Sprintf("%+v: answers, all but two at once", limits), map[int]int{4291: 18, 2000: 2}, codes)
			b.answers(http.StatusOK, "", "GET", path, "", "Client", "greedy")
		})
	}
}

// A request that is long costs nothing before it is refused. What clients send is not long.
func TestLongRequests(t *testing.T) {
	asked := 0
	opts := serve.Options{Authorize: func(*http.Request, serve.Attributes) error { asked++; return nil }}
	h := handleMemory(t, opts, lw.NewMemory(newWidget(name("a"), 1)), widgets).h
	terms := func(n int) string { return strings.Repeat("even!=x,", n) + "even" }
	for _, tt := range []struct {
		what, target, accept string
		code                 int
	}{
		{"accepts", path, strings.Repeat("a/b;q=1,", 130_000) + "*/*", http.StatusNotAcceptable},
		{"accepts", "/apis", strings.Repeat("a/b;q=1,", 130_000) + "*/*", http.StatusNotAcceptable},
		{"accepts", "/none", strings.Repeat("a/b;q=1,", 130_000) + "*/*", http.StatusNotFound},
		{"accepts some", path, strings.Repeat("a/b;q=1,", 100) + "*/*", http.StatusOK},
		{"labels", path + "?labelSelector=" + terms(60_000), "", http.StatusBadRequest},
		{"some labels", path + "?labelSelector=" + terms(1000), "", http.StatusOK},
		{"fields", path + "?watch=1&fieldSelector=" + strings.ReplaceAll(terms(60_000), "even", "size"), "",
			http.StatusBadRequest},
		{"options", path + "?" + strings.Repeat("a&", 500_000), "", http.StatusBadRequest},
		{"a token", path + "?continue=" + strings.Repeat("a", 20_000), "", http.StatusBadRequest},
		{"an old watch", "/apis/example.io/v1/watch/widgets?labelSelector=" + terms(60_000), "", http.StatusBadRequest},
	} {
		r, w := getOf(tt.target, tt.accept, ""), httptest.NewRecorder()
		asked = 0
		allocated := testing.AllocsPerRun(1, func() { w = httptest.NewRecorder(); h.ServeHTTP(w, r) })
		if w.Code != tt.code || w.Body.Len() > 30_000 || asked != 2 {
			t.Errorf("%s: %d, asked %d times, %.200s", tt.what, w.Code, asked, w.Body)
		}
		if w.Code != http.StatusOK && allocated > 500 {
			t.Errorf("%s: %v allocations", tt.what, allocated)
		}
	}
}

// A list that was refused holds no turn of its client.
func TestRefusedListsHoldNoTurn(t *testing.T) {
	client := func(r *http.Request) string { return r.Header.Get("Client") }
	inBubble(t, serve.Options{Client: client, Limits: serve.Limits{Lists: 1, ListsPerClient: 1}}, func(b *bubble) {
		release := make(chan struct{})
		r := widgets
		r.Columns = []serve.Column[*Widget]{{Name: "Slow",
			Value: func(*Widget) serve.Cell { <-release; return serve.Text("") }}}
		b.memory(lw.NewMemory(newWidget(name("a"), 1)), r)
		list := func(client string) <-chan reply { return b.begin(path, "Client", client, "Accept", asTable) }
		slow, first := list("slow"), list("other")
		time.Sleep(4 * time.Second)
		second := list("other") // waits for the turn of the first
		got := []int{(<-first).code}
		close(release)
		got = append(got, (<-slow).code, (<-second).code)
		rig.Same(t, "the first of the other, the slow one, the second", []int{429, 200, 200}, got)
	})
}
