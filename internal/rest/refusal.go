package rest

import (
	"cmp"
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

// check returns the codec of a response that is one asked for. For any other response it returns an
// error: if the server refused, its status error, with Retry-After in its details; else one that
// shows what the server sent.
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
	// The status stands for a body that says nothing.
	err := error(apierrors.NewGenericServerResponse(resp.StatusCode, resp.Request.Method, schema.GroupResource{}, "", cmp.Or(said, resp.Status), wait, true))
	if said != "" && !strings.Contains(err.Error(), said) {
		err = fmt.Errorf("%w: %q", err, said)
	}
	if resp.Request.URL.Scheme == "http" && strings.Contains(said, "HTTPS") {
		err = fmt.Errorf("%w (%s)", err, speaksTLS)
	}
	return nil, err
}

// readSome returns at most the first n bytes of r. It ignores read errors: an error that matters
// more is being made.
func readSome(r io.Reader, n int64) []byte {
	b, _ := io.ReadAll(io.LimitReader(r, n))
	return b
}

// quote returns the start of b as one line of valid UTF-8.
func quote(b []byte) string {
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(b[:min(len(b), maxQuote)])), " "), "")
}

// retryAfter returns how many seconds the response asks to wait. The Retry-After header has either
// seconds or a date (RFC 9110, section 10.2.3). It returns 0 if there is none.
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
