package kinds

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/request"
)

const (
	// grace is how long a watch stays open after its kind is gone, for the last DELETED events.
	grace = 2 * time.Second
	// quiet is how long 404 is no failure, since one server may learn of a kind later than another.
	// For as long after news of the kind, 429 is no failure, since the server opens a new storage; nor
	// is the first 410, since the history of that storage begins anew.
	quiet = 10 * time.Second
	// lifeSign is how often a list that waits for the catalog shows that it has not stalled.
	lifeSign = 30 * time.Second
)

// SourceOptions are the options of [Source].
type SourceOptions[T lw.Object] struct {
	// Namespace limits the source to the objects of one namespace. Default: all namespaces. If it is
	// set, the requests for a kind without namespaces fail.
	Namespace string
	// Make returns the source of a kind that is served. It is called again when the name gets another
	// kind, version or scope. Default: an lw.HTTP with the catalog's client.
	Make func(State) lw.Source[T]
}

// Source returns a gate: the source of a kind that may come later, and go. The gate is empty while
// the catalog says that the kind is absent. Then its informer makes no request, is in sync, and has
// the reason in lw.Status.Unserved. An object is deleted by a list, by an event, or by the end of
// the kind's CustomResourceDefinition, and by nothing else. If only a version or an APIService is
// withdrawn, the objects stay as they are.
//
// Put other wrappers, such as lw.Transform and lw.Wanted, around the gate. With a nil Catalog every
// kind is served, which is for tests with fakes, and SourceOptions.Make is required.
func Source[T lw.Object](c *Catalog, n Name, opts *SourceOptions[T]) lw.Source[T] {
	g := &gate[T]{catalog: c, name: n}
	if opts != nil {
		g.opts = *opts
	}
	if c != nil {
		c.Served(n) // has the catalog look for n
		return g
	}
	if g.opts.Make == nil {
		panic("lw: kinds: Source: a nil Catalog without SourceOptions.Make")
	}
	gvr := schema.GroupVersionResource{Group: n.Group, Version: n.Version, Resource: n.Resource}
	return g.opts.Make(State{Served: true, Known: true, Resource: gvr, Namespaced: true, stand: served, kind: n.Kind})
}

// A gate is the source of Source.
type gate[T lw.Object] struct {
	catalog *Catalog
	name    Name
	opts    SourceOptions[T]

	mu    sync.Mutex
	inner lw.Source[T] // made for the State made; nil: none yet; guarded by mu, as those below
	made  State
	// mixed says that inner is not the first source. Then the objects of the store are not lent to it,
	// since another one may have decoded them.
	mixed bool
}

// A memory is what the gate remembers of one reflector. Only the goroutine of that reflector uses
// it, apart from failed.
type memory struct {
	made    string    // the definition that the last list was of; "": the gate was empty
	listed  bool      // the server has answered the last list
	version string    // of that list, or of the last event since
	reached string    // the last version that the gate has asked the catalog to reach
	lost    time.Time // of the first 404 in a row; zero: the last answer was none
	expired string    // the news after which the server answered 410

	failed atomic.Bool // the next news wakes the reflector; any goroutine may use it
}

// outlived reports whether all objects that were seen belong to a definition that is gone, while
// the present one does not serve the version. Objects that were seen after the end belong to the
// present one, and exist.
func (g *gate[T]) outlived(m *memory, s State) bool {
	return s.stand == withheld && m != nil && m.listed && isDefinition(m.made) && isDefinition(s.made) && m.made != s.made &&
		g.catalog.endedAfter(g.name, m.made, m.version)
}

// recall returns the memory of the reflector, or nil if the request is a probe or lists a part of
// the collection, since neither changes what the reflector has.
func (g *gate[T]) recall(ctx context.Context) *memory {
	if request.IsProbe(ctx) || request.PartOf(ctx) != nil {
		return nil
	}
	return g.memory(ctx)
}

func (g *gate[T]) memory(ctx context.Context) *memory {
	return request.Recall(ctx, g, func() *memory {
		m, memo := new(memory), request.MemoOf(ctx)
		_, stop := g.catalog.listen(g.name, func(State) {
			if m.failed.Load() {
				memo.Wake()
			}
		})
		memo.AtEnd(stop)
		return m
	})
}

