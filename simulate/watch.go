package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// An event is what a watch has for the program: one line of JSON, or all initial ones of a streamed
// list.
type event struct {
	bytes   []byte
	kind    string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR, and SYNCED for the initial ones
	object  string // namespace/name
	version string
	round   int
}

// A watch is one that the program has open.
type watch struct {
	gate   *gate
	of     *request
	number int
	cancel context.CancelFunc
	ready  chan struct{}

	recorder
	rest   []byte // of a line that is not whole
	first  []byte // initial events of a streamed list that is not whole
	stream bool

	mu      sync.Mutex
	events  []*event // that are held
	sent    bytes.Buffer
	err     error // what the program reads after that
	more    chan struct{}
	version string // of the last event that the program has
}

func (g *gate) watch(r *request) *http.Response {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{
		gate: g, of: r, cancel: cancel, ready: make(chan struct{}), recorder: recorder{header: http.Header{}, code: http.StatusOK},
		stream: r.http.URL.Query().Get("sendInitialEvents") == "true", more: make(chan struct{}, 1), version: r.http.URL.Query().Get("resourceVersion"),
	}
	g.mu.Lock()
	g.opened++
	w.number = g.opened
	g.watches = append(g.watches, w)
	g.mu.Unlock()
	go func() {
		err := io.EOF
		defer func() {
			// The server breaks a connection by http.ErrAbortHandler. All else is a fault of it, or of a
			// function of the World.
			if v := recover(); v != nil {
				if err = io.ErrUnexpectedEOF; v != http.ErrAbortHandler {
					notePanic(v)
				}
			}
			w.start()
			w.end(err)
		}()
		g.server.ServeHTTP(w, r.http.Clone(ctx))
	}()
	<-w.ready
	g.lists(r, w.code, "")
	context.AfterFunc(r.http.Context(), func() { w.end(r.http.Context().Err()) })
	return w.response(r.http, w)
}

func (w *watch) start() {
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
}

func (w *watch) WriteHeader(code int) {
	w.code = code
	w.start()
}

// Write takes what the server sends.
func (w *watch) Write(b []byte) (int, error) {
	if w.code != http.StatusOK { // an error, which is no event
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sent.Write(b)
		return len(b), nil
	}
	w.rest = append(w.rest, b...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		w.line(append(slices.Clone(line), '\n'))
		w.rest = slices.Clone(rest)
	}
}

func (w *watch) line(line []byte) {
	var of struct {
		Type   string
		Object struct {
			Metadata struct {
				Namespace, Name, ResourceVersion string
			}
		}
	}
	_ = json.Unmarshal(line, &of) // what is no event passes without a name
	meta := of.Object.Metadata
	ev := &event{bytes: line, kind: of.Type, object: strings.TrimPrefix(meta.Namespace+"/"+meta.Name, "/"), version: meta.ResourceVersion}
	if w.stream {
		w.first = append(w.first, line...)
		if of.Type != "BOOKMARK" && of.Type != "ERROR" {
			return
		}
		ev.bytes, ev.kind, w.first, w.stream = w.first, "SYNCED", nil, false
	}
	w.mu.Lock()
	w.events = append(w.events, ev)
	w.mu.Unlock()
	w.gate.ring()
}

// pass lets the program have the next event.
func (w *watch) pass() *event {
	w.mu.Lock()
	defer w.mu.Unlock()
	ev := w.events[0]
	w.events = w.events[1:]
	if ev.version != "" {
		w.version = ev.version
	}
	w.sent.Write(ev.bytes)
	w.ringLocked()
	return ev
}

func (w *watch) ringLocked() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// held returns the next event, or nil.
func (w *watch) held() *event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 {
		return nil
	}
	return w.events[0]
}

// end ends a watch: the program reads what has passed, and then err.
func (w *watch) end(err error) {
	w.cancel()
	w.gate.mu.Lock()
	w.gate.watches = slices.DeleteFunc(w.gate.watches, func(o *watch) bool { return o == w })
	w.gate.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.ringLocked()
}

// Read implements io.Reader for the program.
func (w *watch) Read(b []byte) (int, error) {
	for {
		w.mu.Lock()
		n, err := w.sent.Len(), w.err
		if n > 0 {
			n, _ = w.sent.Read(b)
			w.mu.Unlock()
			return n, nil
		}
		w.mu.Unlock()
		if err != nil {
			return 0, err
		}
		<-w.more
	}
}

// Close implements io.Closer for the program.
func (w *watch) Close() error {
	w.end(errClosed)
	return nil
}

var errClosed = errors.New("simulate: read of a closed watch")
