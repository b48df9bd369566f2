package serve_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

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
		r := httptest.NewRequest("GET", query, nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		h.ServeHTTP(w, r)
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
	asked := []struct{ query, accept string }{{path, "application/cbor"}, {path, "application/json" + asPartialList}, {path, proto + asPartialList}, {path, asTable}}
	for _, query := range []string{
		path, path + "?resourceVersion=0", path + "?labelSelector=even%3Dyes", path + "?fieldSelector=metadata.namespace%3Da",
		path + "?fieldSelector=size%3D1", path + "?limit=3", path + "?limit=5", path + "?limit=6", path + "?limit=3&continue=" + token,
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
			if says := w.Result().Header.Get("Content-Length"); err != nil || !bytes.Equal(got, want) || says != length && (says != "" || a.accept != asTable) {
				t.Errorf("%s as %s: %v: %d bytes of %s compressed, want %d: %.200q", a.query, a.accept, err, len(got), length, len(want), body[:10])
			}
		})
	}
	all.Wait()
}