// source returns the source of the kind as s says it is served.
func (g *gate[T]) source(s State) lw.Source[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOfLocked(s) {
		return g.inner
	}
	made := g.opts.Make
	if made == nil {
		made = g.http
	}
	inner := made(s)
	g.mixed = g.mixed || g.inner != nil && !(reflect.TypeOf(inner).Comparable() && g.inner == inner)
	g.inner, g.made = inner, s
	return inner
}

// http is the default of SourceOptions.Make.
func (g *gate[T]) http(s State) lw.Source[T] {
	g.catalog.mu.Lock()
	to, client := g.catalog.url, g.catalog.client
	g.catalog.mu.Unlock()
	if s.Resource.Group != "" {
		to += "/apis/" + s.Resource.Group + "/"
	} else {
		to += "/api/"
	}
	to += s.Resource.Version
	if g.opts.Namespace != "" {
		to += "/namespaces/" + url.PathEscape(g.opts.Namespace)
	}
	return &lw.HTTP[T]{URL: to + "/" + s.Resource.Resource, Client: client, Kind: s.kind}
}

// present returns the last source, or nil, and whether it was made for the kind as it is in s.
func (g *gate[T]) present(s State) (inner lw.Source[T], now bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inner, g.isOfLocked(s)
}

func (g *gate[T]) isOfLocked(s State) bool {
	return g.inner != nil && s.stand == served && g.made.Resource == s.Resource && g.made.Namespaced == s.Namespaced &&
		g.made.kind == s.kind
}

// Hints returns the hints of the last source, and in Unserved why the gate is empty.
func (g *gate[T]) Hints() (h lw.SourceHints) {
	s := g.catalog.Served(g.name)
	inner, now := g.present(s)
	if inner != nil {
		h = lw.HintsOf(inner)
	}
	if !now { // their requests would be for a kind that is no longer there
		h.StillHas, h.Progress = nil, nil
	}
	if has := h.StillHas; has != nil {
		h.StillHas = func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
			is, err := has(ctx, obj, version)
			if err != nil || is {
				return is, err
			}
			gone, err := g.replaced(ctx, g.recall(ctx))
			if err != nil {
				return false, fmt.Errorf("kinds: %s: whether its definition is gone: %w", g.name, err)
			}
			if gone {
				return false, fmt.Errorf("kinds: %s is of a definition that is gone: %w", g.name, errors.ErrUnsupported)
			}
			return false, nil
		}
	}
	if s.stand == served {
		return h
	}
	h.NoStream = true
	if s.stand != withheld {
		h.Unserved = s.Why + ", since " + s.Since.UTC().Format(time.RFC3339)
	}
	return h
}

// Reuses is part of [request.Source]. lend takes the lender away where the inner source has no use
// for it.
func (g *gate[T]) Reuses(request.Mark) bool { return true }

// lend returns ctx for a request of inner, without the lender if inner must not have it.
func (g *gate[T]) lend(ctx context.Context, inner lw.Source[T]) context.Context {
	g.mu.Lock()
	mixed := g.mixed
	g.mu.Unlock()
	if mixed || !request.Reuses(inner) {
		return request.WithoutLender(ctx)
	}
	return ctx
}

// Told is part of [lw.Teller].
func (g *gate[T]) Told(obj lw.Identified) (out T, stays bool, err error) {
	s := g.catalog.Served(g.name)
	if s.stand == served {
		if to, ok := g.source(s).(lw.Teller[T]); ok {
			return to.Told(obj)
		}
		return out, false, fmt.Errorf("lw: kinds: the source is no Teller: %w", errors.ErrUnsupported)
	}
	return out, false, fmt.Errorf("lw: kinds: %s: %w", s.Why, errors.ErrUnsupported)
}

// refusal returns the error of a kind that has objects, but not for this gate: in another version
// or in another scope alone.
func (g *gate[T]) refusal(s State) error {
	switch {
	case s.stand == withheld:
		return fmt.Errorf("kinds: %s: %s", g.name, s.Why)
	case s.stand == served && !s.Namespaced && g.opts.Namespace != "":
		g.catalog.refused(g.name)
		return fmt.Errorf("kinds: %s: it has no namespaces, and the source is of the namespace %s", g.name, g.opts.Namespace)
	}
	return nil
}

