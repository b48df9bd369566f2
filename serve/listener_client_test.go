package serve_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// A gate is a connection whose reads can be held up, or made short.
type gate struct {
	*net.TCPConn
	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	stalled bool
	bytes   int // of a read, at most; 0: as many as there are
	closed  bool
}

func newGate(c *net.TCPConn) *gate {
	g := &gate{TCPConn: c}
	g.changed.L = &g.mu
	return g
}

func (g *gate) Read(b []byte) (int, error) {
	g.mu.Lock()
	for g.stalled && !g.closed {
		g.changed.Wait()
	}
	if g.bytes > 0 {
		b = b[:min(len(b), g.bytes)]
	}
	g.mu.Unlock()
	return g.TCPConn.Read(b)
}

// set holds up the reads, or lets them go on with so many bytes each.
func (g *gate) set(stalled bool, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stalled, g.bytes = stalled, bytes
	g.changed.Broadcast()
}

func (g *gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.changed.Broadcast()
	g.mu.Unlock()
	return g.TCPConn.Close()
}

// A told is an event as a client was told of it.
type told struct {
	typ     string
	version uint64
	text    string // all that there is to say of an object
	end     bool   // of the initial events
	code    int    // of an ERROR
}

// modelForms are those in which clients watch.
var modelForms = []form{forms[0], forms[1], forms[5]}

// widgetText is all that a client can see of a Widget at a version.
func widgetText(w *Widget, version string, partial bool) string {
	size := "-"
	if !partial {
		size = strconv.Itoa(w.Size)
	}
	return objectText(w.Namespace, w.Name, string(w.UID), version, size, w.Labels)
}

func objectText(namespace, name, uid, version, size string, labels map[string]string) string {
	text := fmt.Sprintf("%s/%s %s version=%s size=%s", namespace, name, uid, version, size)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		if len(value) > 20 { // of the long ones the hash says enough
			hash := fnv.New64a()
			_, _ = io.WriteString(hash, value)
			value = fmt.Sprintf("%d bytes, %x", len(value), hash.Sum64())
		}
		text += fmt.Sprintf(" %s=%s", key, value)
	}
	return text
}

// toldOf reads an event of a watch.
func (f form) toldOf(ev eventOf) (told, error) {
	a, err := f.decode(ev.object)
	m := &a.Metadata
	switch {
	case err != nil:
		return told{}, err
	case ev.typ == "ERROR":
		return told{typ: ev.typ, code: a.Code}, nil
	case f.kind == "" && a.Kind != "Widget":
		return told{}, fmt.Errorf("the kind is %q: %.200q", a.Kind, ev.object)
	}
	version, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return told{}, fmt.Errorf("the version of an event: %w", err)
	}
	size := strconv.Itoa(a.Size)
	if f.kind != "" {
		size = "-"
	}
	return told{
		typ: ev.typ, version: version, end: m.Annotations[metav1.InitialEventsAnnotationKey] == "true",
		text: objectText(m.Namespace, m.Name, string(m.UID), m.ResourceVersion, size, m.Labels),
	}, nil
}

// eventReader returns what reads the next event of the body of a watch of a media type. Its error
// is io.EOF behind the last one alone.
func eventReader(mediaType string, body *bufio.Reader) func() (eventOf, error) {
	frames, buf := cbor.NewFramer().NewFrameReader(io.NopCloser(body)), make([]byte, 64<<10)
	return func() (eventOf, error) {
		switch mediaType {
		case "application/json":
			var ev struct {
				Type   string
				Object json.RawMessage
			}
			line, err := body.ReadBytes('\n')
			if err == io.EOF && len(line) > 0 {
				err = fmt.Errorf("the end is in the middle of an event: %.200q", line)
			}
			if err == nil {
				err = json.Unmarshal(line, &ev)
			}
			return eventOf{ev.Type, ev.Object}, err
		case "application/cbor-seq":
			var frame []byte
			for {
				n, err := frames.Read(buf)
				frame = append(frame, buf[:n]...)
				if err == nil {
					break
				}
				if !errors.Is(err, io.ErrShortBuffer) {
					return eventOf{}, err
				}
			}
			var ev map[string]any
			if err := direct.Unmarshal(frame, &ev); err != nil {
				return eventOf{}, err
			}
			object, err := direct.Marshal(ev["object"])
			return eventOf{ev["type"].(string), object}, err
		}
		var size [4]byte
		if _, err := io.ReadFull(body, size[:]); err != nil {
			return eventOf{}, err
		}
		data := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(body, data); err != nil {
			return eventOf{}, fmt.Errorf("the end is in the middle of an event: %w", err)
		}
		var ev metav1.WatchEvent
		err := ev.Unmarshal(data)
		return eventOf{ev.Type, ev.Object.Raw}, err
	}
}

// A modelClient is a client of one watch.
type modelClient struct {
	name    string
	form    form
	sees    modelSelector
	version uint64 // that it asked from; with initial, the least one of the state
	initial bool   // it wants the state
	endMark bool   // and a bookmark at its end
	allows  bool   // bookmarks
	timed   bool   // it has asked for an end
	opened  int    // how many breaks there had been
	broken  bool   // there was one when its answer had begun
	ignored bool   // the server may cut it off, because of what it sent
	sent    bool   // more than its request: TCP resets a connection that is closed with that unread
	gate    *gate
	conn    net.Conn // over gate
	reader  *bufio.Reader

	mu    sync.Mutex // guards the fields below
	code  int        // of the answer; 0: there is none yet
	told  []told
	ended bool
	err   error // with which it ended; nil: cleanly
}

// read reads the answer to the end.
func (c *modelClient) read() {
	closes, err := c.readAnswer()
	if err == io.EOF { // the last chunk has come
		err = nil
		if closes {
			if rest, _ := io.ReadAll(c.reader); len(rest) > 0 {
				err = fmt.Errorf("%q behind the end", rest)
			}
		}
	}
	c.end(err)
}

func (c *modelClient) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.err = true, err
}

// readAnswer reads the answer up to its end, with io.EOF, or to where it breaks off. closes says
// that the connection ends with the answer.
func (c *modelClient) readAnswer() (closes bool, err error) {
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return false, fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	c.mu.Lock()
	c.code = resp.StatusCode
	c.mu.Unlock()
	if resp.StatusCode != http.StatusOK {
		_, err := io.Copy(io.Discard, resp.Body)
		return false, err
	}
	next := eventReader(c.form.types[1], bufio.NewReader(resp.Body))
	for {
		came, err := next()
		if err != nil {
			return resp.Close, err
		}
		ev, err := c.form.toldOf(came)
		if err != nil {
			return false, err
		}
		c.mu.Lock()
		c.told = append(c.told, ev)
		c.mu.Unlock()
	}
}

// state returns what the client was told up to now, and whether that is all.
func (c *modelClient) state() (code int, all []told, ended bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, slices.Clip(c.told), c.ended, c.err
}
