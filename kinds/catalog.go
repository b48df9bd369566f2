package kinds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/request"
)

// A Catalog knows which kinds one server serves. It watches the server's CustomResourceDefinitions,
// of which it keeps ten fields, and its APIServices. Where it has no right to read them, it polls
// discovery while a kind is missing.
//
// A program has one Catalog for each server, and all gates of that server share it. [New] returns
// one. A zero Catalog takes its server from the first cache or Decoder that gets it, and does
// nothing until then. Run must be called, unless the cache says that it calls Run. Failures are
// logged to slog.Default, or go where that cache reports its own. All methods are safe for
// concurrent use. A Catalog must not be copied.
type Catalog struct {
	mu      sync.Mutex
	url     string            // "": nobody has called Bind; guarded by mu, as all below
	client  *http.Client      // nil: http.DefaultClient
	bound   bool              // url is from Bind
	opts    lw.Options        // of the catalog's own informers
	names   map[Name]*entry   // every name that somebody has asked for
	changed chan struct{}     // closed at the next change of a state, and then replaced
	asked   chan struct{}     // wakes Run; it has room for one
	running bool              // Run was called
	ended   chan struct{}     // closed when Run returns
	doubts  map[Name]struct{} // served names whose requests got 404 since Run looked
	crds    definitions       // nil while the catalog has no right to read them
	looks   []chan struct{}   // Run closes them after its next look
}

// definitions is the part of the informer of CustomResourceDefinitions that gates use. It is an
// interface because the compiler instantiates all methods of an informer in each package that uses
// a type with an informer in it, which takes seconds.
type definitions interface {
	CatchUp(ctx context.Context) (resourceVersion string, err error)
	WaitForResourceVersion(ctx context.Context, resourceVersion string) error
}

// An entry is what the catalog knows of a Name.
type entry struct {
	state    State
	from     uint64             // answers of discovery before this one are too old
	missing  time.Time          // when discovery first lacked the kind, which was served; zero: it has it
	news     string             // of its APIServices, at the last look
	wasOf    bool               // an APIService has served it
	over     ending             // of the last definition that has ended
	followed map[*follower]bool // whom to call at a change
}

// An ending says at which version of the collection the definition made was deleted.
type ending struct{ made, version string }

// A follower gets each change of one name. Run calls it under no lock, and waits for it, so it must
// return at once.
type follower struct{ call func(State) }

// New returns a Catalog of the server at url, such as https://10.0.0.1:443. A nil client is
// http.DefaultClient.
func New(url string, client *http.Client) *Catalog {
	return &Catalog{url: strings.TrimRight(url, "/"), client: client}
}

// Bind gives a zero Catalog its server, and opts to its informers; nil means none. A second Bind
// with another server is an error. A Catalog of [New] keeps its own server.
func (c *Catalog) Bind(_ request.Mark, url string, client *http.Client, opts *lw.Options) error {
	url = strings.TrimRight(url, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bound && c.url != url {
		return fmt.Errorf("lw: kinds: the catalog is of %s, and not of %s", c.url, url)
	}
	if c.url == "" {
		c.url, c.client, c.bound = url, client, true
	}
	if opts != nil {
		c.opts = *opts
	}
	c.initLocked()
	c.pokeLocked()
	return nil
}

func (c *Catalog) initLocked() {
	if c.names == nil {
		c.names, c.doubts = map[Name]*entry{}, map[Name]struct{}{}
		c.changed, c.asked, c.ended = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	}
}

// entryLocked returns the entry of n. The first call has the catalog look for n from then on.
func (c *Catalog) entryLocked(n Name) *entry {
	c.initLocked()
	e := c.names[n]
	if e == nil {
		e = &entry{state: State{Why: "the catalog has not answered", Since: time.Now()}, followed: map[*follower]bool{}}
		c.names[n] = e
		c.pokeLocked()
	}
	return e
}

// pokeLocked wakes Run, which then looks at all evidence again.
func (c *Catalog) pokeLocked() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

func (c *Catalog) poke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pokeLocked()
}

// Served returns what the catalog knows of n. The first call has the catalog look for n, so it
// often returns a State that is not Known.
func (c *Catalog) Served(n Name) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entryLocked(n).state
}

// listen returns the state of n, and has the catalog call call at each later change, until stop.
func (c *Catalog) listen(n Name, call func(State)) (s State, stop func()) {
	f := &follower{call}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryLocked(n)
	e.followed[f] = true
	return e.state, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(e.followed, f)
	}
}

// doubt tells the catalog that a request for n got 404, although n is served.
func (c *Catalog) doubt(n Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entryLocked(n)
	c.doubts[n] = struct{}{}
	c.pokeLocked()
}

// refused tells the catalog that a gate makes no request for n because n has another scope. Watches
// report a change of the scope by themselves; discovery has to be asked again.
func (c *Catalog) refused(n Name) {
	c.mu.Lock()
	discovers := c.crds == nil
	c.mu.Unlock()
	if discovers {
		c.doubt(n)
	}
}

// ends records the version at which a definition was deleted. The states of its names change later,
// when Run looks.
func (c *Catalog) ends(made, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.names {
		if e.state.made == made {
			e.over = ending{made, version}
		}
	}
}

