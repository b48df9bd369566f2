package serve_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A bubble is a Handler and a client of it, over connections in memory.
type bubble struct {
	t      *testing.T
	h      *serve.Handler
	client *http.Client
	ctx    context.Context
}

// inBubble runs test with a Handler in a synctest bubble.
func inBubble(t *testing.T, opts serve.Options, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if opts.Authorize == nil {
			opts.Authorize = serve.AllowAll
		}
		opts.Logger = quiet
		bubbleOf(t, t.Context(), opts, test)
	})
}

// served is inBubble with a Memory of these objects, which is served.
func served(
	t *testing.T, opts serve.Options, r serve.Resource[*Widget], test func(*bubble, *lw.Memory[*Widget]), objs ...*Widget,
) {
	t.Helper()
	inBubble(t, opts, func(b *bubble) { test(b, b.memory(lw.NewMemory(objs...), r)) })
}

// beside runs another Handler than that of b, and test with a bubble of it.
func (b *bubble) beside(test func(r *bubble)) {
	bubbleOf(b.t, b.ctx, serve.Options{Authorize: serve.AllowAll, Logger: quiet}, test)
}

func bubbleOf(t *testing.T, ctx context.Context, opts serve.Options, test func(b *bubble)) {
	h := serve.New(&opts)
	front := apiserver.New(apiserver.Options{Wrap: func(http.Handler) http.Handler { return h }})
	ctx, cancel := context.WithCancel(ctx)
	b := &bubble{t, h, front.Client(), ctx}
	defer func() { // also after a failure
		cancel()
		synctest.Wait()
		b.client.CloseIdleConnections()
		front.Close()
		synctest.Wait()
	}()
	test(b)
}

// serve runs a Serve until the end of the test, and waits until it has synced.
func (b *bubble) serve(run func(ctx context.Context) error) {
	b.t.Helper()
	go func() {
		err := run(b.ctx)
		if !errors.Is(err, context.Canceled) && !errors.Is(err, lw.ErrStopped) && !errors.Is(err, http.ErrServerClosed) {
			b.t.Errorf("Serve ended with %v", err)
		}
	}()
	synctest.Wait()
}

// memory serves m, and returns it.
func (b *bubble) memory(m *lw.Memory[*Widget], r serve.Resource[*Widget]) *lw.Memory[*Widget] {
	b.serve(func(ctx context.Context) error { return serve.ServeMemory(ctx, b.h, m, r) })
	return m
}

// stored serves any store, and returns it.
func stored[T lw.Object, S lw.Writable[T]](b *bubble, m S, r serve.Resource[T]) S {
	b.t.Helper()
	b.serve(func(ctx context.Context) error { return serve.ServeStore(ctx, b.h, m, r) })
	return m
}

// informer runs an informer of a source.
func informer[T lw.Object](b *bubble, src lw.Source[T]) *lw.Informer[T] {
	inf := lw.NewInformer(src, &lw.Options{Logger: quiet})
	go func() { _ = inf.Run(b.ctx) }()
	return inf
}

// collected serves a collection.
func collected[T lw.Object](b *bubble, c lw.Collection[T], r serve.Resource[T]) {
	b.t.Helper()
	b.serve(func(ctx context.Context) error { return serve.Serve(ctx, b.h, c, r) })
}

// relay serves an informer of a source.
func (b *bubble) relay(src lw.Source[*Widget], r serve.Resource[*Widget]) {
	b.t.Helper()
	collected(b, informer(b, src), r)
}

// relayed serves an informer of m, which it returns.
func (b *bubble) relayed(m *lw.Memory[*Widget]) *lw.Memory[*Widget] {
	b.relay(m, widgets)
	return m
}

// derived returns a collection of what change makes of the objects of m.
func derived[T lw.Object](b *bubble, m *lw.Memory[T], change func(T) T) lw.Collection[T] {
	g := lw.NewGraph(&lw.GraphOptions{Logger: quiet})
	c := lw.Derive(g, informer(b, m), change)
	go func() { _ = g.Run(b.ctx) }()
	return c
}

// send sends a request, and returns the answer. ctx may end before the bubble.
func (b *bubble) send(ctx context.Context, method, path, body string, header ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, strings.NewReader(body))
	noErr(b.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(req)
	noErr(b.t, err)
	return resp
}

// do sends a request, and returns the code and the body of the answer.
func (b *bubble) do(method, path, body string, header ...string) (int, string) {
	b.t.Helper()
	resp := b.send(b.ctx, method, path, body, header...)
	return resp.StatusCode, string(bodyOf(b.t, resp))
}

func bodyOf(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	noErr(t, err)
	return data
}

// answers checks the code of an answer, and that its body, which it returns, has text.
func (b *bubble) answers(code int, text, method, path, body string, header ...string) string {
	b.t.Helper()
	got, answer := b.do(method, path, body, header...)
	if got != code || !strings.Contains(answer, text) {
		b.t.Errorf("%s %s %.300s %q: %d %s\nwant %d with %q", method, path, body, header, got, answer, code, text)
	}
	return answer
}

