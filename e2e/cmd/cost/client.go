package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/e2e/internal/servers"
)

// A client reads bytes over a connection of its own.
type client struct {
	url  string
	http *http.Client
}

func newClient(s *servers.Server, gzip bool) *client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	return &client{s.URL, &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: !gzip,
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// open returns the open body of the answer to a GET.
func (c *client) open(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return resp.Body, nil
}

// read reads the collection once and returns how many bytes came, without compression.
func (c *client) read(ctx context.Context, r read) (int64, error) {
	if strings.Contains(r.query, "watch") {
		// The stream stays open after the initial events.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		body, err := c.open(ctx, collection+r.query, r.accept)
		if err != nil {
			return 0, err
		}
		defer body.Close()
		return readInitial(body)
	}
	var all int64
	for token := ""; ; {
		query := r.query
		if token != "" {
			query += "&continue=" + url.QueryEscape(token)
		}
		body, err := c.open(ctx, collection+query, r.accept)
		if err != nil {
			return all, err
		}
		data, err := io.ReadAll(body)
		body.Close()
		if err != nil {
			return all, err
		}
		all += int64(len(data))
		if !r.pages {
			return all, nil
		}
		if token, err = continueOf(data); err != nil || token == "" {
			return all, err
		}
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

// countFrames reads n frames of a watch in protobuf.
func countFrames(body io.Reader, n int) (int, error) {
	var head [4]byte
	for i := range n {
		if _, err := io.ReadFull(body, head[:]); err != nil {
			return i, err
		}
		if _, err := io.CopyN(io.Discard, body, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
			return i, err
		}
	}
	return n, nil
}
