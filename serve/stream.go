package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/wire"
)

// A stream writes the events of a watch. put gets each frame, in order; its error ends the watch.
type stream struct {
	collection *collection
	format     format
	put        func(f frame) error
	flush      func() error
	guard      *guard // of a stream over net/http
}

// errGone says that the client takes nothing any more.
var errGone = errors.New("serve: the client is gone")

// gone returns the error of a write as an errGone.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// A guard cuts off a client that takes nothing for a while. It sets a deadline only then: over
// HTTP/2 a deadline ends a stream also if nothing waits to be written, and to move it costs more
// than to write an event.
type guard struct {
	timeout time.Duration
	timer   *time.Timer

	mu      sync.Mutex // guards control, which must not be used after the end of the request
	control *http.ResponseController
}

func newGuard(control *http.ResponseController, timeout time.Duration) *guard {
	g := &guard{timeout: timeout, control: control}
	g.timer = time.AfterFunc(timeout, g.cut)
	g.timer.Stop()
	return g
}

// begin says that something is being written; rest says that nothing is.
func (g *guard) begin() { g.timer.Reset(g.timeout) }
func (g *guard) rest()  { g.timer.Stop() }

func (g *guard) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.control != nil {
		// Where there are no deadlines, a client that is gone ends the request.
		_ = g.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// close is called before the request ends.
func (g *guard) close() {
	g.rest()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.control = nil
}

// event sends an event of the history.
func (out *stream) event(e *event, typ watch.EventType) error {
	f, err := out.collection.encoder.frameOf(e, typ, out.format)
	if err != nil {
		return err
	}
	out.collection.counts.events.Add(1)
	return out.put(f)
}

// item sends an item of the state with which the watch begins.
func (out *stream) item(typ watch.EventType, i *item) error {
	f, err := out.collection.encoder.itemFrame(i, i.version, typ, out.format)
	if err != nil {
		return err
	}
	return out.put(f)
}

// bookmark sends a bookmark. end says that it ends the initial events.
func (out *stream) bookmark(version uint64, end bool) error {
	codec := out.format.codec
	object := codec.Bookmark(version, end)
	return out.put(newFrame(len(object)+64, func(b []byte) []byte { return codec.AppendEvent(b, watch.Bookmark, object) }))
}

// failure sends the ERROR event with which a watch ends.
func (out *stream) failure(err error) error {
	if apierrors.IsResourceExpired(err) {
		out.collection.counts.expired.Add(1)
	}
	return out.put(newFrame(512, func(b []byte) []byte { return out.format.codec.AppendErrorEvent(b, wire.Status(err)) }))
}

// end ends the answer. err says why: io.EOF that its time is over.
func (out *stream) end(err error) error {
	if !errors.Is(err, errGone) {
		if !errors.Is(err, io.EOF) {
			err = out.failure(err)
		}
		err = errors.Join(err, out.flush())
	}
	if errors.Is(err, errGone) {
		panic(http.ErrAbortHandler) // not the end of a stream, but a break
	}
	return nil
}
