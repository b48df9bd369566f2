package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/decode"
)

// A Response is the response to a request that the server has accepted. Read reads the body, in an
// encoding that the collection's decoder reads. As soon as the request's context is done the body
// is closed, even if the client's transport ignores contexts.
type Response struct {
	request *Request
	http    *http.Response
	codec   *codec

	begins []byte // the first bytes of the body, by which Explain tells what it is
	// expected says that the body is what was asked for. The next Read lets go of begins, since a
	// watch may wait in it for long, and a program may have hundreds of watches.
	expected atomic.Bool

	// cancel ends the exchange. A body that is closed before its end and before this is read on by
	// net/http of Go 1.27, for up to 50 ms, in the hope that the connection can be used again. That
	// is good after a list. After a watch it would only hold the connection, and with a Read in
	// progress it would wait for that.
	cancel context.CancelFunc
	// stopWatching is the stop function of context.AfterFunc, which closes the body when the
	// context is done. It returns false if that has begun, or if it was called before.
	stopWatching func() bool
	closed       chan struct{} // closed when the body has been closed because the context is done
}

// maxBegins is how many bytes of a body tell what it is.
const maxBegins = 512

// Send sends the request and waits for the head of the response. The caller must call Finish on the
// response. If the server refused, errors.As finds the API's status error in the error.
func (r *Request) Send() (*Response, error) {
	ctx, cancel := context.WithCancel(r.http.Context())
	got, err := r.of.confined().Do(r.http.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, r.unanswered(err)
	}
	if got.Request == nil {
		got.Request = r.http // the user's http.RoundTripper may have left it out
	}
	resp := &Response{request: r, http: got, cancel: cancel, closed: make(chan struct{})}
	resp.stopWatching = context.AfterFunc(r.http.Context(), func() {
		defer close(resp.closed)
		resp.Close()
	})
	if resp.codec, err = r.check(got); err != nil {
		resp.Finish()
		return nil, r.refused(got, err)
	}
	return resp, nil
}

// Encoding returns the encoding of the body.
func (r *Response) Encoding() decode.Encoding { return r.codec.encoding }

// Read reads from the body. If the context is done, it returns the context's error in place of the
// body's.
func (r *Response) Read(p []byte) (int, error) {
	expected := r.expected.Load()
	if expected {
		r.begins = nil
	}
	n, err := r.http.Body.Read(p)
	if left := maxBegins - len(r.begins); !expected && left > 0 {
		r.begins = append(r.begins, p[:min(n, left)]...)
	}
	if err != nil && err != io.EOF {
		if done := r.request.http.Context().Err(); done != nil {
			err = done
		}
	}
	return n, err
}

// Close closes the body, so that a Read in another goroutine fails. A decoder that reads ahead
// calls it when the list has ended, to end its reading goroutine.
func (r *Response) Close() error {
	r.cancel()
	return r.http.Body.Close()
}

// Expected notes that the body begins as what was asked for does. Explain has nothing to add then.
func (r *Response) Expected() {
	if !r.expected.Load() { // each event comes by here, and a store costs more than a look
		r.expected.Store(true)
	}
}

// Finish closes the body. No goroutine of the response is left when it returns. It must be called
// exactly once: a second call may wait for ever.
func (r *Response) Finish() {
	if !r.stopWatching() {
		// The context is done, and a goroutine of context.AfterFunc is closing the body.
		<-r.closed
	}
	if r.request.watching {
		r.Close()
		return
	}
	r.http.Body.Close()
	r.cancel()
}

// Explain returns err, the error of decoding the response, with the URL. If the first bytes of the
// body show that the response is not what was asked for, it adds what has come instead. A nil err
// stays nil. No Read may run at the same time.
func (r *Response) Explain(err error) error {
	if err == nil {
		return nil
	}
	if status, ok := err.(*apierrors.StatusError); ok && status.ErrStatus.Code == 0 {
		status.ErrStatus.Code = int32(r.http.StatusCode)
	}
	what, hint := instead(r.codec, r.begins, r.request.watching)
	switch _, ok := err.(*decode.KindError); {
	case ok && hint != "":
		// A KindError says already which kind was wanted, and which has come.
		err = fmt.Errorf("%w (%s)", err, hint)
	case !ok && hint != "":
		err = fmt.Errorf("want %s, got %s (%s): %w", r.request.wanted(), what, hint, err)
	case !ok && what != "":
		err = fmt.Errorf("want %s, got %s: %w", r.request.wanted(), what, err)
	}
	return failed(r.request.url, r.request.redirected(r.http, err))
}
