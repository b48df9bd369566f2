package apiserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

var podsResource = schema.GroupResource{Resource: "pods"}

// TestRequestFaults requests a list that meets the fault, and then one that must not.
func TestRequestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		want  string
	}{
		{"401", Fault{Do: Fail(apierrors.NewUnauthorized("who?"))}, "401 Unauthorized: who?"},
		{"403", Fault{Verb: List, Do: Fail(apierrors.NewForbidden(podsResource, "", errors.New("no")))},
			"403 Forbidden: pods is forbidden: no"},
		{"404", Fault{Resource: "pods", Do: Reply(404, "", "404 page not found\n")}, "404 404 page not found\n"},
		{"410", Fault{Do: Fail(apierrors.NewResourceExpired("too old"))}, "410 Expired: too old"},
		{"429", Fault{Do: Fail(apierrors.NewTooManyRequests("later", 7))}, "429 TooManyRequests: later"},
		{"500", Fault{Do: Fail(errors.New("oops"))}, "500 InternalError: Internal error occurred: oops"},
		{"503", Fault{Do: Fail(apierrors.NewServiceUnavailable("down"))}, "503 ServiceUnavailable: down"},
		{"HTML", Fault{Do: Reply(200, "text/html", "<html>login</html>")}, "200 <html>login</html>"},
		{"reset", Fault{Do: Reset}, "error"},
		// A replica does not answer consistent reads.
		{"lag", Fault{Do: Lag(1)}, "200 rv=4 a@2 b@3 c@4"},
		{"lag, any version", Fault{Do: All(AnyVersion, Lag(1))}, "200 rv=3 a@2 b@3"},
		{"truncated", Fault{Do: At(2, Cut)}, "200 rv= malformed"},
		{"broken", Fault{Do: At(1, Break)}, "200 rv= broken"},
		{"broken before the first", Fault{Do: At(Start, Break)}, "200 rv= broken"},
		{"duplicate", Fault{Do: At(1, Replay(0))}, "200 rv=4 a@2 b@3 b@3 c@4"},
		{"dropped", Fault{Do: At(1, Drop)}, "200 rv=4 a@2 c@4"},
		{"null", Fault{Do: At(1, Set("", "null"))}, "200 rv=4 a@2 @ c@4"},
		{"no name", Fault{Do: At(1, Set("metadata.name", ""))}, "200 rv=4 a@2 @3 c@4"},
		{"foreign item", Fault{Do: At(0, Insert(Unit{Object: []byte(`{"metadata":{"name":"x","resourceVersion":"9"}}`)}))},
			"200 rv=4 x@9 a@2 b@3 c@4"},
		{"wrong field", Fault{Do: At(1, Set("metadata.labels", "7"))}, "200 rv=4 a@2 b@3 c@4 malformed"},
		{"no version", Fault{Do: ListMeta(func(m *metav1.ListMeta) { m.ResourceVersion = "" })}, "200 rv= a@2 b@3 c@4"},
		{"malformed", Fault{Do: At(1, Frame("{"))}, "200 rv= malformed"},
	} {
		subtest(t, c.name, func(b *bench) {
			b.create("a", "b", "c")
			// A connection of its own, because net/http repeats a request on a used one that is
			// reset.
			b.client.Transport.(*http.Transport).DisableKeepAlives = true
			b.Inject(c.fault)
			rig.Same(b, "with the fault", c.want, b.list(""))
			rig.Same(b, "after it", "200 rv=4 a@2 b@3 c@4", b.list(""))
			rig.Same(b, "faults that are left", 0, b.Armed())
			rig.Same(b, "lists", 2, b.Count(List))
		})
	}
}

