package lw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/go-lw/lw/internal/decode"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
)

var (
	errNoName = errors.New("the object has no name")
)

func decodeError(key Key, err error) error { return &Error{Op: "decode", Key: key, Err: err} }

// A request is what an HTTP source asks for, whatever its type.
type request struct {
	base     string
	client   *http.Client
	accept   string
	header   http.Header
	protobuf bool // the response may be protobuf
}

// A body is that of a response which is known to be of its encoding.
type body struct {
	ctx      context.Context
	r        io.ReadCloser
	encoding decode.Encoding
}

// Read reads; what fails because ctx is done fails as ctx.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = b.ctx.Err()
	}
	return n, err
}

// Close lets a Read that waits fail: a list may end while its next bytes are awaited.
func (b *body) Close() error { return b.r.Close() }

// do sends the request and passes the body of its response to read. The body is closed before do returns, and as soon as ctx
// is done, whatever the client's transport makes of ctx.
func (r *request) do(ctx context.Context, opts metav1.ListOptions, read func(*body) error) error {
	u, err := r.url(opts)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return fmt.Errorf("lw: HTTP: %w", err)
	}
	maps.Copy(req.Header, r.header.Clone())
	req.Header.Set("Accept", r.accept)
	client := r.client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("lw: HTTP: %w", err)
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		resp.Body.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
		resp.Body.Close()
	}()
	if err := r.check(resp); err != nil {
		return err
	}
	err = read(&body{ctx, resp.Body, encodingOf(resp)})
	switch err := err.(type) {
	case *apierrors.StatusError:
		if err.ErrStatus.Code == 0 {
			err.ErrStatus.Code = int32(resp.StatusCode)
		}
		return err
	case nil, stopped, apierrors.APIStatus:
		return err
	}
	return fmt.Errorf("lw: HTTP: %w", err)
}

// redacted returns a source's URL as errors tell it, without a password and without what a request adds.
func redacted(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "the collection's URL" // which no request has been sent to
	}
	return u.Redacted()
}

// url returns the URL of the collection with the query of opts.
func (r *request) url(opts metav1.ListOptions) (string, error) {
	if r.base == "" {
		return "", errors.New("lw: HTTP: no URL")
	}
	u, err := url.Parse(r.base)
	if err != nil {
		return "", fmt.Errorf("lw: HTTP: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("lw: HTTP: URL %q: want http://host/… or https://host/…", u.Redacted())
	}
	opts.TypeMeta = metav1.TypeMeta{}
	params, err := queryparams.Convert(&opts)
	if err != nil {
		return "", fmt.Errorf("lw: HTTP: list options: %w", err)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", fmt.Errorf("lw: HTTP: URL %q: %w", u.Redacted(), err)
	}
	maps.Copy(query, params)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// acceptFor returns the Accept header for objects of type t.
func acceptFor(t reflect.Type, protobuf, watching bool) string {
	var as, stream string
	if watching {
		stream = ";stream=watch"
	}
	if t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		if !watching {
			as = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		}
	}
	var types []string
	if protobuf {
		types = append(types, protobufType+as+stream)
	}
	types = append(types, jsonType+as+stream)
	if as+stream != "" {
		types = append(types, jsonType)
	}
	return strings.Join(types, ",")
}

// encodingOf returns the encoding of a response that check has let pass.
func encodingOf(resp *http.Response) decode.Encoding {
	if mediaType(resp) == protobufType {
		return decode.Protobuf
	}
	return decode.JSON
}

// mediaType is the response's content type without parameters. One without any is taken for JSON, which its decoding will
// find out.
func mediaType(resp *http.Response) string {
	header := resp.Header.Get("Content-Type")
	if header == "" {
		return jsonType
	}
	t, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return t
}
