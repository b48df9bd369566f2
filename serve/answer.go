package serve

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// inFormat calls answer when the format of the answer is known.
func (q *request) inFormat(want wire.Want, answer func() error) error {
	has := q.collection.encoder.has
	if q.target.Subresource == registry.SubScale {
		has = func(f wire.Format) bool { return f == wire.Format{} }
	}
	f, err := wire.Negotiate(q.r.Header.Get("Accept"), want, has)
	if err != nil {
		return err
	}
	q.format = format{codec: q.collection.encoder.codecs[f.Index()]}
	if f.Shape == wire.Table {
		if q.format.include, err = wire.IncludeObject(q.r.URL.Query().Get("includeObject")); err != nil {
			return err
		}
	}
	return answer()
}

// fail answers with an error.
func (q *request) fail(err error) { q.writeStatus(wire.Status(err)) }

// writeStatus answers with a Status.
func (q *request) writeStatus(status *metav1.Status) {
	f, _ := wire.Negotiate(q.r.Header.Get("Accept"), wire.WantStatus, func(f wire.Format) bool { return f.Shape == wire.Full })
	wire.WriteStatus(q.w, f, status)
}

// writeItem answers with one object.
func (q *request) writeItem(code int, i *item) error {
	object, err := q.collection.encoder.object(i, q.format)
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
	c, codec := q.collection, q.format.codec
	if codec.Format().Shape == wire.Table {
		return q.writeTable(p)
	}
	var total wire.Total
	for _, i := range p.items {
		data, err := c.encoder.body(i, codec.Format())
		if err != nil {
			return apierrors.NewInternalError(err)
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
			data := i.encoded(codec.Format())
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
	header := q.listHeader()
	length := codec.ListLength(len(head), total)
	if length >= minGzip && wire.AcceptsGzip(q.r.Header) {
		body, err := c.compressed(p, q.format, length, write)
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
	return q.cut(write(deadlineWriter{q}))
}

// listHeader counts a list that is answered, and returns the headers of the answer.
func (q *request) listHeader() http.Header {
	q.collection.counts.lists.Add(1)
	header := q.w.Header()
	header.Set("Content-Type", q.format.codec.Format().ContentType(false))
	header.Set("Cache-Control", "no-cache, private")
	header.Set("Vary", "Accept, Accept-Encoding")
	return header
}

// writeTable answers with a page as a table. Its rows are made for the request, so only a buffer of
// them is there at a time. If they fit into one, the answer has a length, and an error its own
// code; else an error that comes late breaks the answer off.
func (q *request) writeTable(p *page) error {
	codec, now := q.format.codec, time.Now()
	buf := codec.AppendListHead(make([]byte, 0, minGzip), &p.meta, wire.Total{})
	var out io.WriteCloser // nil: nothing is sent yet
	put := func(head, data []byte) (err error) {
		if len(buf)+len(head)+len(data) >= minGzip {
			if out == nil {
				out = q.beginTable()
			}
			_, err = out.Write(buf)
			buf = buf[:0]
		}
		buf = append(append(buf, head...), data...)
		return err
	}
	for n, i := range p.items {
		row, err := q.collection.encoder.tableRow(i, q.format.include, now)
		if err != nil && out == nil {
			return apierrors.NewInternalError(err)
		}
		if err != nil {
			q.collection.encoder.report(err)
			return q.cut(err)
		}
		if err := put(codec.AppendItemHead(nil, n == 0, len(row)), row); err != nil {
			return q.cut(err)
		}
	}
	if err := put(nil, []byte(codec.ListTail())); err != nil {
		return q.cut(err)
	}
	if out == nil {
		q.listHeader().Set("Content-Length", strconv.Itoa(len(buf)))
		q.w.WriteHeader(http.StatusOK)
		return q.cut(q.send(buf))
	}
	_, err := out.Write(buf)
	return q.cut(errors.Join(err, out.Close()))
}

// beginTable begins the answer with a table whose length is not known, and returns what takes it.
func (q *request) beginTable() io.WriteCloser {
	header := q.listHeader()
	if wire.AcceptsGzip(q.r.Header) {
		under := bufio.NewWriterSize(deadlineWriter{q}, 32<<10) // gzip writes a few bytes at a time
		if z, err := gzip.NewWriterLevel(under, gzip.BestSpeed); err == nil {
			header.Set("Content-Encoding", "gzip")
			q.w.WriteHeader(http.StatusOK)
			return gzipWriter{z, under}
		}
	}
	q.w.WriteHeader(http.StatusOK)
	return deadlineWriter{q}
}

// A gzipWriter compresses what it writes.
type gzipWriter struct {
	*gzip.Writer
	under *bufio.Writer
}

func (z gzipWriter) Close() error { return errors.Join(z.Writer.Close(), z.under.Flush()) }

// A deadlineWriter writes the body of an answer. A client that takes nothing for
// Limits.WriteTimeout is cut off.
type deadlineWriter struct{ q *request }

func (d deadlineWriter) Write(data []byte) (int, error) {
	// Where there are no deadlines, a client that is gone ends the request.
	_ = http.NewResponseController(d.q.w).SetWriteDeadline(time.Now().Add(d.q.h.opts.Limits.WriteTimeout))
	return d.q.w.Write(data)
}

func (d deadlineWriter) Close() error { return nil }

// send writes a body in pieces, each of which may take Limits.WriteTimeout.
func (q *request) send(body []byte) error {
	_, err := io.CopyBuffer(deadlineWriter{q}, onlyReader{bytes.NewReader(body)}, make([]byte, 64<<10))
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
func (c *collection) compressed(p *page, f format, length int64, write func(io.Writer) error) ([]byte, error) {
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
	if !p.whole {
		body, err := compress()
		return body.([]byte), err
	}
	body, err, _ := c.zipping.Do(fmt.Sprintf("%d %d %s", f.codec.Format().Index(), p.era, p.meta.ResourceVersion), compress)
	return body.([]byte), err
}

// A page is the answer to a list: one state, and the items of it that are asked for.
type page struct {
	meta  metav1.ListMeta
	items []*item
	whole bool // all items of the collection
	era   int  // of the history: after a new beginning a version may be that of another state
}