// endedAfter reports whether the catalog knows that the definition made ended at version or later.
// Then objects that were seen up to version belong to it, and not to the next definition.
func (c *Catalog) endedAfter(n Name, made, version string) bool {
	c.mu.Lock()
	over := c.entryLocked(n).over
	c.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(version, over.version)
	return over.made == made && err == nil && order <= 0
}

// reach waits until the catalog knows the definitions as they were at version; "" means as they are
// now, and the error is that of a server that does not answer. After a minute reach no longer waits
// for version, which may be of another storage. Otherwise the error is that of ctx.
func (c *Catalog) reach(ctx context.Context, version string) error {
	c.mu.Lock()
	inf := c.crds
	c.mu.Unlock()
	if inf != nil {
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if version == "" {
			var err error
			if version, err = inf.CatchUp(short); pace.IsBusy(err) || pace.IsNetwork(err) {
				return err
			}
		}
		_ = inf.WaitForResourceVersion(short, version)
	}
	looked := make(chan struct{})
	c.mu.Lock()
	c.looks = append(c.looks, looked)
	c.pokeLocked()
	c.mu.Unlock()
	select {
	case <-looked:
	case <-c.ended:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Follow calls f with the state of n, and again after each change. The calls come one after the
// other, in a goroutine of their own. A slow f misses states, and always gets the last one. The
// calls end when stop is called or the catalog ends. f may call stop, which does not wait for a
// call that is running.
func (c *Catalog) Follow(n Name, f func(State)) (stop func()) {
	if f == nil {
		panic("lw: kinds: Follow: nil function")
	}
	news := make(chan struct{}, 1)
	news <- struct{}{}
	_, unlisten := c.listen(n, func(State) {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		var last State
		for first := true; ; {
			select {
			case <-news:
			case <-ctx.Done():
				return
			case <-c.ended: // made by listen
				return
			}
			s := c.Served(n)
			if ctx.Err() == nil && (first || !s.same(last)) {
				f(s)
			}
			first, last = false, s
		}
	}()
	return func() {
		unlisten()
		cancel()
	}
}

// Wait waits until all names are served, as a readiness probe needs it. Its error wraps
// [ErrAbsent], names each kind that is missing, and says why and since when. It wraps the cause of
// ctx as well, or lw.ErrStopped if the catalog has ended.
func (c *Catalog) Wait(ctx context.Context, names ...Name) error {
	return c.wait(ctx, func(s State) bool { return s.Served }, names)
}

// WaitForSync waits until the catalog has an answer for each name that was asked for.
func (c *Catalog) WaitForSync(ctx context.Context) error {
	c.mu.Lock()
	c.initLocked()
	var names []Name
	for n := range c.names {
		names = append(names, n)
	}
	c.mu.Unlock()
	return c.wait(ctx, func(s State) bool { return s.Known }, names)
}

func (c *Catalog) wait(ctx context.Context, ok func(State) bool, names []Name) error {
	for {
		missing, changed := c.without(ok, names)
		if len(missing) == 0 {
			return nil
		}
		var cause error
		select {
		case <-changed:
			continue
		case <-c.ended:
			cause = lw.ErrStopped
		case <-ctx.Done():
			cause = context.Cause(ctx)
		}
		missing, _ = c.without(ok, names)
		return fmt.Errorf("lw: kinds: %w: %w: %w", ErrAbsent, errors.Join(missing...), cause)
	}
}

// without returns an error for each name whose state is not ok, and a channel that is closed at the
// next change of a state.
func (c *Catalog) without(ok func(State) bool, names []Name) (missing []error, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initLocked()
	for _, n := range names {
		if s := c.entryLocked(n).state; !ok(s) {
			missing = append(missing, fmt.Errorf("%s: %s, for %v", n, s.Why, time.Since(s.Since).Round(time.Second)))
		}
	}
	return missing, c.changed
}

// set makes s the state of n, and returns the calls that followers are due.
func (c *Catalog) set(n Name, e *entry, s State) (calls []func()) {
	if s.same(e.state) && s.news == e.state.news {
		return nil
	}
	s.heard = time.Now()
	if s.Since = e.state.Since; !s.same(e.state) {
		s.Since = s.heard
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.state = s
	close(c.changed)
	c.changed = make(chan struct{})
	for f := range e.followed {
		calls = append(calls, func() { f.call(s) })
	}
	return calls
}

// ready reports whether the catalog has a server, and a name to look for.
func (c *Catalog) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.url != "" && len(c.names) > 0
}

// Run keeps the catalog in step with its server until ctx is done, and then returns nil. It makes
// no request before somebody asks for a name. A second call returns an error that wraps
// lw.ErrStarted.
func (c *Catalog) Run(ctx context.Context) error {
	c.mu.Lock()
	c.initLocked()
	again := c.running
	c.running = true
	c.mu.Unlock()
	if again {
		return fmt.Errorf("lw: kinds: Catalog: %w", lw.ErrStarted)
	}
	defer close(c.ended)
	for !c.ready() {
		select {
		case <-c.asked:
		case <-ctx.Done():
			return nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	e := newEvidence(c)
	defer e.running.Wait()
	defer cancel()
	for ctx.Err() == nil {
		e.start(ctx)
		crds, services := e.crds.changes(ctx), e.services.changes(ctx)
		next := e.look(ctx)
		t := time.NewTimer(next)
		select {
		case <-crds:
		case <-services:
		case <-c.asked:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}
