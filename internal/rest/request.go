package rest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
)

// A Collection is a collection of objects on an API server. Its fields must not be changed while a
// request of it is in use.
type Collection struct {
	// URL is the collection's URL. It may have a query, to which that of a request is added.
	URL string
	// Objects is what errors call the objects, such as Pod.
	Objects string
	// Client sends the requests; nil: http.DefaultClient.
	Client *http.Client
	// Header is added to requests to the server of URL, and not sent to any other.
	Header http.Header
	// Accept is the Accept header; "": the encodings that Decoder reads.
	Accept string
	// Decoder is what the caller decodes the responses with. This package only asks it which
	// encodings it reads.
	Decoder Protobufs
	// Metadata says that the server should send only the metadata of each object, as a
	// metav1.PartialObjectMetadata.
	Metadata bool
}

// Protobufs is a decoder that may read protobuf beside JSON and CBOR.
type Protobufs interface{ Protobuf() bool }

// A Request is a list or a watch of a Collection that can be sent.
type Request struct {
	of       *Collection
	url      *url.URL
	watching bool
	http     *http.Request // its context ends the request and the reading of the response
}

// Request returns the request that opts describe: a watch if opts.Watch is set, else a list. It
// sends nothing. It fails only if a URL, a selector or a header is invalid, so a retry cannot help.
func (c *Collection) Request(ctx context.Context, opts metav1.ListOptions) (*Request, error) {
	u, err := c.url(opts)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, failed(u, err)
	}
	maps.Copy(r.Header, c.Header.Clone())
	r.Header.Set("Accept", c.accept(opts.Watch))
	if err := checkHeader(r.Header); err != nil {
		return nil, failed(u, err)
	}
	return &Request{of: c, url: u, watching: opts.Watch, http: r}, nil
}

// url returns the URL of the collection with the query of opts. A selector of opts selects among
// what that of the URL does: it may name one object, to ask whether the collection has it.
func (c *Collection) url(opts metav1.ListOptions) (*url.URL, error) {
	if c.URL == "" {
		return nil, errors.New("lw: HTTP: no URL")
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may have a password
		}
		return nil, fmt.Errorf("lw: HTTP: URL %q: %w", Redacted(c.URL), err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("lw: HTTP: URL %q: want http://host/… or https://host/…", Redacted(c.URL))
	}
	opts.TypeMeta = metav1.TypeMeta{}
	params, err := queryparams.Convert(&opts)
	if err != nil {
		return nil, failed(u, fmt.Errorf("list options: %w", err))
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("lw: HTTP: URL %q: its query: %w", Redacted(c.URL), err)
	}
	for _, name := range []string{"labelSelector", "fieldSelector"} {
		if own := query.Get(name); own != "" && params.Has(name) {
			params.Set(name, own+","+params.Get(name))
		}
	}
	maps.Copy(query, params)
	if err := CheckSelectors(query.Get("labelSelector"), query.Get("fieldSelector")); err != nil {
		return nil, failed(u, err)
	}
	u.RawQuery = query.Encode()
	return u, nil
}
