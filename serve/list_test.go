package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// While the informer's server does not answer, whoever asks for the newest state waits three
// seconds, and then gets 504 or is sent there. Meanwhile he takes no turn from those who ask for
// what is here.
func TestSilentServer(t *testing.T) {
	for want, forward := range map[int]http.Handler{http.StatusGatewayTimeout: nil, http.StatusTeapot: teapot} {
		inBubble(t, serve.Options{Forward: forward, Limits: serve.Limits{Lists: 1}}, func(b *bubble) {
			src := &late{valve: newValve(lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 1)))}
			b.relay(src, widgets)
			token := tokenOf(b.answers(http.StatusOK, "", "GET", path+"?limit=1", ""))
			inconsistent := url.QueryEscape((listopts.Token{Version: listopts.Inconsistent, Start: "n/a"}).Encode())
			src.silent.Store(true)
			answers := map[string]<-chan reply{}
			for _, query := range []string{
				path, path + "?limit=1", path + "?continue=" + inconsistent, oneWidget,
				path + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
			} {
				answers[query] = b.begin(query)
			}
			for _, query := range []string{
				"resourceVersion=0", "resourceVersion=3", "resourceVersion=3&resourceVersionMatch=Exact", "continue=" + token,
			} {
				b.answersAfter(0, http.StatusOK, "", path+"?"+query)
			}
			b.answersAfter(0, http.StatusBadRequest, "", path+"?labelSelector=!") // what is wrong is so at once
			for query, answer := range answers {
				got := <-answer
				said := forward != nil || strings.Contains(got.body, "has not answered in 3s")
				if got.code != want || got.took != 3*time.Second || !said {
					t.Errorf("%s: %+v, want %d", query, got, want)
				}
			}
		})
	}
}

// A lateSource has come to version, which its watches tell when others have ended without.
type lateSource struct {
	lw.Source[*Widget]
	version string
	silent  int
}

func (s *lateSource) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*Widget, error) error) (metav1.ListMeta, error) {
	meta, err := s.Source.List(ctx, opts, yield)
	if s.version != "" {
		meta.ResourceVersion = s.version
	}
	return meta, err
}

func (s *lateSource) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[*Widget]) error) error {
	if s.version == "" {
		return s.Source.Watch(ctx, opts, yield)
	}
	if s.silent--; s.silent < 0 {
		if err := yield(lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: s.version}); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(*opts.TimeoutSeconds) * time.Second):
	}
	return nil
}

// A server that has answered is waited for longer than one that has not: its watch is late.
func TestLateServer(t *testing.T) {
	for silent, want := range map[int]int{0: http.StatusOK, 1: http.StatusOK, 2: http.StatusOK,
		9: http.StatusGatewayTimeout} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			src := &lateSource{Source: lw.NewMemory(newWidget(name("a"), 1))}
			b.relay(src, widgets)
			src.version, src.silent = "7", silent
			got := <-b.begin(path)
			behind := strings.Contains(got.body, "its watch has not brought it in 9s")
			if got.code != want || got.took > 9*time.Second || silent > 1 && got.took <= 3*time.Second ||
				behind != (want == 504) {
				t.Errorf("%d silent watches: %+v", silent, got)
			}
		})
	}
}

// So is one that is asked whether it has come to a version since it was restored.
func TestSilentServerAfterARestore(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		_, src, before := b.behindBefore()
		src.silent.Store(true)
		for _, query := range fromVersion {
			b.answersAfter(3*time.Second, http.StatusGatewayTimeout, "", path+query+before)
		}
	})
}

// Only who goes on with a list whose state is gone is told how to go on.
func TestExpiredLists(t *testing.T) {
	served(t, serve.Options{}, widgets, func(b *bubble, m *lw.Memory[*Widget]) {
		token := tokenOf(b.answers(http.StatusOK, "", "GET", path+"?limit=1", ""))
		before := m.ResourceVersion()
		put(t, m.Create, "c", 1)
		synctest.Wait()
		m.Compact()
		for query, want := range map[string]bool{"resourceVersionMatch=Exact&resourceVersion=" + before: false, "continue=" +
			token: true} {
			code, body := b.do("GET", path+"?"+query, "")
			if code != http.StatusGone || strings.Contains(body, `"continue":"`) != want {
				t.Errorf("%s: %d %s", query, code, body)
			}
		}
	}, newWidget(name("a"), 1), newWidget(name("b"), 1))
}

