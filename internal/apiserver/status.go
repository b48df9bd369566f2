package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf returns err as a Status. An error that is not an API server's is an InternalError.
func statusOf(err error) *metav1.Status {
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

// writeStatus answers with a Status, and with Retry-After if the Status has it.
func writeStatus(w http.ResponseWriter, f format, status *metav1.Status) {
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	body := append(mustJSON(status), '\n')
	switch {
	case f.cbor():
		body = cborOf(mustJSON(status))
	case f.proto():
		message, err := status.Marshal()
		if err != nil {
			panic(err) // cannot happen: no field of a Status can fail
		}
		body = appendEnvelope(nil, status.APIVersion, status.Kind, message)
	}
	writeBody(w, f.contentType(false), int(status.Code), body)
}

// writeBody answers with a whole body. A client that has gone gets nothing, and nobody needs to
// know.
func writeBody(w http.ResponseWriter, contentType string, code int, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// notAcceptable is the answer to an Accept header that names no format of the resource.
func notAcceptable() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Code:    http.StatusNotAcceptable,
		Reason:  metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf("only the following media types are accepted: %s, %s, %s", typeJSON, typeProto, typeCBOR),
	}}
}
