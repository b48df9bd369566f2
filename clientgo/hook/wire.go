package hook

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A wire counts what the clients of the process read of each resource, on either side.
type wire struct {
	mu   sync.Mutex
	read map[string]*traffic
}

// traffic is what was read of one resource.
type traffic struct {
	name                          string
	lists, watches, events, bytes atomic.Uint64 // a streamed list is a list and a watch
}

func (w *wire) of(resource string) *traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.read == nil {
		w.read = map[string]*traffic{}
	}
	if w.read[resource] == nil {
		w.read[resource] = &traffic{name: resource}
	}
	return w.read[resource]
}

// rows returns all traffic, sorted by resource.
func (w *wire) rows() (rows []*traffic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.read {
		rows = append(rows, t)
	}
	slices.SortFunc(rows, func(a, b *traffic) int { return cmp.Compare(a.name, b.name) })
	return rows
}

// counted returns a client that does what client does, and counts.
func (w *wire) counted(client *http.Client) *http.Client {
	if client == nil {
		client = http.DefaultClient
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	if _, ok := next.(*counting); ok {
		return client
	}
	out := *client
	out.Transport = &counting{next, w}
	return &out
}

// counting is the transport of a counted client.
type counting struct {
	next http.RoundTripper
	wire *wire
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := collectionOf(r)
	if resource == "" {
		return c.next.RoundTrip(r)
	}
	to, query := c.wire.of(resource), r.URL.Query()
	watching := query.Get("watch") != "" && query.Get("watch") != "false" && query.Get("watch") != "0"
	if watching {
		to.watches.Add(1)
	}
	if watching && query.Get("sendInitialEvents") == "true" || !watching && query.Get("continue") == "" {
		to.lists.Add(1)
	}
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		body := &countedBody{ReadCloser: resp.Body, to: to}
		if watching && resp.StatusCode == http.StatusOK {
			body.frames = &frames{prefixed: strings.Contains(resp.Header.Get("Content-Type"), "protobuf")}
		}
		resp.Body = body
	}
	return resp, err
}

// WrappedRoundTripper lets apimachinery find the http.Transport below.
func (c *counting) WrappedRoundTripper() http.RoundTripper { return c.next }

// CloseIdleConnections makes the method of http.Client work, which looks for it.
func (c *counting) CloseIdleConnections() {
	if next, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// collectionOf returns the resource whose collection r lists or watches, or "".
func collectionOf(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	names := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i, name := range names {
		rest, group := names[i+1:], ""
		switch {
		case name == "api" && len(rest) > 1:
			rest = rest[1:] // after the version
		case name == "apis" && len(rest) > 2:
			rest, group = rest[2:], "."+rest[0]
		default:
			continue
		}
		if len(rest) == 3 && rest[0] == "namespaces" {
			rest = rest[2:]
		}
		if len(rest) == 1 {
			return rest[0] + group
		}
		return ""
	}
	return ""
}

// A countedBody counts what is read of a response.
type countedBody struct {
	io.ReadCloser
	to     *traffic
	frames *frames // of a watch; nil: it is a list
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.to.bytes.Add(uint64(n))
	if b.frames != nil {
		b.to.events.Add(b.frames.in(p[:n]))
	}
	return n, err
}

// frames counts the events of a watch: lines, or, prefixed, what follows its length in 4 bytes.
type frames struct {
	prefixed bool
	head     []byte
	left     uint64
}

// in returns how many frames begin in p, or end in p as lines.
func (f *frames) in(p []byte) (n uint64) {
	if !f.prefixed {
		for _, c := range p {
			if c == '\n' {
				n++
			}
		}
		return n
	}
	for len(p) > 0 {
		if f.left > 0 {
			skip := min(f.left, uint64(len(p)))
			p, f.left = p[skip:], f.left-skip
			continue
		}
		f.head, p = append(f.head, p[0]), p[1:]
		if len(f.head) == 4 {
			for _, c := range f.head {
				f.left = f.left<<8 | uint64(c)
			}
			f.head, n = f.head[:0], n+1
		}
	}
	return n
}