// A reply is what it was given: the code, the body, and the content type, which is text if it is
// not said. The headers of other effects stay.
func TestReply(t *testing.T) {
	for _, c := range []struct {
		code             int
		contentType, are string
	}{
		{200, "", "text/plain; charset=utf-8"},
		{502, "", "text/plain; charset=utf-8"},
		{200, "text/html", "text/html"},
		{404, "application/json", "application/json"},
	} {
		subtest(t, c.are, func(b *bench) {
			b.Inject(Fault{Do: All(Header("Retry-After", "3"), Reply(c.code, c.contentType, "a body"))})
			resp := b.must(b.do(""))
			body, err := io.ReadAll(resp.Body)
			rig.OK(b, errors.Join(err, resp.Body.Close()))
			got := []any{resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Retry-After"), string(body)}
			rig.Same(b, "the answer", []any{c.code, c.are, "3", "a body"}, got)
		})
	}
}

// A replica that lags answers what a cache answers, with its own version: a list of any version,
// whose limit it ignores, and one not older than a version that it has reached. The rest is
// answered as by a server that does not lag.
func TestListsOfALaggingReplica(t *testing.T) {
	for _, c := range []struct {
		query string
		lag   uint64
		want  string
	}{
		{"resourceVersion=0", 1, "200 rv=3 a@2 b@3"},
		{"resourceVersion=0&limit=1", 1, "200 rv=3 a@2 b@3"},
		{"resourceVersion=0&resourceVersionMatch=NotOlderThan", 1, "200 rv=3 a@2 b@3"},
		{"resourceVersion=2", 1, "200 rv=3 a@2 b@3"},
		{"resourceVersion=3", 1, "200 rv=3 a@2 b@3"},
		{"resourceVersion=3&resourceVersionMatch=NotOlderThan", 1, "200 rv=3 a@2 b@3"},
		{"resourceVersion=4", 1, "504"},
		{"resourceVersion=4&resourceVersionMatch=NotOlderThan", 1, "504"},
		{"resourceVersion=4&resourceVersionMatch=Exact", 1, "200 rv=4 a@2 b@3 c@4"},
		{"resourceVersion=2&resourceVersionMatch=Exact", 1, "200 rv=2 a@2"},
		{"limit=1", 1, "200 rv=4 a@2"},
		{"", 1, "200 rv=4 a@2 b@3 c@4"},
		{"resourceVersion=x", 1, "400"},
		{"resourceVersion=0", 3, "200 rv=1"},
		{"resourceVersion=0", 100, "200 rv=1"},
		{"resourceVersion=2", 100, "504"},
	} {
		subtest(t, c.query, func(b *bench) {
			b.create("a", "b", "c")
			b.Inject(Fault{Do: Lag(c.lag)})
			got := b.list(c.query)
			if len(c.want) == 3 {
				got = got[:3]
			}
			rig.Same(b, "the list", c.want, got)
			rig.Same(b, "faults that are left", 0, b.Armed())
		})
	}
}

// TestStreamFaults opens a streamed list of a, b and c that meets the fault, and then creates d.
func TestStreamFaults(t *testing.T) {
	const streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	bookmark := func(b Unit) bool { return b.Type == watch.Bookmark }
	for _, c := range []struct {
		name   string
		effect Effect
		want   []string
	}{
		{"422", Fail(apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)),
			[]string{`422 Invalid: ListOptions "" is invalid`}},
		{"ignored", IgnoreStream, []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "ADDED d@5"}},
		{"cut at once", At(Start, Cut), []string{"EOF"}},
		{"cut", At(1, Cut), []string{"ADDED a@2", "EOF"}},
		{"broken", At(1, Break), []string{"ADDED a@2", "half", "broken"}},
		{"broken between", At(1, Drop, Break), []string{"ADDED a@2", "broken"}},
		{"half-open", At(1, Stall), []string{"ADDED a@2"}},
		{"410 at once", At(Start, Error(apierrors.NewResourceExpired("old"))), []string{"ERROR 410 old", "EOF"}},
		{"500 later", At(3, Error(errors.New("oops"))),
			[]string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "ERROR 500 Internal error occurred: oops", "EOF"}},
		{"no end", On(IsEnd, Drop), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "ADDED d@5"}},
		{"late end", On(IsEnd, Hold(1)), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "ADDED d@5", "BOOKMARK @5 end"}},
		{"old bookmark", On(bookmark, Set("metadata.resourceVersion", `"1"`)),
			[]string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @1 end", "ADDED d@5"}},
		{"foreign bookmark", At(2, Insert(Unit{Type: watch.Bookmark, Version: 99})),
			[]string{"ADDED a@2", "ADDED b@3", "BOOKMARK @99", "ADDED c@4", "BOOKMARK @4 end", "ADDED d@5"}},
		{"duplicate", At(4, Replay(0)), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end", "ADDED d@5",
			"ADDED d@5"}},
		{"replayed", At(4, Replay(3)), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end", "ADDED d@5",
			"ADDED b@3"}},
		{"dropped", At(4, Drop), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end"}},
		{"unknown type", At(0, Type("WEIRD"), Insert(), Wait(time.Nanosecond)), []string{"WEIRD a@2", "ADDED b@3",
			"ADDED c@4", "BOOKMARK @4 end", "ADDED d@5"}},
		{"no version", At(4, Set("metadata.resourceVersion", "")),
			[]string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end", "ADDED d@"}},
		{"another kind", At(4, Set("kind", `"Table"`)),
			[]string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end", "ADDED d@5 kind=Table"}},
		{"null", At(4, Set("", "null")), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end", "ADDED null"}},
		{"wrong field", At(4, Set("metadata", "[]")), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end",
			"ADDED wrong"}},
		{"malformed", At(4, Frame("{]\n")), []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end", "malformed"}},
		{"lag", All(AnyVersion, Lag(2)), []string{"ADDED a@2", "BOOKMARK @2 end", "ADDED b@3", "ADDED c@4", "ADDED d@5"}},
		{"lag behind the version", All(Rewrite(func(r *Request) { r.Options.ResourceVersion = "4" }), Lag(2)),
			[]string{"ERROR 504 Timeout: Too large resource version: 4, current: 2", "EOF"}},
	} {
		subtest(t, c.name, func(b *bench) {
			b.create("a", "b", "c")
			b.Inject(Fault{Verb: Stream, Do: c.effect})
			s := b.watch(streamed)
			time.Sleep(time.Millisecond)
			b.create("d")
			rig.Same(b, "stream", c.want, s.all())
			s.close()
		})
	}
}

func TestFaultsTakeTurns(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Inject(Fault{Verb: Watch, Times: -1, Do: At(Start, Cut)})
		b.Inject(Fault{Verb: List, Skip: 1, Times: 2, Do: Fail(apierrors.NewTooManyRequests("later", 3))})
		b.Inject(Fault{Match: func(r Request) bool { return r.Options.Limit == 5 }, Do: Reply(200, "", "five")})
		var got []string
		for _, query := range []string{"", "", "limit=5", "limit=5", ""} {
			resp := b.must(b.do(query))
			_ = resp.Body.Close()
			got = append(got, resp.Status+resp.Header.Get("Retry-After"))
		}
		want := []string{"200 OK", "429 Too Many Requests3", "429 Too Many Requests3", "200 OK", "200 OK"}
		rig.Same(b, "lists", want, got)
		rig.Same(b, "faults that are left: the watches'", 1, b.Armed())
		for range 2 {
			rig.Same(b, "watch", []string{"EOF"}, b.watch("").all())
		}
		b.Clear()
		s := b.watch("")
		rig.Same(b, "after Clear", nil, s.all())
		s.close()
	})
}

