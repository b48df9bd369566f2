package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/go-lw/lw/internal/verify/rig"
)

const (
	jsonType  = "application/json"
	protoType = "application/vnd.kubernetes.protobuf"
	// choice is what lw.HTTP asks for if T can be read from both.
	choice = "application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch,application/json"
)

// TestMessages reads what a server sends to its end.
func TestMessages(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for name, test := range map[string]struct {
		accept string
		frames [][]byte // in one packet; then the server closes the connection
		want   string
		typ    string // default: that of the only form that Accept names
		err    error  // default: io.EOF
		text   string // in err
	}{
		"JSON": {accept: jsonType, frames: [][]byte{text("{1}\n"), text("{2}\n"), closing(normal)},
			want: "{1}\n{2}\n"},
		"without a line break": {accept: jsonType, frames: [][]byte{text("{1}"), text("{2}"), closing(normal)},
			want: "{1}\n{2}\n"},
		"no Accept": {frames: [][]byte{text("{1}\n"), closing(normal)}, want: "{1}\n", typ: jsonType},
		"nothing":   {accept: jsonType, frames: [][]byte{closing(normal)}},
		"an empty message": {accept: jsonType, frames: [][]byte{text(""), text("{1}\n"), closing(normal)},
			want: "{1}\n"},
		"going away": {accept: jsonType, frames: [][]byte{text("{1}\n"), closing(goingAway)}, want: "{1}\n"},
		"no status":  {accept: jsonType, frames: [][]byte{text("{1}\n"), closing("")}, want: "{1}\n"},
		"protobuf": {accept: protoType, frames: [][]byte{bin("\nab"), bin("\nc"), closing(normal)},
			want: "\x00\x00\x00\x03\nab\x00\x00\x00\x02\nc"},
		"an empty one": {accept: protoType, frames: [][]byte{bin(""), bin("\nc"), closing(normal)},
			want: "\x00\x00\x00\x00\x00\x00\x00\x02\nc"},
		"CBOR": {accept: "application/cbor", frames: [][]byte{bin("\xa1a"), bin("\xa1b"), closing(normal)},
			want: "\xa1a\xa1b", typ: "application/cbor-seq"},
		"choice of JSON": {accept: choice, frames: [][]byte{text("{1}\n"), closing(normal)}, want: "{1}\n",
			typ: jsonType},
		"choice of protobuf": {accept: choice, frames: [][]byte{bin("\nab"), bin("\nc"), closing(normal)},
			want: "\x00\x00\x00\x03\nab\x00\x00\x00\x02\nc"},
		"choice of CBOR": {accept: "application/cbor," + choice, frames: [][]byte{bin("\xd9\xd9\xf7\xa0"),
			closing(normal)}, want: "\xd9\xd9\xf7\xa0", typ: "application/cbor-seq"},
		"choice of nothing": {accept: choice, frames: [][]byte{closing(normal)}, typ: jsonType},
		"JSON in parts": {accept: jsonType, frames: [][]byte{part(false, 1, "{"), part(false, 0, "1"),
			part(true, 0, "}\n"), text("{2}\n"), closing(normal)}, want: "{1}\n{2}\n"},
		"protobuf in parts": {accept: protoType, frames: [][]byte{part(false, 2, "\na"), part(true, 0, "b"), bin("\nc"),
			closing(normal)}, want: "\x00\x00\x00\x03\nab\x00\x00\x00\x02\nc"},
		"choice in parts": {accept: choice, frames: [][]byte{part(false, 2, "\na"), part(true, 0, "b"),
			closing(normal)}, want: "\x00\x00\x00\x03\nab"},
		"a ping in a message": {accept: jsonType, frames: [][]byte{part(false, 1, "{"), part(true, 9, "?"),
			part(true, 0, "1}\n"), closing(normal)}, want: "{1}\n"},
		"large": {accept: jsonType, frames: [][]byte{text(long), text("{2}\n"), closing(normal)}, want: long +
			"\n{2}\n"},
		"large protobuf": {accept: choice, frames: [][]byte{bin("\n" + long), closing(normal)},
			want: "\x00\x01\x11\x71\n" + long},
		"lost": {accept: jsonType, frames: [][]byte{text("{1}\n")}, want: "{1}\n", err: io.ErrUnexpectedEOF,
			text: "websocket: the connection was lost"},
		"lost at once": {accept: choice, err: io.ErrUnexpectedEOF, typ: jsonType},
		"lost in a header": {accept: jsonType, frames: [][]byte{text("{1}\n"), text("{2}\n")[:1]}, want: "{1}\n",
			err: io.ErrUnexpectedEOF},
		"lost in a message": {accept: jsonType, frames: [][]byte{text("{1}\n"), text("{22}\n")[:4]}, want: "{1}\n{2",
			err: io.ErrUnexpectedEOF},
		"lost between parts": {accept: protoType, frames: [][]byte{bin("\na"), part(false, 2, "\nb")},
			want: "\x00\x00\x00\x02\na", err: io.ErrUnexpectedEOF},
		"closed in a message": {accept: jsonType, frames: [][]byte{part(false, 1, "{1"), closing(normal)}, want: "{1",
			err: io.ErrUnexpectedEOF, text: "closed within a message"},
		"closed by a failure": {accept: jsonType, frames: [][]byte{text("{1}\n"), closing(failed)}, want: "{1}\n",
			text: `websocket: closed by the server: status = StatusInternalError and reason = "out of order"`},
		"a masked frame": {accept: jsonType, frames: [][]byte{text("{1}\n"), masked("{2}\n")}, want: "{1}\n",
			text: "masked frame"},
		"text in protobuf": {accept: protoType, frames: [][]byte{bin("\na"), text("{1}\n")}, want: "\x00\x00\x00\x02\na",
			text: "a message of type MessageText in a stream of application/vnd.kubernetes.protobuf"},
		"binary in JSON": {accept: choice, frames: [][]byte{text("{1}\n"), bin("\na")}, want: "{1}\n", typ: jsonType,
			text: "a message of type MessageBinary in a stream of application/json"},
		"an empty first one": {accept: choice, frames: [][]byte{bin("")}, typ: jsonType,
			text: "websocket: the first message is empty"},
		"too large": {accept: jsonType, frames: [][]byte{{0x81, 127, 0, 0, 0, 0, 4, 16, 0, 1}},
			text: "websocket: a message of 68157441 bytes, want at most 68157440"},
		"a part without a head": {accept: jsonType, frames: [][]byte{part(true, 0, "{1}\n")}, text: "websocket: "},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			resp := open(t, test.accept, func(conn net.Conn) {
				heard := make(chan struct{})
				go func() { defer close(heard); hear(conn) }()
				send(test.frames...)(conn)
				if n := len(test.frames); n > 0 && test.frames[n-1][0] == 0x80|opcodeClose {
					<-heard // the client closes the connection
				}
			})
			got, err := io.ReadAll(resp.Body)
			rig.Same(t, "body", test.want, string(got))
			if test.typ == "" {
				test.typ = map[bool]string{true: jsonType, false: protobufForm.contentType}[test.accept == jsonType]
			}
			if typ := resp.Header.Get("Content-Type"); typ != test.typ {
				t.Errorf("content type %q, want %q", typ, test.typ)
			}
			if fails := test.err != nil || test.text != ""; (err != nil) != fails ||
				fails && (test.err != nil && !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.text)) {
				t.Errorf("error %v, want %v with %q", err, test.err, test.text)
			}
			if _, again := resp.Body.Read(make([]byte, 1)); again == nil || err != nil && again != err {
				t.Errorf("after the end: %v, want %v", again, err)
			}
		})
	}
}

