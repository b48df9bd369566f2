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
	"github.com/go-lw/lw/internal/request"
)

// A Catalog knows which kinds one server serves. It follows the server's CustomResourceDefinitions,
// of which it keeps ten fields, and its APIServices. Where it may not, it asks discovery, while a
// kind is missing.
//
// [New] makes one. A program has one for each server, which all gates share. The zero value takes
// its server from the first cache or Decoder that it is given to, and waits for that. Run must be
// called, unless a cache says that it does. A failure goes to slog.Default, or where that cache
// reports its own. All methods are safe for concurrent use. A Catalog must not be copied.
type Catalog struct {
	mu      sync.Mutex
	url     string            // "": Bind was not called; guarded by mu, as all below
	client  *http.Client      // nil: http.DefaultClient
	bound   bool              // url is from Bind
	opts    lw.Options        // of the catalog's own informers
	names   map[Name]*entry   // those that were asked for
	changed chan struct{}     // closed at the next change of what is known; see changes
	asked   chan struct{}     // has room for one: there is something to do
	running bool              // Run was called
	ended   chan struct{}     // closed when Run has returned
	doubts  map[Name]struct{} // served names whose requests got 404
	crds    definitions       // nil: they may not be read
	looks   []chan struct{}   // closed when Run has looked once more
}

// definitions is what others than Run ask of the informer of CustomResourceDefinitions. It is an
// interface because a type with an informer costs each package that uses the type seconds of the
// compiler, which makes all of the informer's methods anew there.
type definitions interface {
	CatchUp(ctx context.Context) (resourceVersion string, err error)
	WaitForResourceVersion(ctx context.Context, resourceVersion string) error
}

// An entry is what is known of a Name.
type entry struct {
	state    State
	from     uint64             // the first answer of discovery that counts
	missing  time.Time          // since when discovery is without it, although it was served; zero: it is not
	news     string             // of its APIServices, at the last look
	wasOf    bool               // it was served by an APIService
	over     ending             // of the definition that has ended last
	followed map[*follower]bool // those to call
}

// An ending is that of a definition, made, at a version.
type ending struct{ made, version string }

// A follower is called for each change of one name, in the goroutine of Run, under no lock. It must
// return at once.
type follower struct{ call func(State) }

// New returns a Catalog of the server at url, such as https://10.0.0.1:443. A nil client is
// http.DefaultClient.
func New(url string, client *http.Client) *Catalog {
	return &Catalog{url: strings.TrimRight(url, "/"), client: client}
}

// Bind says which server a zero Catalog is of, and has opts for its informers; nil: none. It is an
// error if it has said another server before. A Catalog of [New] keeps its own.
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

// entryLocked returns the entry of n, which is asked for from now on.
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

// pokeLocked has Run look.
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

// Served returns what is known of n. The catalog learns of n from now on, so the first answer is
// often that nothing is known.
func (c *Catalog) Served(n Name) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entryLocked(n).state
}

// listen has call called at each change of n, until stop, and returns the state before.
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

// doubt says that a request for n, which is served, got 404.
func (c *Catalog) doubt(n Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entryLocked(n)
	c.doubts[n] = struct{}{}
	c.pokeLocked()
}

// refused says that n is not asked for because of its scope. Discovery is the only one that does not
// tell of another scope by itself.
func (c *Catalog) refused(n Name) {
	c.mu.Lock()
	discovers := c.crds == nil
	c.mu.Unlock()
	if discovers {
		c.doubt(n)
	}
}

// ends says at which version a definition has ended. The state of its names is as it was.
func (c *Catalog) ends(made, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.names {
		if e.state.made == made {
			e.over = ending{made, version}
		}
	}
}

// endedAfter reports whether the definition made of n is known to have ended at version or later,
// so that what was seen until then is not of the next one.
func (c *Catalog) endedAfter(n Name, made, version string) bool {
	c.mu.Lock()
	over := c.entryLocked(n).over
	c.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(version, over.version)
	return over.made == made && err == nil && order <= 0
}

// reach waits until the catalog knows the definitions as they were at version, or for a minute: that
// may be a version of another storage. "" is as they are now.
func (c *Catalog) reach(ctx context.Context, version string) error {
	c.mu.Lock()
	inf := c.crds
	c.mu.Unlock()
	if inf != nil {
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if version == "" {
			version, _ = inf.CatchUp(short)
		}
		_ = inf.WaitForResourceVersion(short, version) // what cannot be reached is not waited for
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

// Follow calls f with what is known of n, and then with each change, in a goroutine of its own: one
// call at a time, and the last state of several that came meanwhile. stop, which f may call, ends
// that. It does not wait for a call that is going on. The catalog's end ends it as well.
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

// Wait waits until all names are served, as for a readiness probe. The error wraps [ErrAbsent] or,
// if the catalog has ended, lw.ErrStopped, and says for how long which of them is not served, and
// why.
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

// without says of which names ok is false, and why.
func (c *Catalog) without(ok func(State) bool, names []Name) (missing []error, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initLocked()
	for _, n := range names {
		if s := c.entryLocked(n).state; !ok(s) {
			missing = append(missing, fmt.Errorf("%s: %s, since %v", n, s.Why, time.Since(s.Since).Round(time.Second)))
		}
	}
	return missing, c.changed
}

// set makes s what is known of n, and returns whom to call.
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

// ready reports whether there is a server, and what to ask it.
func (c *Catalog) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.url != "" && len(c.names) > 0
}

// Run keeps the catalog in step until ctx is done, and then returns nil. It asks the server nothing
// before the first name. A second call returns an error that wraps lw.ErrStarted.
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
