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
	"k8s.io/apimachinery/pkg/runtime"
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

// An encoding is what a client asks for, and how it reads that.
type encoding struct {
	accept  string
	partial bool // metadata alone
	read    func(body *bufio.Reader) func() (told, error)
}

var encodings = []encoding{
	{"application/json", false, readJSON},
	{"application/cbor", false, readCBOR},
	{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", true, readProtobuf},
}

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

// metadataTold is what the metadata of an event tell.
func metadataTold(typ string, m *metav1.ObjectMeta, size string) (told, error) {
	ev := told{typ: typ, end: m.Annotations[metav1.InitialEventsAnnotationKey] == "true"}
	var err error
	if ev.version, err = strconv.ParseUint(m.ResourceVersion, 10, 64); err != nil {
		return ev, fmt.Errorf("the version of an event: %w", err)
	}
	ev.text = objectText(m.Namespace, m.Name, string(m.UID), m.ResourceVersion, size, m.Labels)
	return ev, nil
}

// jsonTold reads one event in JSON.
func jsonTold(data []byte) (told, error) {
	var ev struct {
		Type   string
		Object struct {
			Kind     string
			Code     int
			Size     int
			Metadata metav1.ObjectMeta
		}
	}
	if err := json.Unmarshal(data, &ev); err != nil {
		return told{}, fmt.Errorf("%w: %.200q", err, data)
	}
	if ev.Type == "ERROR" {
		return told{typ: ev.Type, code: ev.Object.Code}, nil
	}
	if ev.Object.Kind != "Widget" {
		return told{}, fmt.Errorf("the kind is %q: %.200q", ev.Object.Kind, data)
	}
	return metadataTold(ev.Type, &ev.Object.Metadata, strconv.Itoa(ev.Object.Size))
}

func readJSON(body *bufio.Reader) func() (told, error) {
	return func() (told, error) {
		line, err := body.ReadBytes('\n')
		if err == io.EOF && len(line) > 0 {
			err = fmt.Errorf("the end is in the middle of an event: %.200q", line)
		}
		if err != nil {
			return told{}, err
		}
		return jsonTold(line)
	}
}

func readCBOR(body *bufio.Reader) func() (told, error) {
	frames := cbor.NewFramer().NewFrameReader(io.NopCloser(body))
	var frame []byte
	buf := make([]byte, 64<<10)
	return func() (told, error) {
		for frame = frame[:0]; ; {
			n, err := frames.Read(buf)
			frame = append(frame, buf[:n]...)
			if err == nil {
				break
			}
			if !errors.Is(err, io.ErrShortBuffer) {
				return told{}, err
			}
		}
		var ev map[string]any
		if err := direct.Unmarshal(frame, &ev); err != nil {
			return told{}, err
		}
		data, err := json.Marshal(ev)
		if err != nil {
			return told{}, err
		}
		return jsonTold(data)
	}
}

func readProtobuf(body *bufio.Reader) func() (told, error) {
	return func() (told, error) {
		var size [4]byte
		if _, err := io.ReadFull(body, size[:]); err != nil {
			return told{}, err
		}
		data := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(body, data); err != nil {
			return told{}, fmt.Errorf("the end is in the middle of an event: %w", err)
		}
		var ev metav1.WatchEvent
		if err := ev.Unmarshal(data); err != nil {
			return told{}, err
		}
		const mark = 4 // "k8s" and a zero
		var object runtime.Unknown
		if err := object.Unmarshal(ev.Object.Raw[min(mark, len(ev.Object.Raw)):]); err != nil {
			return told{}, err
		}
		if ev.Type == "ERROR" {
			var status metav1.Status
			err := status.Unmarshal(object.Raw)
			return told{typ: ev.Type, code: int(status.Code)}, err
		}
		var partial metav1.PartialObjectMetadata
		if err := partial.Unmarshal(object.Raw); err != nil {
			return told{}, err
		}
		return metadataTold(ev.Type, &partial.ObjectMeta, "-")
	}
}

// A modelClient is a client of one watch.
type modelClient struct {
	name     string
	encoding encoding
	sees     modelSelector
	version  uint64 // that it asked from; with initial, the least one of the state
	initial  bool   // it wants the state
	endMark  bool   // and a bookmark at its end
	allows   bool   // bookmarks
	timed    bool   // it has asked for an end
	opened   int    // how many breaks there had been
	broken   bool   // there was one when its answer had begun
	ignored  bool   // the server may cut it off, because of what it sent
	sent     bool   // more than its request: TCP resets a connection that is closed with that unread
	gate     *gate
	conn     net.Conn // over gate
	reader   *bufio.Reader

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
	next := c.encoding.read(bufio.NewReader(resp.Body))
	for {
		ev, err := next()
		if err != nil {
			return resp.Close, err
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