var mega = strings.Repeat(" ", 1<<20)

// sendParts sends a message of so many megabytes, one in each frame, and perhaps its end.
func sendParts(conn net.Conn, opcode byte, megas int, ends bool) {
	for i := range megas {
		if _, err := conn.Write(part(ends && i == megas-1, opcode, mega)); err != nil {
			return
		}
		opcode = 0
	}
}

// TestTooLargeInParts is a message whose length nobody has announced.
func TestTooLargeInParts(t *testing.T) {
	for _, accept := range []string{jsonType, protoType} {
		synctest.Test(t, func(t *testing.T) {
			resp := open(t, accept, func(conn net.Conn) {
				go hear(conn)
				sendParts(conn, map[string]byte{jsonType: 1, protoType: 2}[accept], maxMessage>>20+2, false)
			})
			n, err := io.Copy(io.Discard, resp.Body)
			if err == nil || n > maxMessage+1 || !strings.Contains(err.Error(), "too big") {
				t.Errorf("%s: %d bytes and error %v, want at most %d and that the message is too big", accept, n, err, maxMessage)
			}
		})
	}
}

// TestLargest is a message that is almost as large as one may be, in one frame and in parts.
func TestLargest(t *testing.T) {
	const megas = maxMessage >> 20
	head := []byte{0x81, 127, 0, 0, 0, 0, maxMessage >> 24, maxMessage >> 16 & 0xff, 0, 0}
	for name, run := range map[string]func(conn net.Conn){
		"one frame": func(conn net.Conn) {
			conn.Write(head)
			for range megas {
				io.WriteString(conn, mega)
			}
		},
		"parts": func(conn net.Conn) { sendParts(conn, 1, megas, true) },
	} {
		synctest.Test(t, func(t *testing.T) {
			resp := open(t, jsonType, func(conn net.Conn) {
				run(conn)
				conn.Write(closing(normal))
				hear(conn)
			})
			if n, err := io.Copy(io.Discard, resp.Body); n != maxMessage+1 || err != nil { // a line break comes last
				t.Errorf("%s: %d bytes and error %v, want %d", name, n, err, maxMessage+1)
			}
		})
	}
}