// A connection on which a list was answered has no deadline after it.
func TestAfterAList(t *testing.T) {
	served(t, serve.Options{}, widgets, func(b *bubble, _ *lw.Memory[*Widget]) {
		for _, accept := range []string{"application/json", asTable} {
			b.do("GET", path, "", "Accept", accept)
			time.Sleep(time.Minute) // twice Limits.WriteTimeout
			conns := 0
			ctx := httptrace.WithClientTrace(b.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { conns++ }})
			resp := b.send(ctx, "GET", oneWidget, "")
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || conns != 1 {
				t.Errorf("%s: %s on %d connections", accept, resp.Status, conns)
			}
		}
	}, newWidget(name("a"), 1))
}

// A together is the answer to one of several requests that are to be answered at once: all of them
// have come as far as their headers before any goes on.
type together struct {
	*httptest.ResponseRecorder
	once sync.Once
	all  *sync.WaitGroup
}

func (w *together) Header() http.Header {
	w.once.Do(func() { w.all.Done(); w.all.Wait() })
	return w.ResponseRecorder.Header()
}

// Lists that are compressed at once may share their bytes if they are the same, and only then:
// whoever asks for a namespace, for what a selector selects, for a page, for an older state or in
// another form never gets what another one has asked for.
func TestCompressedAtOnce(t *testing.T) {
	m := lw.NewMemory[*Widget]()
	random := rand.New(rand.NewPCG(1, 2))
	h := handleMemory(t, serve.Options{}, m, widgets).h
	var long [3]string
	for i := range long {
		var text strings.Builder
		for text.Len() < 150<<10 {
			fmt.Fprintf(&text, "%016x", random.Uint64())
		}
		long[i] = text.String()
	}
	for n := range 6 {
		w := newWidget(lw.Key{Namespace: string(rune('a' + n/3)), Name: strconv.Itoa(n)}, n)
		w.Labels["long"] = long[n%3]
		store(t, m.Create, w)
	}
	do := func(w http.ResponseWriter, query, accept, encoding string) {
		h.ServeHTTP(w, getOf(query, accept, encoding))
	}
	plain := func(query, accept string) []byte {
		t.Helper()
		w := httptest.NewRecorder()
		if do(w, query, accept, "identity"); w.Code != http.StatusOK || w.Body.Len() < 128<<10 {
			t.Fatalf("%s: %d, %d bytes", query, w.Code, w.Body.Len())
		}
		return w.Body.Bytes()
	}
	token := tokenOf(string(plain(path+"?limit=3", "application/json")))
	asked := []struct{ query, accept string }{{path, "application/cbor"}, {path, "application/json" + asPartialList},
		{path, proto + asPartialList}, {path, asTable}}
	for _, query := range []string{
		path, path + "?resourceVersion=0", path + "?labelSelector=even%3Dyes", path + "?fieldSelector=metadata.namespace%3Da",
		path + "?fieldSelector=size%3D1", path + "?limit=3", path + "?limit=5", path + "?limit=6",
		path + "?limit=3&continue=" + token,
		"/apis/example.io/v1/namespaces/a/widgets", "/apis/example.io/v1/namespaces/b/widgets",
		path + "?resourceVersionMatch=Exact&resourceVersion=5",
	} {
		asked = append(asked, struct{ query, accept string }{query, "application/json"})
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * len(asked))) // they are compressed at once also on one processor
	var all, ready sync.WaitGroup
	ready.Add(len(asked))
	for _, a := range asked {
		want := plain(a.query, a.accept)
		all.Go(func() {
			w := &together{ResponseRecorder: httptest.NewRecorder(), all: &ready}
			do(w, a.query, a.accept, "gzip")
			length, body := strconv.Itoa(w.Body.Len()), w.Body.Bytes()
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Errorf("%s: %d %v: %v", a.query, w.Code, err, w.Result().Header)
				return
			}
			got, err := io.ReadAll(z)
			if says := w.Result().Header.Get("Content-Length"); err != nil || !bytes.Equal(got, want) || says != length &&
				(says != "" || a.accept != asTable) {
				t.Errorf("%s as %s: %v: %d bytes of %s compressed, want %d: %.200q", a.query, a.accept, err, len(got), length,
					len(want), body[:10])
			}
		})
	}
	all.Wait()
}

