package serve

import (
	"cmp"
	"log/slog"
	"math"
	"net"
	"net/http"
	"time"
)

// Options configure a [Handler]. The zero value refuses every request.
type Options struct {
	// Authorize is called for each request before anything else. It returns nil to allow it, or an
	// APIStatus such as that of apierrors.NewForbidden or NewUnauthorized; any other error is sent
	// as Forbidden. It may block; the context of the request ends with the request.
	//
	// nil refuses all requests, because what a program may read with its own credentials must not
	// be readable by whoever reaches it. [AllowAll] allows all.
	Authorize func(r *http.Request, a Attributes) error
	// Client names the client of a request for Limits. Default: its address without the port.
	Client func(r *http.Request) string
	Limits Limits
	// Forward answers the requests that a Handler cannot: discovery, unknown paths, fields and
	// formats, writes, and reads of the newest state while the informer's server does not answer; not
	// while it answers with an older one than is here. A reverse proxy to that server makes a relay a
	// whole API server to its clients. It gets what Authorize has allowed, and nothing that names no
	// resource where one is to be named. Headers are the client's, also those that impersonate.
	// Default: 404, 405 and 504.
	Forward http.Handler
	// BookmarkEvery is how often a watch that allows bookmarks gets one. Default: a minute.
	BookmarkEvery time.Duration
	// Logger gets one record for each event that cannot be encoded, and the records of the informers
	// that [ServeStore] runs. Default: slog.Default().
	Logger *slog.Logger
	// OnError is called with these errors as well, by any goroutine. It must not block.
	OnError func(error)
}

// Limits bound what clients can make a [Handler] do. A zero field means the default.
type Limits struct {
	Watches          int           // open at once; more get 429. Default: 20,000
	WatchesPerClient int           // the same, of one client. Default: 1,000
	Lists            int           // in progress at once; more wait 5 s, then get 429. Default: 1,000
	ListsPerClient   int           // the same, of one client. Default: a tenth of Lists
	WriteTimeout     time.Duration // a client that takes nothing for so long is cut off. Default: 30 s
	WatchTimeout     time.Duration // of a watch without timeoutSeconds, up to twice this. Default: 30 min
}

// AllowAll is an [Options.Authorize] that allows every request.
func AllowAll(*http.Request, Attributes) error { return nil }

// complete sets the defaults.
func (o *Options) complete() {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.BookmarkEvery = positive(o.BookmarkEvery, time.Minute)
	o.Limits.Watches = positive(o.Limits.Watches, 20_000)
	o.Limits.WatchesPerClient = positive(o.Limits.WatchesPerClient, 1000)
	o.Limits.Lists = positive(o.Limits.Lists, 1000)
	o.Limits.ListsPerClient = positive(o.Limits.ListsPerClient, max(1, o.Limits.Lists/10))
	o.Limits.WriteTimeout = positive(o.Limits.WriteTimeout, 30*time.Second)
	o.Limits.WatchTimeout = min(positive(o.Limits.WatchTimeout, 30*time.Minute), math.MaxInt64/2) // up to twice this
	if o.Client == nil {
		o.Client = func(r *http.Request) string {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if err != nil {
				return r.RemoteAddr
			}
			return host
		}
	}
}

// Attributes are what a request wants, for [Options.Authorize]. They are those by which
// kube-apiserver would authorize the same request.
type Attributes struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, watch or proxy also
	// where the path says so, or empty for another method; for a request that is about no resource,
	// the method in lower case.
	Verb                         string
	Group, Version, Resource     string // empty if the request is about no resource
	Subresource, Namespace, Name string // Name is also that which the field selector of a list or a watch requires
	// LabelSelector and FieldSelector are those of a list, a watch or a deletecollection.
	LabelSelector, FieldSelector, Query string
	Path                                string
}

// HistoryLimits bound a history. A zero field means the default.
type HistoryLimits struct {
	Events int   // Default: 10,000
	Bytes  int64 // of the encoded events, and of the objects that they have ended. Default: 64 MiB
}

func positive[N int | int64 | time.Duration](n, otherwise N) N {
	if n > 0 {
		return n
	}
	return otherwise
}