func TestHangAndDelay(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Inject(Fault{Do: Delay(3 * time.Second)})
		start := time.Now()
		rig.Same(b, "list", "200 rv=1", b.list(""))
		rig.Same(b, "delay", 3*time.Second, time.Since(start))
		b.Inject(Fault{Do: Hang})
		ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
		defer cancel()
		req := rig.Must[*http.Request](b)(http.NewRequestWithContext(ctx, http.MethodGet, b.URL("pods", ""), nil))
		if _, err := b.client.Do(req); !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("got %v, want the deadline", err)
		}
		b.Inject(Fault{Do: At(Start, Stall)})
		resp := b.must(b.client.Do(req.WithContext(b.Context())))
		b.client.Timeout = time.Hour
		time.AfterFunc(time.Hour, func() { _ = resp.Body.Close() })
		if page := b.page(resp); page.end != " broken" || time.Since(start) < 2*time.Hour {
			b.Errorf("a list that hangs half-way: got %q after %v", page.text, time.Since(start))
		}
		rig.Same(b, "the code in the log for a request without an answer", 0, b.Requests(List)[1].Code)
	})
}

func TestInterrupt(t *testing.T) {
	for _, c := range []struct {
		name string
		do   []UnitEffect
		want []string
	}{
		{"cut", []UnitEffect{Cut}, []string{"ADDED b@3", "EOF"}},
		{"broken", []UnitEffect{Break}, []string{"ADDED b@3", "broken"}},
		{"stalled", []UnitEffect{Stall}, []string{"ADDED b@3"}},
		{"error", []UnitEffect{Error(apierrors.NewResourceExpired("old"))}, []string{"ADDED b@3", "ERROR 410 old", "EOF"}},
		{"repeated", []UnitEffect{Replay(0)}, []string{"ADDED b@3", "ADDED b@3", "ADDED c@4"}},
		{"too far back", []UnitEffect{Replay(7)}, []string{"ADDED b@3", "ADDED c@4"}},
		{"nothing to drop", []UnitEffect{Drop, Set("kind", "1"), Type("X"), Hold(1), Frame("x")},
			[]string{"ADDED b@3", "ADDED c@4"}},
		{"bookmark, then cut", []UnitEffect{Insert(Unit{Type: watch.Bookmark, Version: 2}), Cut},
			[]string{"ADDED b@3", "BOOKMARK @2", "EOF"}},
	} {
		subtest(t, c.name, func(b *bench) {
			b.create("a", "b")
			s, other := b.watch("resourceVersion=2"), b.watch("resourceVersion=2&timeoutSeconds=900")
			s.all()
			n := b.Interrupt(func(r Request) bool { return r.Options.TimeoutSeconds == nil }, c.do...)
			rig.Same(b, "interrupted streams", 1, n)
			s.all()
			b.create("c")
			rig.Same(b, "events", c.want, s.all())
			rig.Same(b, "the other stream", []string{"ADDED b@3", "ADDED c@4"}, other.all())
			s.close()
			other.close()
			rig.Same(b, "streams that are still open", 0, b.Interrupt(nil, Cut))
		})
	}
}

