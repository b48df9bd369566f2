package rest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// answered returns the error of a list that is answered with these.
func answered(t *testing.T, code int, contentType string, body []byte) error {
	_, err := send(t, t.Context(), answering(t, func(*http.Request) (*http.Response, error) {
		return response(code, contentType, io.NopCloser(bytes.NewReader(body))), nil
	}), false)
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

// An error quotes the beginning of what came instead of an API object, as one line of UTF-8.
func TestWhatIsQuoted(t *testing.T) {
	page := []byte("<html>\r\n\t<h1>Sign  in\xff</h1>\n</html>")
	for name, err := range map[string]error{
		"200": answered(t, 200, "text/html", page),
		"502": answered(t, 502, "text/html", page),
	} {
		if want := "<html> <h1>Sign in</h1> </html>"; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q does not contain %q", name, err, want)
		}
	}
	long := answered(t, 502, "text/html", []byte(strings.Repeat("x", 2000)))
	if n := strings.Count(long.Error(), "x"); n < maxQuote || n > maxQuote+20 {
		t.Errorf("%d bytes are quoted: %v", n, long)
	}
	short := answered(t, 502, "text/plain", nil)
	var status apierrors.APIStatus
	if !errors.As(short, &status) || status.Status().Code != 502 || !strings.Contains(short.Error(), `("said so")`) {
		t.Errorf("nothing came: %v", short)
	}
}

// A port that speaks TLS answers plain HTTP with a hint, which the error passes on as a hint of ours.
func TestSpeaksTLS(t *testing.T) {
	err := answered(t, 400, "text/plain", []byte("Client sent an HTTP request to an HTTPS server.\n"))
	if !strings.Contains(err.Error(), speaksTLS) {
		t.Errorf("%v", err)
	}
}
