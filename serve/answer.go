package serve

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/wire"
)

// A format is how the objects of an answer look. Two formats are equal if they are the same.
type format struct {
	codec   *wire.Codec
	include metav1.IncludeObjectPolicy // what the rows of a table have beside the cells
}

// codecs are the codecs of a collection, one for each format.
type codecs [wire.Formats]*wire.Codec

func newCodecs(r *resource) (all codecs) {
	kind := metav1.TypeMeta{APIVersion: r.apiVersion(), Kind: r.kind}
	for _, e := range []wire.Encoding{wire.JSON, wire.Protobuf, wire.CBOR} {
		for _, s := range []wire.Shape{wire.Full, wire.Partial, wire.Table} {
			f := wire.Format{Encoding: e, Shape: s}
			all[f.Index()] = wire.NewCodec(f, kind, r.columnDefinitions())
		}
	}
	return all
}

// has reports whether the collection can be had in a format.
func (s *served) has(f wire.Format) bool {
	proto := s.proto
	onlyProto := false
	if s.raw {
		proto = s.rawProto.Load()
		onlyProto = proto
	}
	switch {
	case f.Shape == wire.Table:
		return f.Encoding == wire.JSON
	case f.Shape == wire.Partial:
		return true
	case f.Encoding == wire.Protobuf:
		return proto
	}
	return !onlyProto
}

// negotiate returns the format in which the client wants the answer.
func (q *request) negotiate(want wire.Want) (format, error) {
	f, err := wire.Negotiate(q.r.Header.Get("Accept"), want, q.served.has)
	if err != nil {
		return format{}, err
	}
	out := format{codec: q.served.codecs[f.Index()]}
	if f.Shape == wire.Table {
		out.include, err = includeObject(q.r.URL.Query().Get("includeObject"))
	}
	return out, err
}

// object returns the bytes of an item as the object of an answer.
func (s *served) object(i *item, f format) ([]byte, error) {
	if f.codec.Format().Shape != wire.Table {
		return s.body(i, f.codec.Format())
	}
	row, err := s.tableRow(i, f.include, time.Now())
	if err != nil {
		return nil, err
	}
	return f.codec.AppendTable(nil, &metav1.ListMeta{ResourceVersion: strconv.FormatUint(i.version, 10)}, true, row), nil
}

// element returns the bytes of an item as one of a list.
func (s *served) element(i *item, f format, now time.Time) ([]byte, error) {
	if f.codec.Format().Shape != wire.Table {
		return s.body(i, f.codec.Format())
	}
	return s.tableRow(i, f.include, now)
}

// fail answers with an error.
func (q *request) fail(err error) {
	f, _ := wire.Negotiate(q.r.Header.Get("Accept"), wire.WantStatus, func(f wire.Format) bool { return f.Shape == wire.Full })
	wire.WriteStatus(q.w, f, wire.Status(err))
}

// writeStatus answers with a Status that is no error.
func (q *request) writeStatus(status *metav1.Status) error {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Code = http.StatusOK
	f, err := wire.Negotiate(q.r.Header.Get("Accept"), wire.WantStatus, func(f wire.Format) bool { return f.Shape == wire.Full })
	if err != nil {
		return err
	}
	wire.WriteStatus(q.w, f, status)
	return nil
}

// writeItem answers with one object.
func (q *request) writeItem(code int, i *item) error {
	object, err := q.served.object(i, q.format)
	if err != nil {
		return err
	}
	codec := q.format.codec
	wire.WriteBody(q.w, codec.Format().ContentType(false), code, codec.AppendObject(nil, object))
	return nil
}

// writeList answers with a page. The bytes of its items go to the client from where they are: they
// are gone over once for their length, and once to write them.
func (q *request) writeList(p *page) error {
	s, codec, now := q.served, q.format.codec, time.Now()
	var total wire.Total
	table := codec.Format().Shape == wire.Table
	var rows [][]byte // of a table, whose rows are made for the request
	for _, i := range p.items {
		data, err := s.element(i, q.format, now)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if table {
			rows = append(rows, data)
		}
		total = codec.Add(total, len(data))
	}
	head := codec.AppendListHead(nil, &p.meta, total)
	write := func(w io.Writer) error {
		buf := make([]byte, 0, 64<<10)
		buf = append(buf, head...)
		flush := func() error {
			_, err := w.Write(buf)
			buf = buf[:0]
			return err
		}
		for n, i := range p.items {
			var data []byte
			if table {
				data = rows[n]
			} else {
				data = i.encoded(codec.Format())
			}
			if len(buf)+len(data)+16 > cap(buf) {
				if err := flush(); err != nil {
					return err
				}
			}
			buf = codec.AppendItemHead(buf, n == 0, len(data))
			buf = append(buf, data...)
		}
		buf = append(buf, codec.ListTail()...)
		return flush()
	}
	s.counts.lists.Add(1)
	header := q.w.Header()
	header.Set("Content-Type", codec.Format().ContentType(false))
	header.Set("Cache-Control", "no-cache, private")
	header.Set("Vary", "Accept, Accept-Encoding")
	length := codec.ListLength(len(head), total)
	if length >= minGzip && wire.AcceptsGzip(q.r.Header) {
		body, err := s.compressed(p, q.format, length, write)
		if err != nil {
			return err
		}
		header.Set("Content-Encoding", "gzip")
		header.Set("Content-Length", strconv.Itoa(len(body)))
		q.w.WriteHeader(http.StatusOK)
		return q.cut(q.send(body))
	}
	header.Set("Content-Length", strconv.FormatInt(length, 10))
	q.w.WriteHeader(http.StatusOK)
	return q.cut(write(deadlined{q}))
}

// A deadlined writes the body of an answer. A client that takes nothing for Limits.WriteTimeout is
// cut off.
type deadlined struct{ q *request }

func (d deadlined) Write(data []byte) (int, error) {
	// Where there are no deadlines, a client that is gone ends the request.
	_ = http.NewResponseController(d.q.w).SetWriteDeadline(time.Now().Add(d.q.h.opts.Limits.WriteTimeout))
	return d.q.w.Write(data)
}

// send writes a body in pieces, each of which may take Limits.WriteTimeout.
func (q *request) send(body []byte) error {
	_, err := io.CopyBuffer(deadlined{q}, onlyReader{bytes.NewReader(body)}, make([]byte, 64<<10))
	return err
}

type onlyReader struct{ io.Reader }

// cut breaks the connection if the body could not be written. Otherwise it lifts the deadline, for
// the next request.
func (q *request) cut(err error) error {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Time{})
	return nil
}

// minGzip is the length from which on lists are compressed, as with kube-apiserver.
const minGzip = 128 << 10

// compressed returns a list as gzip. That of a whole collection is made once for all who ask for
// the same version meanwhile.
func (s *served) compressed(p *page, f format, length int64, write func(io.Writer) error) ([]byte, error) {
	compress := func() (any, error) {
		b := bytes.NewBuffer(make([]byte, 0, length/4))
		z, err := gzip.NewWriterLevel(b, gzip.BestSpeed)
		if err == nil {
			err = write(z)
		}
		if err == nil {
			err = z.Close()
		}
		return b.Bytes(), err
	}
	if !p.whole || f.codec.Format().Shape == wire.Table {
		body, err := compress()
		return body.([]byte), err
	}
	body, err, _ := s.zipping.Do(fmt.Sprintf("%d %d %s", f.codec.Format().Index(), p.era, p.meta.ResourceVersion), compress)
	return body.([]byte), err
}
