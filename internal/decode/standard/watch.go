package standard

import (
	"bufio"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/decode"
)

const (
	// firstFrame is the memory for frames that a watch begins with, and keptFrame the most that it
	// keeps for the next one.
	firstFrame = 1 << 10
	keptFrame  = 256 << 10
	// magic begins an object in protobuf.
	magic = "k8s\x00"
)

// A frames reads the frames of a watch by a framer of apimachinery.
type frames struct {
	d      *decoder
	enc    decode.Encoding
	in     *counter
	framer io.Reader
	buf    []byte
	kinds  *decode.Kinds // checks those of the objects
	// kind and apiVersion are those of the first object. All objects of a watch have the same.
	kind, apiVersion string
}

// A counter counts the bytes that are read.
type counter struct {
	io.Reader
	n int
	// ended is n at the end of the last frame. The framer of protobuf takes a stream that ends behind
	// the length of a frame for one that ends between two.
	ended int
	// most is how many bytes may be read for one frame. The framers of JSON and CBOR have no limit,
	// and read as far ahead as the frame is long.
	most int
}

func (c *counter) Read(p []byte) (int, error) {
	if c.n-c.ended > c.most {
		return 0, errTooLarge
	}
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

var errTooLarge = errors.New("more than the limit")

// Watch implements Decoder. It never says that more is there: a framer does not tell.
func (d *decoder) Watch(r io.Reader, enc decode.Encoding, yield func(decode.Event) error) error {
	return d.watch(r, enc, d.opts.Kinds, yield)
}

// WatchList implements Decoder: the initial events are events like others.
func (d *decoder) WatchList(r io.Reader, enc decode.Encoding, yield func(decode.Event) error) error {
	return d.watch(r, enc, d.opts.Kinds.OfList(), yield)
}

func (d *decoder) watch(r io.Reader, enc decode.Encoding, kinds *decode.Kinds, yield func(decode.Event) error) error {
	f, err := d.frames(r, enc)
	if err != nil {
		return err
	}
	f.kinds = kinds
	for {
		frame, err := f.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		ev, err := f.event(frame)
		if err == nil {
			err = f.checkKind(&ev)
		}
		if err == nil && ev.InitialEventsEnd && f.kinds != d.opts.Kinds {
			d.opts.Kinds.Take(f.kinds)
			f.kinds = d.opts.Kinds
		}
		if err == nil {
			err = yield(ev)
		}
		if err != nil {
			return err
		}
		if len(f.buf) > keptFrame {
			f.buf = make([]byte, firstFrame)
		}
	}
}

// frames begins to read r.
func (d *decoder) frames(r io.Reader, enc decode.Encoding) (*frames, error) {
	f := &frames{d: d, enc: enc, buf: make([]byte, firstFrame), in: &counter{Reader: r, most: 2 * d.opts.Limit}}
	switch enc {
	case decode.Protobuf:
		buffered := bufio.NewReaderSize(r, 8<<10)
		if head, _ := buffered.Peek(len(magic)); string(head) == magic {
			return nil, notFrames(buffered)
		}
		f.in.Reader = buffered
		f.framer = protobuf.LengthDelimitedFramer.NewFrameReader(io.NopCloser(f.in))
	case decode.CBOR:
		f.framer = cbor.NewFramer().NewFrameReader(io.NopCloser(f.in))
	default:
		f.framer = json.Framer.NewFrameReader(io.NopCloser(f.in))
	}
	return f, nil
}

// notFrames returns the error for a stream that is one object without a frame: the answer to another
// request, or a Status.
func notFrames(r io.Reader) error {
	const enough = 64 << 10 // for a Status
	data, err := io.ReadAll(io.LimitReader(r, enough))
	var u runtime.Unknown
	if err == nil {
		u, err = readEnvelope(data)
	}
	switch {
	case err != nil:
		return cutOff(len(data), err)
	case u.Kind == "Status":
		return statusIn(data, decode.Protobuf)
	}
	return fmt.Errorf("no event: it is a %.100s", u.Kind)
}

// next returns the next frame, which is valid until the next call. At the end of the stream the
// error is io.EOF.
func (f *frames) next() ([]byte, error) {
	for size := 0; ; {
		n, err := f.framer.Read(f.buf[size:])
		size += n
		switch {
		case err == nil:
			f.in.ended = f.in.n
			if size > f.d.opts.Limit {
				return nil, f.d.tooLarge()
			}
			return f.buf[:size], nil
		case err != io.ErrShortBuffer:
			return nil, f.failed(err)
		case size >= f.d.opts.Limit:
			return nil, f.d.tooLarge()
		}
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
}

// failed returns the error of a stream in which err has come in the place of a frame.
func (f *frames) failed(err error) error {
	if errors.Is(err, errTooLarge) {
		return f.d.tooLarge()
	}
	if wrong, ok := errors.AsType[*stdjson.SyntaxError](err); ok {
		return &decode.SyntaxError{Offset: wrong.Offset, Msg: wrong.Error()}
	}
	if err == io.EOF && (f.enc != decode.Protobuf || f.in.n == f.in.ended) {
		return err
	}
	return cutOff(f.in.n, err)
}

// A frame is an event, or a body that is something else.
type frame struct {
	kind   string // of what is no event
	typ    string
	object []byte // nil: there is none
}

// read takes a frame apart.
func (f *frames) read(data []byte) (is frame, err error) {
	if f.enc == decode.JSON {
		var e struct {
			Kind   string             `json:"kind"`
			Type   string             `json:"type"`
			Object stdjson.RawMessage `json:"object"`
		}
		if err = unmarshal(data, &e); err != nil {
			err = syntax(err, data, "an event")
		}
		return frame{e.Kind, e.Type, e.Object}, err
	}
	var e metav1.WatchEvent
	if f.enc == decode.Protobuf {
		err = readMessage(data, &e)
	} else {
		var id decode.Ident
		id, err = readParts(data, &e)
		is.kind = id.Kind
	}
	is.typ, is.object = e.Type, e.Object.Raw
	return is, err
}

// event decodes an event. An ERROR event is its error.
func (f *frames) event(data []byte) (decode.Event, error) {
	e, err := f.read(data)
	switch {
	case err != nil:
		return decode.Event{}, fmt.Errorf("a frame: %w", shorten(err))
	case e.typ == "" && e.kind == "Status":
		return decode.Event{}, statusIn(data, f.enc)
	case e.typ == "" && e.object == nil && e.kind != "":
		return decode.Event{}, fmt.Errorf("no event: it is a %.100s", e.kind)
	case e.typ == "" && e.object == nil:
		return decode.Event{}, errors.New("no event: it has neither a type nor an object")
	case e.object == nil:
		return decode.Event{}, fmt.Errorf("an event %.40q without an object", e.typ)
	}
	switch watch.EventType(e.typ) {
	case watch.Added, watch.Modified, watch.Deleted:
		o := f.d.decode(e.object, f.enc, false)
		f.d.complete(&o, nil)
		return decode.Event{Type: e.typ, Object: o}, nil
	case watch.Bookmark:
		var o metav1.PartialObjectMetadata
		id, err := read(e.object, f.enc, &o)
		if err != nil {
			return decode.Event{}, fmt.Errorf("a bookmark: %w", shorten(err))
		}
		o.APIVersion, o.Kind = id.APIVersion, id.Kind
		return decode.Bookmark(&o)
	case watch.Error:
		return decode.Event{}, statusIn(e.object, f.enc)
	}
	return decode.Event{}, fmt.Errorf("an event of unknown type %.40q", e.typ)
}

// checkKind checks that all objects of the watch are of the source's kind, and of one version.
func (f *frames) checkKind(ev *decode.Event) error {
	id := &ev.Object.Ident
	switch {
	case id.Kind == "" || id.Kind == f.kind && id.APIVersion == f.apiVersion:
		return nil
	// The source may be of any kind, but these two are never its objects.
	case id.Kind == "Table" || id.Kind == "Status":
		return fmt.Errorf("a %s in the place of an object", id.Kind)
	// Where nobody said which kind it must be, a bookmark says nothing: it has no object.
	case ev.Type == string(watch.Bookmark) && !f.kinds.Given():
		return nil
	}
	if err := f.kinds.Object(id.Kind, id.APIVersion); err != nil {
		return err
	}
	switch {
	case ev.Type == string(watch.Bookmark): // its version may be another one
	case f.kind == "":
		f.kind, f.apiVersion = id.Kind, id.APIVersion
	default:
		return fmt.Errorf("a %.100s of %.100s after a %.100s of %.100s", id.Kind, id.APIVersion, f.kind, f.apiVersion)
	}
	return nil
}
