package websocket

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/rig"
)

// repeated is a connection that says the same over and over, one at a time, and then something
// last.
type repeated struct {
	data  []byte
	times int
	last  []byte
	err   error
	rest  []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		switch {
		case r.times > 0:
			r.rest = r.data
			r.times--
		case r.last != nil:
			r.rest, r.last = r.last, nil
		default:
			return 0, r.err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *repeated) Write(p []byte) (int, error) { return len(p), nil }
func (r *repeated) Close() error                { return nil }

// TestAllocations: the WebSocket itself allocates nothing for an event.
func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		accept string
		frame  []byte
	}{{jsonType, text("{1}\n")}, {protoType, bin("\na")}, {jsonType, text(strings.Repeat(" ", 20_000) + "\n")}} {
		s := &script{run: func(net.Conn) {}}
		resp := rig.Must[*http.Response](t)((&Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(req)
			resp.Body.Close()
			resp.Body = &repeated{data: test.frame, times: 1 << 20}
			return resp, err
		})}).RoundTrip(watchOf(t, test.accept)))
		p := make([]byte, 8<<10)
		read := func() {
			rig.Must[int](t)(resp.Body.Read(p))
		}
		for range 10 {
			read() // until the buffers are as large as they get
		}
		if n := testing.AllocsPerRun(1000, read); n != 0 {
			t.Errorf("%v allocations for a Read of %s messages of %d bytes", n, test.accept, len(test.frame))
		}
		resp.Body.Close()
	}
}
