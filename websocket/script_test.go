package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/go-lw/lw/internal/rig"
)

// A script is a transport whose server agrees to each WebSocket and then does what run says. It
// keeps the requests.
type script struct {
	header   http.Header // of the response to a handshake, beside that of the protocol
	run      func(conn net.Conn)
	requests []*http.Request
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, req)
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	header := s.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", "websocket")
	header.Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		s.run(server)
	}()
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: header, Body: client, Request: req}, nil
}

// send writes frames as one packet, as far as a pipe has packets.
func send(frames ...[]byte) func(net.Conn) {
	return func(conn net.Conn) {
		var all []byte
		for _, f := range frames {
			all = append(all, f...)
		}
		conn.Write(all)
	}
}

// then does one after the other.
func then(steps ...func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		for _, step := range steps {
			step(conn)
		}
	}
}

// hear reads, and throws away, what the client says, until it closes the connection.
func hear(conn net.Conn) { io.Copy(io.Discard, conn) }

func text(s string) []byte { return appendFrame(nil, true, 1, []byte(s)) }
func bin(s string) []byte  { return appendFrame(nil, true, 2, []byte(s)) }
func part(final bool, opcode byte, s string) []byte {
	return appendFrame(nil, final, opcode, []byte(s))
}
func closing(payload string) []byte { return appendFrame(nil, true, opcodeClose, []byte(payload)) }

const (
	normal    = "\x03\xe8"             // 1000
	goingAway = "\x03\xe9"             // 1001
	failed    = "\x03\xf3out of order" // 1011
)

// watchOf returns a watch with an Accept header.
func watchOf(t *testing.T, accept string) *http.Request {
	req := rig.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/api/v1/pods?watch=true", nil))
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	return req
}

// open sends a watch to a server that does what run says.
func open(t *testing.T, accept string, run func(net.Conn)) *http.Response {
	t.Helper()
	resp := rig.Must[*http.Response](t)((&Transport{Base: &script{run: run}}).RoundTrip(watchOf(t, accept)))
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}