// TestPrompt reads each event when it has come, and a burst at once.
func TestPrompt(t *testing.T) {
	for _, test := range []struct {
		accept  string
		packets [][]byte // each is sent when what it completes of the one before has been read
		want    []string
	}{
		{jsonType, [][]byte{text("{1}\n"), text("{2}\n")}, []string{"{1}\n", "{2}\n"}},
		{jsonType, [][]byte{append(text("{1}\n"), text("{2}\n")...)}, []string{"{1}\n{2}\n"}},
		{jsonType, [][]byte{append(text("{1}\n"), text("{2}")...)}, []string{"{1}\n{2}\n"}},
		{protoType, [][]byte{append(bin("\na"), bin("\nb")...)}, []string{"\x00\x00\x00\x02\na\x00\x00\x00\x02\nb"}},
		// What is not complete does not hold up what is.
		{jsonType, [][]byte{append(text("{1}\n"), text("{2}\n")[:4]...), text("{2}\n")[4:]}, []string{"{1}\n", "{2}\n"}},
		{jsonType, [][]byte{append(text("{1}\n"), part(false, 1, "{")...), part(true, 0, "2}\n")},
			[]string{"{1}\n", "{2}\n"}},
		{jsonType, [][]byte{append(text("{1}\n"), part(true, 9, "?")...), text("{2}\n")}, []string{"{1}\n", "{2}\n"}},
		{jsonType, [][]byte{append(append(text("{1}\n"), part(true, 9, "?")...), text("{2}\n")...)}, []string{"{1}\n{2}\n"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			resp := open(t, test.accept, func(conn net.Conn) {
				go hear(conn)
				for _, p := range test.packets {
					conn.Write(p)
					synctest.Wait()
				}
				conn.Write(closing(normal))
				hear(conn)
			})
			var got []string
			for {
				p := make([]byte, 512)
				n, err := resp.Body.Read(p)
				if err != nil {
					if err != io.EOF {
						t.Error(err)
					}
					break
				}
				got = append(got, string(p[:n]))
			}
			rig.Same(t, fmt.Sprintf("reads of %q", test.packets), test.want, got)
		})
	}
}

// TestSmallReads gets the same through the smallest of buffers.
func TestSmallReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp := open(t, protoType, then(send(bin("\nab"), part(false, 2, "\n"), part(true, 0, "c")),
			send(closing(normal)), hear))
		var got []byte
		for p := make([]byte, 1); ; {
			if n, err := resp.Body.Read(nil); n != 0 || err != nil {
				t.Fatalf("a Read of nothing: %d, %v", n, err)
			}
			n, err := resp.Body.Read(p)
			if err != nil {
				break
			}
			got = append(got, p[:n]...)
		}
		if want := "\x00\x00\x00\x03\nab\x00\x00\x00\x02\nc"; string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestAnswersPings checks that a server that pings hears the answer, while nothing else comes.
func TestAnswersPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan string, 1)
		resp := open(t, jsonType, func(conn net.Conn) {
			conn.Write(part(true, 9, "hello"))
			p := make([]byte, 2+4+5)
			io.ReadFull(conn, p)
			for i := range p[6:] {
				p[6+i] ^= p[2+i%4]
			}
			answer <- string(p[:1]) + string(p[6:])
			conn.Write(closing(normal))
			hear(conn)
		})
		if got, err := io.ReadAll(resp.Body); len(got) > 0 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if got, want := <-answer, "\x8ahello"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	})
}

// TestEnds ends a watch on which nothing comes: Read returns at once, the server sees the end of
// the connection, and the bubble fails if a goroutine is left.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(cancel func(), resp *http.Response){
		"Close":            func(_ func(), resp *http.Response) { resp.Body.Close() },
		"the context":      func(cancel func(), _ *http.Response) { cancel() },
		"both":             func(cancel func(), resp *http.Response) { go cancel(); resp.Body.Close() },
		"the body, twice":  func(_ func(), resp *http.Response) { go resp.Body.Close(); resp.Body.Close() },
		"context and body": func(cancel func(), resp *http.Response) { cancel(); synctest.Wait(); resp.Body.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			s := &script{run: then(send(text("{1}\n")), hear, func(net.Conn) { close(gone) })}
			resp := rig.Must[*http.Response](t)((&Transport{Base: s}).RoundTrip(watchOf(t, jsonType).WithContext(ctx)))
			read := make(chan error)
			go func() {
				_, err := io.Copy(io.Discard, resp.Body)
				read <- err
			}()
			synctest.Wait()
			end(cancel, resp)
			if err := <-read; !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: Read returned %v", name, err)
			}
			<-gone
			resp.Body.Close()
			cancel()
		})
	}
}