func TestDownAndRewind(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.create("a", "b")
		s := b.watch("resourceVersion=3")
		s.all()
		b.SetDown(true)
		rig.Same(b, "open watch", []string{"broken"}, s.all())
		if _, err := b.do(""); !errors.Is(err, syscall.ECONNREFUSED) {
			b.Errorf("got %v, want a refused connection", err)
		}
		rig.OK(b, b.Line.Rewind(2))
		b.SetDown(false)
		rig.Same(b, "after the restore", "200 rv=2 a@2", b.list(""))
		s = b.watch("resourceVersion=2")
		s.all()
		b.SetDown(false) // it is up: nothing breaks
		rig.Same(b, "open watch of a server that is up", []string(nil), s.all())
		b.Line.Wipe()
		rig.Same(b, "watch", []string{"EOF"}, s.all())
		rig.Same(b, "after the wipe", "200 rv=1", b.list(""))
	})
}

// In memory the connection of an answer that may stop half-way is not used again, so a client's
// net/http does not read on after the body is closed. On a port it is.
func TestConnections(t *testing.T) {
	get := func(b *bench, url string) bool {
		resp := b.must(b.client.Get(url))
		b.body(resp)
		return resp.Close
	}
	subtest(t, "in memory", func(b *bench) {
		rig.Same(b, "a list", false, get(b, b.URL("pods", "")))
		rig.Same(b, "a watch", true, get(b, b.URL("pods", "")+"?watch=1&timeoutSeconds=1"))
		b.Inject(Fault{Do: At(Start, Stall)})
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		req := rig.Must[*http.Request](b)(http.NewRequestWithContext(ctx, http.MethodGet, b.URL("pods", ""), nil))
		resp := b.must(b.client.Do(req))
		rig.Same(b, "a list that stops", true, resp.Close)
		rig.OK(b, resp.Body.Close())
	})
	srv := New(Options{Resources: resources})
	url, stop, err := srv.Start("127.0.0.1:0")
	rig.OK(t, err)
	defer stop()
	resp := rig.Must[*http.Response](t)(http.Get(url + srv.Collection("pods").URL("ns") + "?watch=1&timeoutSeconds=1"))
	rig.Same(t, "a watch on a port", false, resp.Close)
	rig.OK(t, resp.Body.Close())
}

