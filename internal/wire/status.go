package wire

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status returns err as a Status. An error that is not an API server's, and wraps none, is an
// InternalError.
func Status(err error) *metav1.Status {
	var status metav1.Status
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		status = api.Status()
	} else {
		status = apierrors.NewInternalError(err).ErrStatus
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return &status
}

// WriteStatus answers with a Status, which must have its kind, and its code unless that is 200, and
// with Retry-After if the Status has that.
func WriteStatus(w http.ResponseWriter, f Format, status *metav1.Status) {
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	body := encodeStatus(f.Encoding, status)
	switch f.Encoding {
	case Protobuf:
		body = appendEnvelope(nil, envelopeKind(status.TypeMeta), body)
	case CBOR:
		body = append([]byte(selfDescribed), body...)
	default:
		body = append(body, '\n')
	}
	WriteBody(w, f.ContentType(false), cmp.Or(int(status.Code), http.StatusOK), body)
}

// encodeStatus returns a Status as the bytes of an object.
func encodeStatus(e Encoding, status *metav1.Status) []byte {
	switch e {
	case Protobuf:
		return must(status.Marshal())
	case CBOR:
		return mustCBOR(status)
	}
	return mustJSON(status)
}

// WriteBody answers with a whole body. A client that has gone gets nothing, and nobody needs to
// know.
func WriteBody(w http.ResponseWriter, contentType string, code int, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// AcceptsGzip reports whether a request accepts a body that is compressed by gzip. As with
// kube-apiserver, a q of 0 does not matter.
func AcceptsGzip(header http.Header) bool {
	for part := range strings.SplitSeq(header.Get("Accept-Encoding"), ",") {
		if name, _, _ := strings.Cut(part, ";"); strings.TrimSpace(name) == "gzip" {
			return true
		}
	}
	return false
}

// MaxBody is how many bytes a request may have, as with kube-apiserver.
const MaxBody = 3 << 20

// TooLarge is the error of what has more bytes than MaxBody.
func TooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", MaxBody))
}

// ReadBody reads the body of a request. Its errors are Status errors.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, TooLarge()
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return body, nil
}
