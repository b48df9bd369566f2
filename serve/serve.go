package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/version"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/wire"
)

// A Handler serves collections to clients of the Kubernetes API. It is an http.Handler, and answers
// lists, watches, reads of single objects and discovery. See [Serve] and [ServeMemory].
type Handler struct {
	opts Options

	limiter   limiter
	discovery wire.Discovery
	noFlush   sync.Once // that a watch cannot be answered is said once

	mu     sync.Mutex // guards the fields below
	served []*served  // in the order of the calls of Serve
	closed bool
}

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
	// Forward answers the requests that a Handler cannot: unknown paths, writes, and reads of the
	// newest state while the informer's server does not answer; not while it answers with an older
	// one than is here. A reverse proxy to that server makes a relay a whole API server to its
	// clients. It gets what Authorize has allowed, and nothing that names no resource where one is
	// to be named. Headers are the client's, also those that impersonate. Default: 404, 405 and 504.
	Forward http.Handler
	// BookmarkEvery is how often a watch that allows bookmarks gets one. Default: a minute.
	BookmarkEvery time.Duration
	// Logger gets one record for each event that cannot be encoded, and the records of the informers
	// that [ServeMemory] runs. Default: slog.Default().
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

// New returns a Handler that serves nothing yet. nil means the defaults.
func New(opts *Options) *Handler {
	h := &Handler{}
	if opts != nil {
		h.opts = *opts
	}
	o := &h.opts
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
	h.discovery = wire.Discovery{Resources: h.resources, Version: &version.Info{
		// Clients compare the numbers; the rest is for people.
		Major: "1", Minor: "37", GitVersion: "v1.37.0+lw", GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	h.limiter.lists = make(chan struct{}, o.Limits.Lists)
	return h
}

func positive[N int | int64 | time.Duration](n, otherwise N) N {
	if n > 0 {
		return n
	}
	return otherwise
}

// served is a collection that a Handler serves.
type served struct {
	*resource
	*history
	handler *Handler
	// catchUp returns when the collection is as new as its server was, with its version then. nil:
	// what is here is the newest.
	catchUp func(ctx context.Context) (string, error)
	writes  writer                  // nil: clients can only read
	stop    context.CancelCauseFunc // ends Serve

	codecs   codecs
	encoders encoders
	rawProto atomic.Bool        // the objects came as protobuf
	zipping  singleflight.Group // lists that are compressed, by format, era and version
	sweepers sweepers
	counts   counts

	selectors interned[[32]byte, verdicts] // the long ones, by a hash of their text
	turns     interned[string, turn]       // of the clients that have such
	// watches are the open watches, and the goroutines that write to them. None begins after the
	// history has ended.
	watches sync.WaitGroup
	ends    ends
}

// ends are the times at which the watches of a collection end.
type ends struct {
	once    sync.Once
	closing context.Context // done when they are to end, within a while
	cut     context.Context // done when those are cut off that have not ended
	close   context.CancelFunc
	cutOff  context.CancelFunc
}

// cutAfter is how long after the end of its time a watch has to send what is left.
const cutAfter = time.Second

// end ends the watches within a while. Those whose clients do not take the end by then are cut off.
func (s *served) end(within time.Duration) {
	s.close(within)
	s.ends.once.Do(func() {
		s.ends.close()
		time.AfterFunc(within+cutAfter, s.ends.cutOff)
	})
}

// Serve serves c as r, until ctx is done or c stops. It returns the cause of that, or the error
// that ends it: r is wrong, the Handler serves something else by that name, or the versions of an
// Informer are not the numbers that a Kubernetes server gives.
//
// Requests before the first sync of c are answered with 429, so a program calls
// [Handler.WaitForSync] before it announces its address. At the end all watches of c end at once,
// as at the end of their time; a client can go on elsewhere from where it was. See also
// [Handler.Close].
func Serve[T lw.Object](ctx context.Context, h *Handler, c lw.Collection[T], r Resource[T]) error {
	res, err := resourceOf(r)
	if err != nil {
		return err
	}
	s := newServed(h, res, r.History)
	inf, relays := c.(*lw.Informer[T])
	if !relays {
		s.own = newStamps(r.Replica)
	} else if r.Fresh != FreshHere {
		s.catchUp = inf.CatchUp
	}
	if !relays && r.Fresh == FreshUpstream {
		return fmt.Errorf("serve: %s: FreshUpstream is for an Informer: a derived collection has no server", r.Name)
	}
	return follow(ctx, h, c, s)
}

// follow serves c until ctx is done, c stops, or c cannot be served.
func follow[T lw.Object](ctx context.Context, h *Handler, c lw.Collection[T], s *served) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.stop = stop
	if err := h.add(s); err != nil {
		return err
	}
	defer h.remove(s)
	f := &feed[T]{resource: s.resource, history: s.history, rawProto: &s.rawProto, fail: stop}
	return lw.Follow(ctx, c, f)
}

func newServed(h *Handler, r *resource, limits HistoryLimits) *served {
	s := &served{resource: r, handler: h, history: newHistory(limits), codecs: newCodecs(r)}
	s.ends.closing, s.ends.close = context.WithCancel(context.Background())
	s.ends.cut, s.ends.cutOff = context.WithCancel(context.Background())
	s.startSweepers()
	return s
}

func (h *Handler) add(s *served) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("serve: %s: %w", s.name, http.ErrServerClosed)
	}
	for _, other := range h.served {
		if other.group == s.group && other.version == s.version && (other.name == s.name || other.kind == s.kind) {
			return fmt.Errorf("serve: %s: the Handler serves %s/%s already, as %s", s.name, other.apiVersion(), other.kind, other.name)
		}
	}
	h.served = append(h.served, s)
	return nil
}