// masked returns a text frame with a mask, as only a client may send.
func masked(s string) []byte {
	frame := append([]byte{0x81, 0x80 | byte(len(s))}, 1, 2, 3, 4)
	for i := range len(s) {
		frame = append(frame, s[i]^byte(1+i%4))
	}
	return frame
}

// The header of a frame, byte by byte: it is complete when all of its length and its mask are
// there.
func TestParseFrame(t *testing.T) {
	for _, test := range []struct {
		header []byte
		want   frame
	}{
		{[]byte{0x81, 0}, frame{final: true, opcode: 1, header: 2}},
		{[]byte{0x02, 125}, frame{opcode: 2, header: 2, payload: 125}},
		{[]byte{0x00, 126, 1, 2}, frame{header: 4, payload: 0x102}},
		{[]byte{0x81, 127, 0, 0, 0, 0, 0, 1, 2, 3}, frame{final: true, opcode: 1, header: 10, payload: 0x10203}},
		// The highest bit of the length must be 0, and a sum of sizes must not overflow.
		{[]byte{0x81, 127, 0x80, 0, 0, 0, 0, 1, 2, 3}, frame{final: true, opcode: 1, header: 10, payload: 0x10203}},
		{[]byte{0x81, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, frame{final: true, opcode: 1, header: 10,
			payload: 1<<63 - 1}},
		{[]byte{0x81, 0x85, 1, 2, 3, 4}, frame{final: true, opcode: 1, masked: true, header: 6, payload: 5}},
		{[]byte{0x81, 0xfe, 1, 2, 1, 2, 3, 4}, frame{final: true, opcode: 1, masked: true, header: 8, payload: 0x102}},
	} {
		for n := range len(test.header) {
			if f, ok := parseFrame(test.header[:n]); ok {
				t.Errorf("%x: complete after %d bytes, as %+v", test.header, n, f)
			}
		}
		got, ok := parseFrame(append(test.header, 0xff))
		if !ok || got != test.want {
			t.Errorf("%x: %+v, %t, want %+v", test.header, got, ok, test.want)
		}
		if size := got.size(); size != test.want.payload+uint64(test.want.header) {
			t.Errorf("%x: %d bytes", test.header, size)
		}
	}
}

// silent is a reader from which nothing comes.
type silent struct{ reads int }

func (c *silent) Read([]byte) (int, error) { c.reads++; return 0, nil }

// A connection whose Read returns without a byte and without an error is given up after some time.
func TestNoProgress(t *testing.T) {
	c := &silent{}
	f := &frames{conn: at{c}, open: true}
	for range 3 {
		if n, err := f.Read(make([]byte, 10)); n != 0 || err != io.ErrNoProgress {
			t.Errorf("%d bytes and error %v", n, err)
		}
	}
	if c.reads != 100 {
		t.Errorf("it was read %d times", c.reads)
	}
}

// at is a connection that is read from a reader.
type at struct{ io.Reader }

func (at) Write(p []byte) (int, error) { return len(p), nil }
func (at) Close() error                { return nil }

// A connection that ends within a header may say so together with the last byte, or after it.
func TestEndWithTheLastByte(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"together": iotest.DataErrReader(strings.NewReader("\x81\x02{}\x81")),
		"after":    iotest.OneByteReader(strings.NewReader("\x81\x02{}\x81")),
	} {
		got, err := io.ReadAll(&frames{conn: at{r}, open: true})
		if string(got) != "\x81\x02{}" || err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %q and error %v", name, got, err)
		}
	}
}

// repeated is a reader that says the same over and over, one at a time, and then something
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

// TestAllocations: the WebSocket itself allocates nothing for an event.
func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		accept string
		frame  []byte
	}{{jsonType, text("{1}\n")}, {protoType, bin("\na")}, {jsonType, text(strings.Repeat(" ", 20_000) + "\n")}} {
		s := &script{run: func(net.Conn) {}}
		resp := rig.Must[*http.Response](t)((&Transport{Base: rig.RoundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(req)
			resp.Body.Close()
			resp.Body = at{&repeated{data: test.frame, times: 1 << 20}}
			return resp, err
		})}).RoundTrip(watchOf(t, test.accept)))
		p := make([]byte, 8<<10)
		read := func() { rig.Must[int](t)(resp.Body.Read(p)) }
		for range 10 {
			read() // until the buffers are as large as they get
		}
		if n := testing.AllocsPerRun(1000, read); n != 0 {
			t.Errorf("%v allocations for a Read of %s messages of %d bytes", n, test.accept, len(test.frame))
		}
		resp.Body.Close()
	}
}
