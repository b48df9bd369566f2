package rest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/decode"
)

const (
	// maxErrorBody is how many bytes of a refusal's body are read.
	maxErrorBody = 64 << 10
	// maxQuote is how many bytes of a body an error quotes.
	maxQuote = 200
)

// check returns the codec of resp if the server has accepted the request and answers in an encoding
// that the collection's decoder reads. Otherwise it returns an error. If the server refused with a
// Status, that is a *StatusError with the seconds of Retry-After in its details. If it refused with
// anything else, apimachinery makes the error from the status code, and the error quotes the body.
func (r *Request) check(resp *http.Response) (*codec, error) {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		if c := codecOf(resp); c != nil && c.reads(r.of.Decoder) {
			return c, nil
		}
		return nil, fmt.Errorf("%s with content type %q, want %s as %q: %s", resp.Status, resp.Header.Get("Content-Type"),
			r.wanted(), r.http.Header.Get("Accept"), quote(readSome(resp.Body, maxQuote)))
	}
	text := readSome(resp.Body, maxErrorBody)
	wait := retryAfter(resp)
	if status, ok := decode.Status(text, codecOfRefusal(resp).encoding); ok && status.Status != metav1.StatusSuccess {
		if status.Code == 0 {
			status.Code = int32(resp.StatusCode)
		}
		if status.Message == "" {
			status.Message = strings.TrimSpace(fmt.Sprintf("the server answered %s %s", resp.Status, status.Reason))
		}
		if wait > 0 {
			if status.Details == nil {
				status.Details = &metav1.StatusDetails{}
			}
			if status.Details.RetryAfterSeconds == 0 {
				status.Details.RetryAfterSeconds = int32(wait)
			}
		}
		return nil, &apierrors.StatusError{ErrStatus: *status}
	}
	said := quote(text)
	// An empty body is replaced by the status line.
	err := error(apierrors.NewGenericServerResponse(resp.StatusCode, resp.Request.Method, schema.GroupResource{}, "", cmp.Or(said, resp.Status), wait, true))
	if said != "" {
		err = WithWords(err)
	}
	// An HTTPS server made with Go answers a request without TLS in plain text: "Client sent an
	// HTTP request to an HTTPS server."
	if resp.Request.URL.Scheme == "http" && strings.Contains(said, "HTTPS") {
		err = fmt.Errorf("%w (%s)", err, speaksTLS)
	}
	return nil, err
}

// WithWords returns err and the words of the server, which refused with anything but a Status. For
// many codes NewGenericServerResponse, which client-go calls as well, has a text of its own, and
// leaves the words in the status's causes. An err that has them in its text is returned as it is,
// and so is one of another kind.
func WithWords(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	text := err.Error()
	for _, cause := range status.Status().Details.Causes {
		words, inText := quote([]byte(cause.Message)), strings.Trim(strconv.Quote(cause.Message), `"`)
		if cause.Type != metav1.CauseTypeUnexpectedServerResponse || words == "" || words == noWords ||
			strings.Contains(text, cause.Message) || strings.Contains(text, inText) {
			continue
		}
		err = fmt.Errorf("%w: %q", err, words)
	}
	return err
}

// noWords is the message of the cause if client-go got a body that is no text.
const noWords = "unknown"

// readSome returns at most the first n bytes of r. It ignores read errors, because the caller is
// making an error that matters more.
func readSome(r io.Reader, n int64) []byte {
	b, _ := io.ReadAll(io.LimitReader(r, n))
	return b
}

// quote returns the start of b as one line of valid UTF-8.
func quote(b []byte) string {
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(b[:min(len(b), maxQuote)])), " "), "")
}

// retryAfter returns how many seconds the response asks to wait, or 0 if it does not. The
// Retry-After header has either seconds or a date (RFC 9110, section 10.2.3). The time until a date
// is rounded to the nearest second.
func retryAfter(resp *http.Response) int {
	header := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		return int(max(seconds, 0))
	}
	if at, err := http.ParseTime(header); err == nil {
		return int(max(time.Until(at).Seconds()+0.5, 0))
	}
	return 0
}
