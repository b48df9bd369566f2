package websocket

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/proof"
)

// A network is the connections of a client in memory, and what happens to them on the way.
type network struct {
	manners

	mu   sync.Mutex
	calm bool  // after clear; guarded by mu, as all below
	cuts []int // after how many bytes each of the next WebSockets is cut
	open map[*wire]bool

	// How many WebSockets there were, and how many of them were cut.
	upgraded, cutOff *atomic.Int64
}

// manners are what a network does all the time.
type manners struct {
	// chunk is the most bytes that a Read of the client gets; 0: what there is.
	chunk int
	// split says that each frame of a message comes as three: a proxy may divide messages.
	split bool

	// limit is after how many bytes each WebSocket is cut, until clear; 0: none is.
	limit int
}

// over returns client with connections through n.
func (n *network) over(client *http.Client) *http.Client {
	n.open = map[*wire]bool{}
	transport := client.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: conn, net: n, left: -1}
		n.mu.Lock()
		n.open[w] = true
		n.mu.Unlock()
		return w, nil
	}
	return client
}

// cut lets the next WebSockets, so many of them, end after some bytes, and ends those that are
// open.
func (n *network) cut(bytes, times int) {
	n.breakOpen(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range times {
		n.cuts = append(n.cuts, bytes+83*i)
	}
}

// breakOpen ends the connections that are open, at once.
func (n *network) breakOpen(int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.open {
		w.Conn.Close()
	}
}

func (n *network) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts, n.calm = nil, true
}

// A wire is a connection of the client.
type wire struct {
	net.Conn
	net *network

	// Only the goroutine that reads uses these.
	upgraded bool
	left     int    // bytes before it is cut; -1: it is not
	came     []byte // of the server, split, and not read yet
	partial  []byte // the beginning of a frame
	err      error
}

func (w *wire) Read(p []byte) (int, error) {
	if n := w.net.chunk; n > 0 && len(p) > n {
		p = p[:n]
	}
	if w.left == 0 {
		w.left = -1
		w.net.cutOff.Add(1)
		w.Conn.Close()
		return 0, syscall.ECONNRESET
	}
	if w.left > 0 && len(p) > w.left {
		p = p[:w.left]
	}
	n, err := w.read(p)
	if w.left > 0 {
		w.left -= n
	}
	return n, err
}

func (w *wire) read(p []byte) (int, error) {
	for len(w.came) == 0 {
		if w.err != nil {
			return 0, w.err
		}
		buf := make([]byte, 4096)
		n, err := w.Conn.Read(buf)
		w.err = err
		w.take(buf[:n])
	}
	n := copy(p, w.came)
	w.came = w.came[n:]
	return n, nil
}

// take puts data into came, frame by frame if they are to be split.
func (w *wire) take(data []byte) {
	if !w.upgraded {
		w.came = append(w.came, data...)
		if len(data) > 12 && string(data[:12]) == "HTTP/1.1 101" { // the library writes it at once
			w.upgraded = true
			w.net.upgraded.Add(1)
			w.net.mu.Lock()
			defer w.net.mu.Unlock()
			switch cuts := w.net.cuts; {
			case len(cuts) > 0:
				w.left, w.net.cuts = len(data)+cuts[0], cuts[1:]
			case w.net.limit > 0 && !w.net.calm:
				w.left = len(data) + w.net.limit
			}
		}
		return
	}
	if !w.net.split {
		w.came = append(w.came, data...)
		return
	}
	w.partial = append(w.partial, data...)
	for {
		head, ok := parseFrame(w.partial)
		if !ok || head.size() > uint64(len(w.partial)) {
			return
		}
		payload := w.partial[head.header:head.size()]
		if head.control() {
			w.came = append(w.came, w.partial[:head.size()]...)
		} else {
			third := len(payload) / 3
			w.came = appendFrame(w.came, false, head.opcode, payload[:third])
			w.came = appendFrame(w.came, false, 9, []byte("are you there?")) // a ping
			w.came = appendFrame(w.came, false, 0, payload[third:2*third])
			w.came = appendFrame(w.came, head.final, 0, payload[2*third:])
		}
		w.partial = w.partial[head.size():]
	}
}

func (w *wire) Close() error {
	w.net.mu.Lock()
	delete(w.net.open, w)
	w.net.mu.Unlock()
	return w.Conn.Close()
}

// appendFrame appends a frame of a server.
func appendFrame(b []byte, final bool, opcode byte, payload []byte) []byte {
	first := opcode
	if final || opcode >= opcodeClose {
		first |= 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, first, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, first, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, first, 127), uint64(n))
	}
	return append(b, payload...)
}

// transport is the transport of proofs over n.
func (n *network) transport() proof.Transport {
	return proof.Transport{
		Wrap:   Handler,
		Client: func(c *http.Client) *http.Client { return Client(n.over(c)) },
		Faults: []proof.Fault{
			{ID: "W1", Name: "WebSocket cut in a header", Inject: func(times int) { n.cut(1, times) }},
			{ID: "W1", Name: "WebSocket cut in an event", Inject: func(times int) { n.cut(61, times) }},
			{ID: "W1", Name: "WebSocket cut later", Inject: func(times int) { n.cut(700, times) }},
			{ID: "W2", Name: "connections broken", Inject: n.breakOpen},
		},
		Clear: n.clear,
	}
}

func TestMain(m *testing.M) { leak.Main(m) }

// The proofs of package lw (internal/verify/proof/README.md) over WebSockets: the server behind Handler,
// the informer's client from Client, and between both a network that cuts connections anywhere.

func TestProof(t *testing.T) { prove(t, proof.Random, manners{}) }

// Messages come in pieces: each Read gets some bytes only, and each message is divided into frames.
func TestProofInPieces(t *testing.T) { prove(t, proof.Random, manners{chunk: 7, split: true}) }

// A proxy cuts each long response, wherever that is.
func TestProofCut(t *testing.T) {
	if cut := prove(t, proof.Random, manners{limit: 1500}); cut == 0 {
		t.Error("no WebSocket was cut")
	}
}

func TestSmallScope(t *testing.T) { prove(t, proof.SmallScope, manners{}) }

// prove runs histories over networks with these manners, and returns how many WebSockets were cut.
func prove(t *testing.T, run func(*testing.T, func() proof.Transport), m manners) (cuts int64) {
	var upgraded, cut atomic.Int64
	run(t, func() proof.Transport {
		return (&network{manners: m, upgraded: &upgraded, cutOff: &cut}).transport()
	})
	t.Logf("%d WebSockets, of which %d were cut", upgraded.Load(), cut.Load())
	if upgraded.Load() == 0 {
		t.Error("no watch went over a WebSocket")
	}
	return cut.Load()
}
