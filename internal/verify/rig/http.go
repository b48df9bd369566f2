package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
)

// A Sprocket is an API type as it is written for a custom resource.
type Sprocket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Color string `json:"color"`
	} `json:"spec"`
}

// A Gadget is an API type of the tests, without protobuf.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int `json:"size"`
	} `json:"spec"`
}

func (g *Gadget) DeepCopyObject() runtime.Object { c := *g; return &c }

// RoundTrip is a server that answers at once.
type RoundTrip func(*http.Request) (*http.Response, error)

func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A TestBody is a response's body which knows whether it was closed.
type TestBody struct {
	io.Reader
	closed *bool
}

func (b TestBody) Close() error { *b.closed = true; return nil }

// Late returns a response's body whose every part comes late, unless it is closed meanwhile.
func Late(body io.ReadCloser, by time.Duration) io.ReadCloser {
	ctx, closed := context.WithCancel(context.Background())
	return &lateBody{body, by, ctx, closed}
}

type lateBody struct {
	io.ReadCloser
	by     time.Duration
	ctx    context.Context
	closed func()
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-time.After(b.by):
	case <-b.ctx.Done():
	}
	return n, err
}

func (b *lateBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// Answer returns a client of a server that gives one answer, and what it was asked.
func Answer(status int, header http.Header, body string) (c *http.Client, asked *http.Request, closed *bool) {
	asked, closed = &http.Request{}, new(bool)
	return &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
		*asked = *r
		return &http.Response{
			Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
			Header: header, Body: TestBody{strings.NewReader(body), closed}, Request: r,
		}, nil
	})}, asked, closed
}

// ContentType is a header of a response.
func ContentType(t string) http.Header { return http.Header{"Content-Type": {t}} }

// Yield is what a source yielded: keys with versions, and errors.
type Yield struct {
	What []string
	Errs []error
}

// ListAll returns what a list yields.
func ListAll[T lw.Object](ctx context.Context, src lw.Source[T], opts metav1.ListOptions) (Yield,
	metav1.ListMeta, error) {
	var t Yield
	m, err := src.List(ctx, opts, func(obj T, err error) error {
		if err != nil {
			t.Errs = append(t.Errs, err)
			return nil
		}
		t.What = append(t.What, lw.KeyOf(obj).String()+"@"+obj.GetResourceVersion())
		return nil
	})
	return t, m, err
}

// Matches reports whether err has the text, or is nil where there is none.
func Matches(err error, text string) bool {
	return (err == nil) == (text == "") && (err == nil || strings.Contains(err.Error(), text))
}

// Numberless is a projection of which a field has no number.
type Numberless struct {
	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec    struct {
		Color string `json:"color"`
		Size  int    `json:"size"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}