// List lists the kind if it is served. It waits while the catalog knows nothing, and is empty if
// the kind is absent.
func (g *gate[T]) List(ctx context.Context, opts metav1.ListOptions,
	yield func(T, error) error) (meta metav1.ListMeta, err error) {
	m := g.recall(ctx)
	for {
		t := g.begin(ctx)
		switch {
		case t.stand == absent, t.stand == orphaned && (m == nil || !m.listed), g.outlived(m, t.State):
			t.stop()
			if t.stand != withheld && m != nil && m.listed && m.version != m.reached && isDefinition(m.made) {
				// The objects may belong to the next definition, of which the catalog has not heard yet.
				if err := g.catalog.reach(ctx, m.version); err != nil {
					return meta, err
				}
				m.reached = m.version
				continue
			}
			if m == nil {
				return meta, nil
			}
			m.made, m.listed, m.lost = "", false, time.Time{}
			return meta, request.ErrUnasked
		case t.stand == unknown, t.stand == orphaned:
			err = waitFor(ctx, t.moved)
			t.stop()
			if err != nil {
				return meta, err
			}
			continue
		}
		if err = g.refusal(t.State); err == nil {
			meta, err = g.list(ctx, t, m, opts, yield)
		}
		g.end(ctx, t, err)
		return meta, err
	}
}

