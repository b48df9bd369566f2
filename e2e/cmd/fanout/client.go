package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A client has a connection of its own, as a program in a cluster has. It decodes nothing.
type client struct {
	server   *server
	protobuf bool
	http     *http.Transport
}

func (s *server) newClient(protobuf bool) *client {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots}, DisableCompression: true, Protocols: new(http.Protocols),
		ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10,
	}
	t.Protocols.SetHTTP1(!s.kind.h2)
	t.Protocols.SetHTTP2(s.kind.h2)
	return &client{s, protobuf, t}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// errRefused says that the server has answered with 429.
var errRefused = errors.New("429")

// get returns the open body of an answer.
func (c *client) get(ctx context.Context, query, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.url+"/api/v1/pods?"+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
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

// list reads all objects, and returns how many bytes they are.
func (c *client) list(ctx context.Context) (int64, error) {
	accept := "application/json"
	if c.protobuf {
		accept = "application/vnd.kubernetes.protobuf"
	}
	body, err := c.get(ctx, "resourceVersion=0", accept)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	return io.Copy(io.Discard, body)
}

// listAtOnce has n clients read the whole collection at once.
func (s *server) listAtOnce(ctx context.Context, n int, protobuf bool) (served, refused, failed int64) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			c := s.newClient(protobuf)
			defer c.close()
			switch _, err := c.list(ctx); {
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
	c := &crowd{cancel: cancel, arrivals: make([][]time.Time, n), complete: make(chan struct{}, 1), failed: make(chan error, n)}
	opened := make(chan error, n)
	gate := make(chan struct{}, 32)
	for w := range n {
		c.arrivals[w] = make([]time.Time, 0, events)
		c.all.Go(func() {
			gate <- struct{}{}
			client := s.newClient(false)
			defer client.close()
			body, err := client.get(ctx, query, "application/json")
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

// stall opens n watches that nobody reads, until end is called.
func (s *server) stall(ctx context.Context, n int) (end func(), err error) {
	version, err := s.up.Revision(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	for range n {
		client := s.newClient(false)
		client.http.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
			}
			return c, err
		}
		if _, err := client.get(ctx, fmt.Sprintf("watch=true&resourceVersion=%d&timeoutSeconds=3600", version), "application/json"); err != nil {
			cancel()
			return nil, err
		}
	}
	return cancel, nil
}

// rounds makes n events, so many at once when all watchers have those before them.
func (c *crowd) rounds(ctx context.Context, s *server, n, burst int) error {
	for range n / burst {
		c.expected.Add(int64(len(c.arrivals) * burst))
		for range burst {
			c.puts = append(c.puts, time.Now())
			if err := s.put(ctx, len(c.puts)); err != nil {
				return err
			}
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
