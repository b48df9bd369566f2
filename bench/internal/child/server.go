package child

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
)

// A Server serves the same over plain HTTP/1.1, and over TLS and HTTP/2.
type Server struct{ plain, tls *httptest.Server }

// NewServer starts a server.
func NewServer(h http.Handler) *Server {
	s := &Server{httptest.NewServer(h), httptest.NewUnstartedServer(h)}
	s.tls.EnableHTTP2 = true
	// The server of Go allows 250 streams of a connection, and a connection more would be counted.
	s.tls.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000}
	s.tls.StartTLS()
	return s
}

// Address returns the URL, and the certificate that a client has to trust.
func (s *Server) Address(tls bool) (url string, ca []byte) {
	if !tls {
		return s.plain.URL, nil
	}
	return s.tls.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.tls.Certificate().Raw})
}

// Close ends all requests.
func (s *Server) Close() {
	for _, t := range []*httptest.Server{s.plain, s.tls} {
		t.CloseClientConnections()
		t.Close()
	}
}

// Emit asks the server at url to send n events of that change.
func Emit(client *http.Client, url string, n int, change string) error {
	resp, err := client.Post(fmt.Sprintf("%s/emit?n=%d&change=%s", url, n, change), "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("emit: %s", resp.Status)
	}
	return nil
}