// waitFor waits for news. Meanwhile it shows the list that it is part of that this has not stalled.
func waitFor(ctx context.Context, news <-chan struct{}) error {
	tick := time.NewTicker(lifeSign)
	defer tick.Stop()
	for {
		select {
		case <-news:
			return nil
		case <-tick.C:
			request.LeftOut(ctx)()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *gate[T]) list(ctx context.Context, t *turn, m *memory, opts metav1.ListOptions,
	yield func(T, error) error) (meta metav1.ListMeta, err error) {
	inner := g.source(t.State)
	own, cancel := context.WithCancel(request.WithResource(g.lend(ctx, inner), t.Resource))
	defer cancel()
	t.then(cancel)
	err = g.quietly(own, t, m, func() (some bool, err error) {
		meta, err = inner.List(own, opts, func(obj T, err error) error {
			some = true
			return yield(obj, err)
		})
		return some, err
	})
	// The kind may have gone, which has cut off the list, and be back as it was by now.
	if has(t.moved) && ctx.Err() == nil && (errors.Is(err, context.Canceled) || g.elsewhere(t)) {
		return metav1.ListMeta{}, request.ErrMoved
	}
	if err == nil && m != nil && meta.Continue == "" {
		m.made, m.listed, m.version = t.made, true, meta.ResourceVersion
	}
	return meta, err
}

// replaced reports whether the definition that the last list was of is gone. It first waits until
// the catalog has caught up with the server.
func (g *gate[T]) replaced(ctx context.Context, m *memory) (bool, error) {
	if m == nil || !isDefinition(m.made) {
		return false, nil
	}
	err := g.catalog.reach(ctx, "")
	return err == nil && g.catalog.Served(g.name).made != m.made, err
}

// renewed reports whether a 410 is the first one after recent news of the kind, which has not
// moved.
func (g *gate[T]) renewed(t *turn, m *memory) bool {
	s := g.catalog.Served(g.name)
	if s.news == m.expired || time.Since(s.heard) >= quiet || has(t.moved) {
		return false
	}
	m.expired = s.news
	return true
}

// elsewhere reports whether the kind is not served any more, or by another definition than in t.
func (g *gate[T]) elsewhere(t *turn) bool {
	s := g.catalog.Served(g.name)
	return s.stand != served || s.made != t.made
}

// quietly calls ask, and repeats it for a while if the answer says that a server does not know the
// kind yet, or is not ready. It never repeats a request that has brought something.
func (g *gate[T]) quietly(ctx context.Context, t *turn, m *memory, ask func() (some bool, err error)) error {
	if m == nil {
		m = new(memory)
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		some, err := ask()
		_, lost := errors.AsType[*decode.KindError](err)
		busy := apierrors.IsTooManyRequests(err)
		if lost = lost || apierrors.IsNotFound(err); lost {
			g.catalog.doubt(g.name)
		}
		lost = lost || errors.Is(err, errEarly)
		if err == nil || some || !lost && !busy {
			m.lost = time.Time{}
			return err
		}
		if lost && (m.lost.IsZero() || m.lost.Before(t.Since)) {
			m.lost = time.Now()
		}
		since := m.lost
		if busy {
			since = g.catalog.Served(g.name).heard
		}
		if time.Since(since) >= quiet || has(t.moved) {
			return &request.LateError{Err: err}
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			pause = max(pause, time.Duration(seconds)*time.Second)
		}
		if t.pause(ctx, pause); ctx.Err() != nil || has(t.moved) {
			return &request.LateError{Err: err}
		}
	}
}

// Watch watches the kind if it is served, and otherwise waits for it. When the kind has come, has
// gone, or is another one, Watch ends with an error that has the reflector list anew.
func (g *gate[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[T]) error) error {
	m := g.recall(ctx)
	if m == nil {
		m = &memory{made: g.catalog.Served(g.name).made}
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	t := g.begin(ctx)
	err := g.refusal(t.State)
	switch {
	case g.outlived(m, t.State):
		err = request.ErrMovedUnasked
	case err != nil:
	case t.stand == served && (initial || m.made == t.made):
		err = g.watch(ctx, t, m, opts, initial, yield)
	case t.stand == served, initial, t.stand == absent && m.made != "":
		err = request.ErrMovedUnasked
	default:
		err = idle(ctx, t, opts)
	}
	g.end(ctx, t, err)
	return err
}

// errEarly says that a watch ended at once, as one does that begins just before its kind ends.
var errEarly = errors.New("the watch ended early")

// idle waits until the kind moves, or for as long as a watch lasts.
func idle(ctx context.Context, t *turn, opts metav1.ListOptions) error {
	var over <-chan time.Time
	if opts.TimeoutSeconds != nil {
		timer := time.NewTimer(time.Duration(*opts.TimeoutSeconds) * time.Second)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-t.moved:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return request.ErrUnasked
}

func (g *gate[T]) watch(ctx context.Context, t *turn, m *memory, opts metav1.ListOptions, initial bool,
	yield func(lw.WatchEvent[T]) error) error {
	inner := g.source(t.State)
	own, cancel := context.WithCancel(request.WithResource(g.lend(ctx, inner), t.Resource))
	defer cancel()
	if initial {
		t.then(cancel)
	} else {
		t.then(func() { time.AfterFunc(grace, cancel) })
	}
	err := g.quietly(own, t, m, func() (some bool, err error) {
		begun := time.Now()
		err = inner.Watch(own, opts, func(ev lw.WatchEvent[T]) error {
			some = true
			m.lost = time.Time{}
			err := yield(ev)
			if err == nil && ev.Type != watch.Bookmark {
				m.version = ev.ResourceVersion // the object may belong to the next definition
			}
			if err == nil && ev.InitialEventsEnd {
				t.then(func() { time.AfterFunc(grace, cancel) })
				m.made, m.listed, m.version = t.made, true, ev.ResourceVersion
				// If quietly repeats the watch, it goes on from here.
				some, opts.ResourceVersion, opts.ResourceVersionMatch, opts.SendInitialEvents = false, m.version, "", nil
			}
			return err
		})
		if err == nil && !some && time.Since(begun) < time.Second {
			err = errEarly
		}
		return some, err
	})
	if errors.Is(err, errEarly) {
		err = nil
	}
	if apierrors.IsResourceExpired(err) {
		if g.renewed(t, m) {
			return fmt.Errorf("%w: %w", request.ErrRenewed, err)
		}
		if gone, _ := g.replaced(ctx, m); gone { // without an answer, 410 leads to a list as well
			return request.ErrMoved
		}
	}
	if !has(t.moved) || ctx.Err() != nil {
		return err
	}
	now := g.catalog.Served(g.name)
	switch {
	case now.stand == absent, now.stand == served && now.made != t.made:
		return request.ErrMoved
	case now.stand == withheld:
		return g.refusal(now)
	}
	return request.ErrUnasked // the kind is back as it was, or served in another version: the watch goes on
}
