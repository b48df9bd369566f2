package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
)

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int32
		want metav1.StatusReason
	}{
		{errors.New("x"), 500, metav1.StatusReasonInternalError},
		{fmt.Errorf("wrapped: %w", apierrors.NewBadRequest("x")), 400, metav1.StatusReasonBadRequest},
		{&apierrors.StatusError{}, 500, ""},
	} {
		got := wire.Status(tt.err)
		if got.Code != tt.code || got.Reason != tt.want || got.Kind != "Status" || got.APIVersion != "v1" || got.Status != metav1.StatusFailure {
			t.Errorf("Status(%v) = %+v, want %d %s", tt.err, got, tt.code, tt.want)
		}
	}
}

// TestStatusOfSuccess checks that a Status stays what it says.
func TestStatusOfSuccess(t *testing.T) {
	got := wire.Status(&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusSuccess, Code: 200}})
	if got.Status != metav1.StatusSuccess || got.Code != 200 {
		t.Errorf("%+v", got)
	}
}

// TestWriteStatus reads an answer with apimachinery's decoders.
func TestWriteStatus(t *testing.T) {
	want := wire.Status(listopts.TooLarge(9, 5))
	for name, e := range encodings {
		w := httptest.NewRecorder()
		f := wire.Format{Encoding: e.Encoding, Shape: wire.Partial}
		wire.WriteStatus(w, f, want)
		header := http.Header{"Content-Type": {f.ContentType(false)}, "Content-Length": {strconv.Itoa(w.Body.Len())}, "Retry-After": {"1"}}
		if diff := cmp.Diff(header, w.Header()); diff != "" || w.Code != 504 {
			t.Errorf("%s: code %d, header (-want +got):\n%s", name, w.Code, diff)
		}
		// What marks the bytes as CBOR, of RFC 8949: a client may look for it.
		if marked := bytes.HasPrefix(w.Body.Bytes(), []byte("\xd9\xd9\xf7")); marked != (e.Encoding == wire.CBOR) {
			t.Errorf("%s: marked as CBOR: %t", name, marked)
		}
		got, kind, err := e.object.Decode(w.Body.Bytes(), nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got.GetObjectKind().SetGroupVersionKind(*kind)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