// answersAfter is answers to a GET, and checks how long the answer takes.
func (b *bubble) answersAfter(d time.Duration, code int, text, path string, header ...string) {
	b.t.Helper()
	began := time.Now()
	b.answers(code, text, "GET", path, "", header...)
	rig.Same(b.t, "time of "+path, d, time.Since(began))
}

// A reply is the answer to a request that is not waited for.
type reply struct {
	code int
	body string
	took time.Duration
}

// A call is a request, and what its answer must have.
type call struct {
	method, path, contentType, body string
	code                            int
	text                            string
}

// calls makes requests one after the other, each when all has come of the one before.
func (b *bubble) calls(at string, all ...call) {
	b.t.Helper()
	for _, c := range all {
		b.answers(c.code, c.text, c.method, at+c.path, c.body, "Content-Type", c.contentType)
		synctest.Wait()
	}
}

// unzipped returns what was compressed.
func unzipped(t rapid.TB, r io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(r)
	noErr(t, err)
	data, err := io.ReadAll(z)
	noErr(t, err)
	return data
}

// begin sends a GET, and returns what gets the answer.
func (b *bubble) begin(path string, header ...string) <-chan reply {
	answered, began := make(chan reply, 1), time.Now()
	go func() {
		code, body := b.do("GET", path, "", header...)
		answered <- reply{code, body, time.Since(began)}
	}()
	synctest.Wait()
	return answered
}

// read returns what is read at a path as JSON.
func read[T any](b *bubble, path string, header ...string) (out T) {
	b.t.Helper()
	body := b.answers(http.StatusOK, "", "GET", path, "", header...)
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		b.t.Fatalf("%s: %v: %s", path, err, body)
	}
	return out
}

// teapot is where requests are forwarded to.
var teapot = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })

// tokenOf returns with what the list goes on that a page is of.
func tokenOf(page string) string {
	_, token, _ := strings.Cut(page, `"continue":"`)
	token, _, _ = strings.Cut(token, `"`)
	return url.QueryEscape(token)
}

// A stream is an open watch.
type stream struct {
	events chan string // "ADDED n/a 5", or "ERROR 410"; closed at the end
	cancel func()
}

// watch opens a watch.
func (b *bubble) watch(query string) *stream {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	resp := b.send(ctx, "GET", path+"?watch=1&"+query, "")
	s := &stream{make(chan string, 1000), cancel}
	if resp.StatusCode != http.StatusOK {
		s.events <- fmt.Sprintf("%d %s", resp.StatusCode, bodyOf(b.t, resp))
		close(s.events)
		return s
	}
	go func() {
		defer close(s.events)
		defer resp.Body.Close()
		next := eventReader("application/json", bufio.NewReader(resp.Body))
		for ev, err := next(); err != io.EOF; ev, err = next() {
			a, bad := forms[0].decode(ev.object)
			m := &a.Metadata
			switch {
			case err != nil || bad != nil:
				s.events <- "broken"
				return
			case ev.typ == "ERROR":
				s.events <- fmt.Sprint("ERROR ", a.Code)
			case ev.typ == "BOOKMARK":
				s.events <- fmt.Sprint("BOOKMARK ", m.ResourceVersion, strings.Repeat(" end", len(m.Annotations)))
			default:
				s.events <- fmt.Sprint(ev.typ, " ", m.Name, " ", m.ResourceVersion)
			}
		}
	}()
	synctest.Wait()
	return s
}

// take returns what has come so far. "END" is the end of the stream.
func (s *stream) take() (all []string) {
	synctest.Wait()
	for {
		select {
		case ev, ok := <-s.events:
			if !ok {
				return append(all, "END")
			}
			all = append(all, ev)
		default:
			return all
		}
	}
}

func (s *stream) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.take()); diff != "" {
		t.Fatal(diff)
	}
}

// noErr ends the test if there is an error.
func noErr(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second is the error of a call of which the result does not matter.
func second[T any](_ T, err error) error { return err }

func name(n string) lw.Key { return lw.Key{Namespace: "n", Name: n} }

// A writing is a method of a Memory that writes an object.
type writing[T lw.Object] = func(context.Context, T) (T, error)

// store writes an object, or ends the test.
func store[T lw.Object](t *testing.T, write writing[T], obj T) T {
	t.Helper()
	obj, err := write(t.Context(), obj)
	noErr(t, err)
	return obj
}

func put(t *testing.T, write writing[*Widget], n string, size int) *Widget {
	t.Helper()
	return store(t, write, newWidget(name(n), size))
}

// resize stores w, which is not there yet, with n sizes, one after the other.
func resize(t *testing.T, m *lw.Memory[*Widget], w *Widget, n int) {
	t.Helper()
	write := m.Create
	for w.Size = range n {
		store(t, write, w)
		write = m.Update
	}
}

// longWidget is a Widget that is so many bytes long.
func longWidget(n string, size, bytes int) *Widget {
	w := newWidget(name(n), size)
	w.Labels["long"] = strings.Repeat("x", bytes)
	return w
}

func remove[T lw.Object](t *testing.T, m *lw.Memory[T], n string) {
	t.Helper()
	noErr(t, second(m.Delete(t.Context(), name(n), "")))
}

func in(namespace string) string { return "/apis/example.io/v1/namespaces/" + namespace + "/widgets" }
