package lw_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// FuzzHTTPResponse reads whatever a server or a proxy may answer. Nothing panics; what is refused is an error, an API's where it
// is one; what is yielded can be kept.
func FuzzHTTPResponse(f *testing.F) {
	const list = `{"kind":"SprocketList","metadata":{"resourceVersion":"2"},"items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}`
	const added = `{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}`
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`
	for _, body := range []string{
		list, added, status, list[:60], added + added[:30], `{"type":"ERROR","object":` + status + `}`, "<html>502</html>", "",
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`, "null", "[]", `{"items":[null,7,{}]}`, "k8s\x00\x0a\x00",
	} {
		for _, code := range []int{200, 410, 429, 500} {
			f.Add(code, "application/json", "1", body)
		}
	}
	f.Add(200, "application/vnd.kubernetes.protobuf", "", "k8s\x00\x0a\x04\x0a\x02v1")
	f.Add(200, "text/html; charset=\"", "Fri, 31 Dec 1999 23:59:59 GMT", "")
	f.Add(503, "", "-5", "busy")
	f.Add(204, "application/json;as=Table", "99999999999999999999", list)
	f.Fuzz(func(t *testing.T, code int, contentType, retryAfter, body string) {
		if code < 200 || code > 999 {
			return // no client of net/http passes it on
		}
		src := &lw.HTTP[*Sprocket]{URL: "http://apiserver/x", Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: code, Status: http.StatusText(code), Request: r, Body: io.NopCloser(strings.NewReader(body)),
				Header: http.Header{"Content-Type": {contentType}, "Retry-After": {retryAfter}},
			}, nil
		})}}
		check := func(op string, err error) {
			t.Helper()
			var api apierrors.APIStatus
			switch {
			case code >= 300 && err == nil:
				t.Errorf("%s: a %d is no error", op, code)
			case err != nil && err.Error() == "":
				t.Errorf("%s: an error without words: %#v", op, err)
			case errors.As(err, &api) && api.Status().Code == 0:
				t.Errorf("%s: a status without a code: %v", op, err)
			}
		}
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(s *Sprocket, err error) error {
			if err == nil && s.Name == "" || err != nil && s != nil {
				t.Errorf("List yields %+v, %v", s, err)
			}
			return nil
		})
		check("List", err)
		err = src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*Sprocket]) error {
			switch {
			case ev.Type == watch.Error:
				t.Errorf("Watch yields an error as an event: %+v", ev)
			case ev.Type == watch.Bookmark && (ev.Object != nil || ev.Err != nil):
				t.Errorf("Watch yields a bookmark with an object: %+v", ev)
			case ev.Type != watch.Bookmark && (ev.Object == nil) == (ev.Err == nil):
				t.Errorf("Watch yields %+v", ev)
			case ev.Object != nil && ev.Object.Name == "": // one without a version is for the reflector to refuse
				t.Errorf("Watch yields what cannot be kept: %+v", ev)
			}
			return nil
		})
		check("Watch", err)
	})
}
