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
	"slices"
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
	of       string // the name of T
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
	begins   []byte // what of its beginning an error may have to be explained by
	room     [512]byte
}

// Read reads; what fails because ctx is done fails as ctx.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if len(b.begins) < len(b.room) {
		b.begins = append(b.begins, p[:min(n, len(b.room)-len(b.begins))]...)
	}
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
		return permanent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return permanent(r.failed(u, err))
	}
	maps.Copy(req.Header, r.header.Clone())
	req.Header.Set("Accept", r.accept)
	resp, err := r.confined().Do(req)
	if err != nil {
		return r.unanswered(ctx, u, err)
	}
	if resp.Request == nil {
		resp.Request = req // which not every http.RoundTripper sees to
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
	if err := r.check(resp, opts.Watch); err != nil {
		return r.refused(u, resp, opts.Watch, err)
	}
	b := &body{ctx: ctx, r: resp.Body, encoding: encodingOf(resp)}
	b.begins = b.room[:0]
	switch err := read(b).(type) {
	case nil, stopped:
		return err
	case *apierrors.StatusError:
		if err.ErrStatus.Code == 0 {
			err.ErrStatus.Code = int32(resp.StatusCode)
		}
		return r.unread(u, resp, b, opts.Watch, err)
	default:
		return r.unread(u, resp, b, opts.Watch, err)
	}
}

// confined returns the client, which sends the headers of the request to no other server than the URL's own: they may hold
// what proves who we are. Once a redirect has led away they are not sent again, not even to where it leads back: who sent us
// there is who chose what is asked for.
func (r *request) confined() *http.Client {
	client := r.client
	if client == nil {
		client = http.DefaultClient
	}
	if len(r.header) == 0 {
		return client
	}
	own := *client
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		home := via[0].URL
		away := func(r *http.Request) bool { return !sameOrigin(home, r.URL) }
		if away(req) || slices.ContainsFunc(via, away) {
			for name := range r.header {
				if name != "Accept" { // which is not what r.header says
					delete(req.Header, name)
				}
			}
		}
		if client.CheckRedirect != nil {
			return client.CheckRedirect(req, via)
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}
	return &own
}

// maxRedirects is how many net/http follows where it is told nothing else.
const maxRedirects = 10

// sameOrigin reports whether both URLs are of one server.
func sameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if p := u.Port(); p != "" {
			return p
		}
		return map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && port(a) == port(b)
}

// url returns the URL of the collection with the query of opts.
func (r *request) url(opts metav1.ListOptions) (*url.URL, error) {
	if r.base == "" {
		return nil, errors.New("lw: HTTP: no URL")
	}
	u, err := url.Parse(r.base)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the rest is the URL, whole
		}
		return nil, fmt.Errorf("lw: HTTP: URL %q: %w", shown(r.base), err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("lw: HTTP: URL %q: want http://host/… or https://host/…", shown(r.base))
	}
	opts.TypeMeta = metav1.TypeMeta{}
	params, err := queryparams.Convert(&opts)
	if err != nil {
		return nil, r.failed(u, fmt.Errorf("list options: %w", err))
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("lw: HTTP: URL %q: its query: %w", shown(r.base), err)
	}
	maps.Copy(query, params)
	if err := checkSelectors(query.Get("labelSelector"), query.Get("fieldSelector")); err != nil {
		return nil, r.failed(u, err)
	}
	u.RawQuery = query.Encode()
	return u, nil
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