// remove ends the watches of s, and waits until they have ended. Meanwhile requests are refused.
func (h *Handler) remove(s *served) {
	s.end(0)
	s.watches.Wait()
	s.ends.cutOff()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.served = slices.DeleteFunc(h.served, func(other *served) bool { return other == s })
}

// enter counts a watch, unless the history has ended.
func (s *served) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.watches.Add(1)
	}
	return !s.ended
}

// find returns what is served at a path, or nil.
func (h *Handler) find(t target) *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.served {
		if s.group == t.group && s.resource.version == t.version && s.name == t.resource {
			named := t.verb == "watch" && t.key.Name != "" // kube-apiserver watches no name of all namespaces
			if t.subresource != "" || t.verb == "proxy" || s.cluster && t.namespaced || named && !s.cluster && !t.namespaced {
				return nil
			}
			return s
		}
	}
	return nil
}

func (h *Handler) all() []*served {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.served)
}

// WaitForSync waits until all collections have synced that are served when it is called. It does
// not know of a Serve in another goroutine that has not begun yet: wait for the informer then. Its
// error names the collection that has not synced.
func (h *Handler) WaitForSync(ctx context.Context) error {
	for _, s := range h.all() {
		if err := s.waitForBegin(ctx); err != nil {
			return fmt.Errorf("serve: %s: not synced: %w", s.name, err)
		}
	}
	return nil
}

// Close refuses new requests and ends all watches, spread over two seconds, as at the end of their
// time, and with a bookmark for those that allow it. It returns when they have ended. A client that
// has not taken the end of its watch a second after that is cut off. Each Serve then returns
// [http.ErrServerClosed].
//
// The error says that a watch goes on because it could not be cut off: what is between the Handler
// and the server has no write deadlines. It ends with its connection.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	served := slices.Clone(h.served)
	h.mu.Unlock()
	for _, s := range served {
		s.end(closeSpread)
	}
	var ended sync.WaitGroup
	for _, s := range served {
		s.stop(http.ErrServerClosed)
		ended.Go(s.watches.Wait)
	}
	all := make(chan struct{})
	go func() {
		ended.Wait()
		close(all)
	}()
	// Where a connection cannot be cut off, because a middleware hides it, its client decides when the
	// watch ends. The program's server must not wait for that: it closes the connection.
	timer := time.NewTimer(closeSpread + 5*cutAfter)
	defer timer.Stop()
	select {
	case <-all:
		return nil
	case <-timer.C:
		return errors.New("serve: some watches have not ended: their clients take nothing, and their connections cannot be cut off from here")
	}
}

// report tells of a failure that is the program's, not a client's.
func (h *Handler) report(s *served, err error) {
	h.opts.Logger.Error("lw/serve: an object cannot be sent", "resource", s.name, "error", err)
	if h.opts.OnError != nil {
		h.opts.OnError(err)
	}
}

// resources returns what discovery says of what is served.
func (h *Handler) resources() []wire.Resource {
	var all []wire.Resource
	for _, s := range h.all() {
		verbs := []string{"get", "list", "watch"}
		if s.writes != nil {
			verbs = []string{"create", "delete", "get", "list", "update", "watch"}
		}
		all = append(all, wire.Resource{
			Group: s.group, Version: s.resource.version, Name: s.name, Singular: s.singular, Kind: s.kind,
			ShortNames: s.shortNames, Namespaced: !s.cluster, Verbs: verbs,
		})
	}
	return all
}

func (h *Handler) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

var errClosed = errors.New("serve: the server is shutting down")
