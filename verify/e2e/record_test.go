package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What a request asks for, as the recorder tells them apart.
const (
	verbList   = "list"
	verbPage   = "page"  // a list that goes on with a continue token
	verbProbe  = "probe" // a list of one object, for its version
	verbStream = "stream"
	verbWatch  = "watch"
)

// A recorder notes every request of one client.
type recorder struct {
	next  http.RoundTripper
	dials atomic.Int64 // connections that were asked for

	mu       sync.Mutex
	requests []*request // guarded by mu, and so are their fields
	triggers []*trigger // guarded by mu
}

type request struct {
	verb   string
	path   string
	query  url.Values
	at     time.Time
	status int    // 0: no answer
	proto  string // HTTP/1.1 or HTTP/2.0
	media  string // the answer's Content-Type
	err    error  // of a request without an answer
	end    error  // how its body ended: io.EOF as it should; nil: it is open, or was left
	done   bool   // its body has been read to the end or closed
	bytes  int64
}

// A trigger calls do, once, in the goroutine that reads the answer to a request.
type trigger struct {
	verb  string
	bytes int64 // once so many have been read; -1: when it has been read to its end
	do    func()
}

// after calls do once, while the answer to a request of the verb is being read: when so many bytes
// have been read, or at the end if bytes is -1.
func (r *recorder) after(verb string, bytes int64, do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.triggers = append(r.triggers, &trigger{verb, bytes, do})
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	noted := &request{verb: verbList, path: req.URL.Path, query: query, at: time.Now()}
	switch {
	case query.Get("sendInitialEvents") == "true":
		noted.verb = verbStream
	case query.Get("watch") != "" && query.Get("watch") != "false" && query.Get("watch") != "0":
		noted.verb = verbWatch
	case query.Get("continue") != "":
		noted.verb = verbPage
	case query.Get("limit") == "1":
		noted.verb = verbProbe
	}
	r.mu.Lock()
	r.requests = append(r.requests, noted)
	r.mu.Unlock()
	resp, err := r.next.RoundTrip(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		noted.err = err
		return nil, err
	}
	noted.status, noted.proto, noted.media = resp.StatusCode, resp.Proto, resp.Header.Get("Content-Type")
	if resp.StatusCode != http.StatusSwitchingProtocols { // then the body is a connection
		resp.Body = &recordedBody{resp.Body, r, noted}
	}
	return resp, nil
}

type recordedBody struct {
	io.ReadCloser
	recorder *recorder
	noted    *request
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.recorder.read(b.noted, n, err, err != nil)
	return n, err
}

// Close counts as the end of a body of which the decoder left no more than the end itself.
func (b *recordedBody) Close() error {
	b.recorder.read(b.noted, 0, nil, true)
	return b.ReadCloser.Close()
}

func (r *recorder) read(noted *request, n int, err error, done bool) {
	var due []*trigger
	r.mu.Lock()
	noted.bytes += int64(n)
	if err != nil {
		noted.end = err
	}
	ends := done && !noted.done
	noted.done = noted.done || done
	r.triggers = slices.DeleteFunc(r.triggers, func(t *trigger) bool {
		hit := t.verb == noted.verb && (t.bytes >= 0 && n > 0 && noted.bytes >= t.bytes || t.bytes < 0 && ends)
		if hit {
			due = append(due, t)
		}
		return hit
	})
	r.mu.Unlock()
	for _, t := range due {
		t.do()
	}
}

// all returns a copy of what was noted.
func (r *recorder) all() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]request, len(r.requests))
	for i, req := range r.requests {
		all[i] = *req
	}
	return all
}

// count returns how many requests match.
func (r *recorder) count(match func(request) bool) int {
	n := 0
	for _, req := range r.all() {
		if match(req) {
			n++
		}
	}
	return n
}

func isVerb(verbs ...string) func(request) bool {
	return func(req request) bool { return slices.Contains(verbs, req.verb) }
}

func isStatus(code int) func(request) bool {
	return func(req request) bool { return req.status == code }
}

// broke matches a request that got no answer, or not all of it.
func broke(req request) bool { return req.err != nil || req.end != nil && req.end != io.EOF }

func (r *recorder) String() string {
	s := ""
	for _, req := range r.all() {
		s += fmt.Sprintf("\t%s %-6s %d %s %v %v, %d bytes: %s\n", req.at.Format("05.000"), req.verb, req.status, req.proto,
			req.err, req.end, req.bytes, req.query.Encode())
	}
	return s
}
