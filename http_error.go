package lw

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw/internal/decode"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// maxErrorBody is how much of the body of a refusal is read.
	maxErrorBody = 64 << 10
	// maxQuote is how much of a body an error quotes.
	maxQuote = 200
)

// check returns an error for a response that is not the one asked for: the API's status error where the server refused, with
// Retry-After in it, or one that shows what the server sent instead.
func (r *request) check(resp *http.Response, watching bool) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		switch t := mediaType(resp); {
		case t == jsonType || t == protobufType && r.protobuf:
			return nil
		default:
			return fmt.Errorf("%s with content type %q, want %s as %q: %s", resp.Status, resp.Header.Get("Content-Type"),
				r.wanted(watching), r.accept, quote(readSome(resp.Body, maxQuote)))
		}
	}
	text := readSome(resp.Body, maxErrorBody)
	wait := retryAfterOf(resp)
	if status, ok := decode.Status(text, encodingOf(resp)); ok && status.Status != metav1.StatusSuccess {
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
		return &apierrors.StatusError{ErrStatus: *status}
	}
	said := quote(text)
	err := error(apierrors.NewGenericServerResponse(resp.StatusCode, resp.Request.Method, schema.GroupResource{}, "", said, wait, true))
	if said != "" && !strings.Contains(err.Error(), said) {
		err = fmt.Errorf("%w: %q", err, said)
	}
	if resp.Request.URL.Scheme == "http" && strings.Contains(said, "HTTPS") {
		err = fmt.Errorf("%w (%s)", err, speaksTLS)
	}
	return err
}

// readSome returns the first n bytes of r at most. What the reading fails of does not matter beside what it is read for.
func readSome(r io.Reader, n int64) []byte {
	b, _ := io.ReadAll(io.LimitReader(r, n))
	return b
}

// quote returns the start of b in one line.
func quote(b []byte) string {
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(b[:min(len(b), maxQuote)])), " "), "")
}

// retryAfterOf returns the seconds that the response asks to wait for, which it says as such or as a time; 0 for none.
func retryAfterOf(resp *http.Response) int {
	header := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		return int(max(seconds, 0))
	}
	if at, err := http.ParseTime(header); err == nil {
		return int(max(time.Until(at).Seconds()+0.5, 0))
	}
	return 0
}
