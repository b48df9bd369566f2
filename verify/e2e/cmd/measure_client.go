package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A client has a connection of its own, as a program in a cluster has. It decodes nothing.
type client struct {
	server *server
	http   *http.Transport
}

func (s *server) newClient(gzip bool) *client {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots}, DisableCompression: !gzip, Protocols: new(http.Protocols),
		ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10,
	}
	t.Protocols.SetHTTP1(!s.kind.h2)
	t.Protocols.SetHTTP2(s.kind.h2)
	return &client{s, t}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// errRefused says that the server has answered with 429.
var errRefused = errors.New("429")

// A read is one way to read the collection.
type read struct {
	name, namespace, query, accept string
	gzip                           bool
}

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	stream   = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=600"
	paged    = "limit=500"
)

var reads = []read{
	{name: "streamed, protobuf", query: stream, accept: protobuf + ";stream=watch"},
	{name: "streamed, protobuf, gzip", query: stream, accept: protobuf + ";stream=watch", gzip: true},
	{name: "streamed, JSON", query: stream, accept: "application/json"},
	{name: "pages of 500, protobuf", query: paged, accept: protobuf},
	{name: "pages of 500, protobuf, gzip", query: paged, accept: protobuf, gzip: true},
	{name: "pages of 500, JSON", query: paged, accept: "application/json"},
	{name: "whole, protobuf", accept: protobuf},
	{name: "whole, protobuf, gzip", accept: protobuf, gzip: true},
	{name: "whole, JSON", accept: "application/json"},
}

// get returns the open body of an answer.
func (c *client) get(ctx context.Context, r read) (io.ReadCloser, error) {
	path := "/api/v1/pods?"
	if r.namespace != "" {
		path = "/api/v1/namespaces/" + r.namespace + "/pods?"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.url+path+r.query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", r.accept)
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.Body, nil
	case http.StatusTooManyRequests:
		err = errRefused
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	resp.Body.Close()
	return nil, err
}

// read reads the collection once, all pages of it, and returns how many bytes came, without
// compression.
func (c *client) read(ctx context.Context, r read) (all int64, err error) {
	ctx, cancel := context.WithCancel(ctx) // a stream stays open after its initial events
	defer cancel()
	for {
		body, err := c.get(ctx, r)
		if err != nil {
			return all, err
		}
		if strings.HasPrefix(r.query, stream) {
			defer body.Close()
			return readInitial(body)
		}
		data, err := io.ReadAll(body)
		body.Close()
		all += int64(len(data))
		if !strings.HasPrefix(r.query, paged) || err != nil {
			return all, err
		}
		token, err := continueOf(data)
		if token == "" || err != nil {
			return all, err
		}
		r.query = paged + "&continue=" + url.QueryEscape(token)
	}
}

// readInitial reads a stream until the bookmark that ends its initial events.
func readInitial(body io.Reader) (int64, error) {
	const end = "k8s.io/initial-events-end"
	var all int64
	buf := make([]byte, 64<<10)
	tail := ""
	for {
		n, err := body.Read(buf)
		all += int64(n)
		seen := tail + string(buf[:n])
		if strings.Contains(seen, end) {
			return all, nil
		}
		tail = seen[max(0, len(seen)-len(end)):]
		if err != nil {
			return all, err
		}
	}
}

// continueOf returns the continue token of a list in protobuf or JSON.
func continueOf(data []byte) (string, error) {
	const prefix = "k8s\x00"
	if !strings.HasPrefix(string(data[:min(len(data), 4)]), prefix) {
		_, rest, _ := strings.Cut(string(data), `"continue":"`)
		token, _, _ := strings.Cut(rest, `"`)
		return token, nil
	}
	var u runtime.Unknown
	if err := u.Unmarshal(data[len(prefix):]); err != nil {
		return "", err
	}
	// The list's metadata is its field 1, before the items.
	size, n := binary.Uvarint(u.Raw[1:])
	var m metav1.ListMeta
	if err := m.Unmarshal(u.Raw[1+n : 1+n+int(size)]); err != nil {
		return "", err
	}
	return m.Continue, nil
}

// listAtOnce has n clients read the whole collection at once.
func (s *server) listAtOnce(ctx context.Context, n int, r read) (served, refused, failed int64) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			c := s.newClient(r.gzip)
			defer c.close()
			switch _, err := c.read(ctx, r); {
			case err == nil:
				atomic.AddInt64(&served, 1)
			case errors.Is(err, errRefused):
				atomic.AddInt64(&refused, 1)
			default:
				atomic.AddInt64(&failed, 1)
			}
		})
	}
	all.Wait()
	return served, refused, failed
}

// A crowd is watchers that wait for the same events.
type crowd struct {
	cancel   context.CancelFunc
	all      sync.WaitGroup
	arrivals [][]time.Time // by watcher and event
	puts     []time.Time
	received atomic.Int64
	expected atomic.Int64
	complete chan struct{} // has room for one token: all events have arrived
	failed   chan error    // has room for an error of each watcher
}

// watch opens n watches, which shall get so many events.
func (s *server) watch(ctx context.Context, n, events int) (*crowd, error) {
	version, err := s.up.Revision(ctx)
	if err != nil {
		return nil, err
	}
	query := fmt.Sprintf("watch=true&resourceVersion=%d&timeoutSeconds=3600", version)
	ctx, cancel := context.WithCancel(ctx)
	c := &crowd{cancel: cancel, arrivals: make([][]time.Time, n), complete: make(chan struct{}, 1),
		failed: make(chan error, n)}
	opened := make(chan error, n)
	gate := make(chan struct{}, 32)
	for w := range n {
		c.arrivals[w] = make([]time.Time, 0, events)
		c.all.Go(func() {
			gate <- struct{}{}
			client := s.newClient(false)
			defer client.close()
			body, err := client.get(ctx, read{query: query, accept: "application/json"})
			<-gate
			opened <- err
			if err != nil {
				return
			}
			defer body.Close()
			if err := c.read(w, body); ctx.Err() == nil {
				c.failed <- err
			}
		})
	}
	for range n {
		if err := <-opened; err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// read notes when each event has arrived whole. Events in JSON end with a line break, and have no
// other.
func (c *crowd) read(w int, body io.Reader) error {
	buf := make([]byte, 8<<10)
	for {
		n, err := body.Read(buf)
		if err != nil {
			return fmt.Errorf("a watch has ended: %w", err)
		}
		events := bytes.Count(buf[:n], []byte("\n"))
		for range events {
			c.arrivals[w] = append(c.arrivals[w], time.Now())
		}
		if events > 0 && c.received.Add(int64(events)) == c.expected.Load() {
			c.complete <- struct{}{}
		}
	}
}

// rounds makes n events, each when all watchers have the one before it.
func (c *crowd) rounds(ctx context.Context, s *server, n int) error {
	for range n {
		c.expected.Add(int64(len(c.arrivals)))
		c.puts = append(c.puts, time.Now())
		if err := s.put(ctx, len(c.puts)); err != nil {
			return err
		}
		select {
		case <-c.complete:
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%d of %d deliveries after 30 s", c.received.Load(), c.expected.Load())
		}
	}
	return nil
}

// latencies returns how long each event after the first ones took to each watcher. It is called
// when all have arrived.
func (c *crowd) latencies(from int) []time.Duration {
	var all []time.Duration
	for _, arrivals := range c.arrivals {
		for i, at := range arrivals[from:] {
			all = append(all, at.Sub(c.puts[from+i]))
		}
	}
	return all
}

func (c *crowd) close() {
	c.cancel()
	c.all.Wait()
}
