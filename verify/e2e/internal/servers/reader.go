package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// A Reader sends requests to a server. It uses only net/http and encoding/json, so it shares no
// code with the library that is tested.
type Reader struct {
	server *Server
	token  string
	client *http.Client
}

// Reader returns a reader that authenticates with token and has its own connections. The default
// token is AdminToken.
func (s *Server) Reader(token string) *Reader {
	if token == "" {
		token = AdminToken
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	return &Reader{server: s, token: token, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 100, IdleConnTimeout: 10 * time.Second,
	}}}
}

// Close closes the idle connections.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// A StatusError is an answer with a status other than 2xx.
type StatusError struct {
	Code       int
	RetryAfter string
	Body       string
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Code, e.Body) }

// Do sends a request with in as its JSON body, or without a body if in is nil, and returns the body
// of the answer. contentType is the type of the request's body; "" means application/json. A status
// other than 2xx is a *StatusError.
func (r *Reader) Do(ctx context.Context, method, path, contentType string, in any) ([]byte, error) {
	resp, err := r.open(ctx, method, path, contentType, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Get returns the body of the answer to a GET.
func (r *Reader) Get(ctx context.Context, path string) ([]byte, error) {
	return r.Do(ctx, http.MethodGet, path, "", nil)
}

// Open returns the open body of the answer to a GET, such as a watch. The caller closes it.
func (r *Reader) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := r.open(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (r *Reader) open(ctx context.Context, method, path, contentType string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.server.URL+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set("Accept", "application/json")
	if in != nil {
		if contentType == "" {
			contentType = "application/json"
		}
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, &StatusError{resp.StatusCode, resp.Header.Get("Retry-After"), strings.TrimSpace(string(text))}
	}
	return resp, nil
}

// An Object is one object as the server sent it.
type Object struct {
	Namespace, Name, UID, ResourceVersion string

	Content map[string]any // the whole object without kind and apiVersion
}

// Key returns namespace/name, or only the name of an object without a namespace.
func (o *Object) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// ParseObject reads an object from its JSON.
func ParseObject(data []byte) (*Object, error) {
	var parsed struct {
		Metadata struct{ Namespace, Name, UID, ResourceVersion string }
	}
	if err := json.Unmarshal(data, &parsed); err != nil {
		return nil, err
	}
	o := &Object{Namespace: parsed.Metadata.Namespace, Name: parsed.Metadata.Name,
		UID: parsed.Metadata.UID, ResourceVersion: parsed.Metadata.ResourceVersion}
	if err := json.Unmarshal(data, &o.Content); err != nil {
		return nil, err
	}
	// An item of a list has neither of them; the same object in a watch event has both.
	delete(o.Content, "kind")
	delete(o.Content, "apiVersion")
	return o, nil
}

// List returns the objects of the collection at path, by key, and the collection's resource
// version. path may have a query.
func (r *Reader) List(ctx context.Context, path string) (map[string]*Object, string, error) {
	body, err := r.Get(ctx, path)
	if err != nil {
		return nil, "", err
	}
	var list struct {
		Metadata struct{ ResourceVersion, Continue string }
		Items    []json.RawMessage
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, "", err
	}
	if list.Metadata.Continue != "" {
		return nil, "", fmt.Errorf("servers: %s: only a part of the list", path)
	}
	objects := make(map[string]*Object, len(list.Items))
	for _, item := range list.Items {
		o, err := ParseObject(item)
		if err != nil {
			return nil, "", err
		}
		objects[o.Key()] = o
	}
	return objects, list.Metadata.ResourceVersion, nil
}