// TestStart is the same server on a real port, where it must not be in a bubble.
func TestStart(t *testing.T) {
	srv := New(Options{Resources: resources})
	url, stop, err := srv.Start("127.0.0.1:0")
	rig.OK(t, err)
	pods := srv.Collection("pods")
	rig.Must[Object](t)(pods.Create(pod("a")))
	resp := rig.Must[*http.Response](t)(http.Get(url + pods.URL("ns") + "?watch=1"))
	first := make([]byte, len(`{"type":"ADDED","object":`))
	if _, err := io.ReadFull(resp.Body, first); err != nil || !strings.HasPrefix(string(first), `{"type":"ADDED"`) {
		t.Errorf("got %q, %v, want an event", first, err)
	}
	srv.Inject(Fault{Verb: Get, Times: -1, Do: Reset})
	if _, err := http.Get(url + pods.URL("ns") + "/a"); err == nil {
		t.Error("no error of a connection that is reset")
	}
	stop()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the watch ended cleanly, want a broken connection")
	}
	_ = resp.Body.Close()
	if _, err := http.Get(url + pods.URL("ns")); err == nil {
		t.Error("the server still answers after stop")
	}
	http.DefaultClient.CloseIdleConnections()
	if _, _, err := srv.Start("no address"); err == nil {
		t.Error("no error of an address that is none")
	}
}

func TestLog(t *testing.T) {
	const agent = "Go-http-client/1.1"
	inBubble(t, func(b *bench) {
		b.create("a")
		b.list("limit=5&labelSelector=app")
		resp := b.must(b.request(http.MethodGet, b.URL("pods", "ns")+"/b", nil, "Accept", "application/json"))
		_ = resp.Body.Close()
		s := b.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=7")
		s.all()
		now, yes, seven := time.Now(), true, int64(7)
		want := []Request{
			{Verb: List, Resource: "pods", Time: now, Code: 200, UserAgent: agent, Query: "limit=5&labelSelector=app",
				Options: metav1.ListOptions{Limit: 5, LabelSelector: "app"}},
			{Verb: Get, Resource: "pods", Namespace: "ns", Name: "b", Time: now, Code: 404, Accept: "application/json",
				UserAgent: agent},
			{Verb: Stream, Resource: "pods", Time: now, Code: 200, UserAgent: agent,
				Query: "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=7",
				Options: metav1.ListOptions{Watch: true, SendInitialEvents: &yes, TimeoutSeconds: &seven,
					ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}},
		}
		rig.Same(b, "log", want, b.Requests())
		rig.Same(b, "gets", want[1:2], b.Requests(Get))
		s.close()
		synctest.Wait()
	})
}