// A lazy is a client without deadlines that takes all, or fails, when begin is closed.
type lazy struct {
	*httptest.ResponseRecorder
	begin chan struct{}
	err   error
}

func (l *lazy) Write(data []byte) (int, error) {
	if <-l.begin; l.err != nil {
		return 0, l.err
	}
	return l.ResponseRecorder.Write(data)
}

// getOf is a GET that a Handler is given without a server.
func getOf(target, accept, encoding string) *http.Request {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	return r
}

// sized returns objects with the names and sizes from 0 to n.
func sized(n int) (all []*Widget) {
	for i := range n {
		all = append(all, newWidget(name(numbered(i)), i))
	}
	return all
}

// The rows of a table are made as the client takes them, and none is missing.
func TestTableIsStreamed(t *testing.T) {
	const objects, size = 2000, 1000
	for _, encoding := range []string{"", "gzip"} {
		for _, include := range []string{"None", "Metadata", "Object"} {
			synctest.Test(t, func(t *testing.T) {
				var made atomic.Int64
				r := widgets
				r.Columns = []serve.Column[*Widget]{{Name: "Long", Value: func(w *Widget) serve.Cell {
					made.Add(1)
					return serve.Text(strings.Repeat("x", size) + w.Name)
				}}}
				h := handleMemory(t, serve.Options{}, lw.NewMemory(sized(objects)...), r).h
				w := &lazy{httptest.NewRecorder(), make(chan struct{}), nil}
				go h.ServeHTTP(w, getOf(path+"?includeObject="+include, asTable, encoding))
				synctest.Wait()
				// What is compressed comes to the client later.
				if n := made.Load(); n == 0 || n > 300 && encoding == "" {
					t.Errorf("%s: %d rows are made for a client that takes nothing", include, n)
				}
				close(w.begin)
				synctest.Wait()
				if w.Header().Get("Content-Encoding") != encoding || w.Header().Get("Content-Length") != "" {
					t.Errorf("the headers %v", w.Header())
				}
				data := w.Body.Bytes()
				if encoding != "" {
					data = unzipped(t, w.Body)
				}
				var table metav1.Table
				if err := json.Unmarshal(data, &table); err != nil || made.Load() != objects {
					t.Fatalf("%v, %d rows were made", err, made.Load())
				}
				var got, want []string
				for _, row := range table.Rows {
					got = append(got, row.Cells[0].(string)+" "+strings.TrimLeft(row.Cells[1].(string), "x"))
				}
				for n := range objects {
					want = append(want, numbered(n)+" "+strings.TrimLeft(numbered(n), "x"))
				}
				rig.Same(t, "rows", want, got)
				rig.Same(t, "lists", 1, h.Status()[0].Lists)
			})
		}
	}
}

// A row that cannot be made is an error of the list as long as nothing is sent. Later it breaks the
// answer off, and the program is told.
func TestTableFails(t *testing.T) {
	for _, objects := range []int{3, 3000} {
		told := 0
		r := widgets
		r.Columns = []serve.Column[*Widget]{{Name: "Size", Value: func(w *Widget) serve.Cell {
			if w.Size == objects-1 {
				panic("no cell")
			}
			return serve.Text(strings.Repeat("x", 100))
		}}}
		inBubble(t, serve.Options{OnError: func(err error) {
			if strings.Contains(err.Error(), "no cell") {
				told++
			}
		}}, func(b *bubble) {
			b.memory(lw.NewMemory(sized(objects)...), r)
			resp := b.send(b.ctx, "GET", path, "", "Accept", asTable)
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if objects == 3 && (resp.StatusCode != http.StatusInternalServerError || err != nil ||
				!strings.Contains(string(data), "no cell")) {
				t.Errorf("%d objects: %s %v %s", objects, resp.Status, err, data)
			}
			if objects != 3 && (resp.StatusCode != http.StatusOK || err == nil || told != 1) {
				t.Errorf("%d objects: %s %v, told %d times", objects, resp.Status, err, told)
			}
		})
	}
}
