package simulate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A transport is one client's way to the server. It counts as one connection.
type transport struct {
	s    *Server
	life int // of the server in which the connection was opened
}

// RoundTrip answers a list or a watch.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s, m, quit := t.s, t.s.model.Load(), req.Context().Done()
	if err := pause(m.RTT, quit); err != nil {
		return nil, err
	}
	s.mu.Lock()
	died, life, ready := s.died, s.lives, s.ready
	s.mu.Unlock()
	query := req.URL.Query()
	kind := kindOf(query)
	if died == nil {
		s.rec.arrived(Refused)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	s.rec.arrived(kind)
	work := m.RequestCPU
	if t.life != life {
		t.life = life
		work += m.ConnectCPU
	}
	b := &body{s: s, quit: quit, died: died, closed: make(chan struct{}), life: life, watch: kind == Stream ||
		kind == Watch}
	if err := b.work(work); err != nil {
		return nil, err
	}
	if time.Now().Before(ready) {
		return s.busy(req), nil
	}
	b.version = s.now(false)
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	b.deadline = time.Now().Add(time.Duration(seconds) * time.Second)
	if kind == Watch {
		from, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
		if err != nil {
			from = b.version
		}
		s.mu.Lock()
		expired := from < s.oldest
		s.mu.Unlock()
		if expired {
			s.rec.note(func(r *Record) { r.Expired++ })
			b.buf = append(b.buf, expiredEvent...)
			b.err = io.EOF
			return answer(req, http.StatusOK, b), nil
		}
		b.version = from
		b.begin()
		return answer(req, http.StatusOK, b), nil
	}
	if kind == Probe {
		item := itemOf(0)
		if selector := query.Get("fieldSelector"); selector != "" { // it is the question of SourceHints.StillHas
			at, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
			s.mu.Lock()
			expired := at < s.oldest
			s.mu.Unlock()
			if err != nil || expired {
				s.rec.note(func(r *Record) { r.Expired++ })
				return answer(req, http.StatusGone, io.NopCloser(strings.NewReader(expiredStatus))), nil
			}
			b.version, item = at, itemAt(selector, at)
		}
		b.buf = fmt.Appendf(nil, listBegin+"%s]}", b.version, "", item)
		b.err = io.EOF
		return answer(req, http.StatusOK, b), nil
	}
	b.plan(kind, query)
	if !s.seats.take(b.width, m.Patience, quit, died) {
		if err := b.broken(); err != nil {
			return nil, err
		}
		return s.busy(req), nil
	}
	b.seated.Store(true)
	s.rec.listing(1)
	// The rest is done while the client reads.
	return answer(req, http.StatusOK, b), nil
}

// kindOf returns what a request asks for.
func kindOf(query url.Values) Kind {
	switch {
	case query.Get("sendInitialEvents") == "true":
		return Stream
	case query.Get("watch") != "":
		return Watch
	case query.Get("limit") == "1":
		return Probe
	}
	return Page
}

// busy returns an answer that the server has no room.
func (s *Server) busy(req *http.Request) *http.Response {
	s.rec.note(func(r *Record) { r.Busy++ })
	resp := answer(req, http.StatusTooManyRequests, io.NopCloser(strings.NewReader(busyStatus)))
	resp.Header.Set("Retry-After", "1")
	return resp
}

func answer(req *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code),
		Proto: "HTTP/2.0", ProtoMajor: 2, ContentLength: -1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req,
	}
}

const (
	busyStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,` +
		`"message":"too many requests","details":{"retryAfterSeconds":1}}`
	expiredStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,` +
		`"message":"too old resource version"}`
	expiredEvent   = `{"type":"ERROR","object":` + expiredStatus + "}\n"
	listBegin      = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":"%s"},"items":[`
	bookmarkFormat = `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s}}}` + "\n"
	objectFormat   = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"o-%d","namespace":"sim","uid":"u-%d","resourceVersion":"%d"}}`
)

// itemOf returns object i as it is in a list. It stands for all objects of its chunk.
func itemOf(i int) string { return fmt.Sprintf(objectFormat, i, i, i+1) }

// itemAt returns the object that a field selector names, as it was at a version: all events are of
// object 0.
func itemAt(selector string, version uint64) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(selector, "metadata.name=o-"), ",")
	i, _ := strconv.Atoi(name)
	if i == 0 && version > firstVersion {
		return fmt.Sprintf(objectFormat, 0, 0, version)
	}
	return itemOf(i)
}

// pause returns after d, or with an error as soon as a channel is closed.
func pause(d time.Duration, quit ...<-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	if wait(t.C, quit...) >= 0 {
		return errQuit
	}
	return nil
}

var errQuit = errors.New("simulate: the request was cancelled")
