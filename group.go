package lw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var _ Runner = (*Group)(nil)

// A Group runs informers and graphs together: those that are given to [Group.Add], and informers
// that [Share] makes for it, also while it runs. The zero value is an empty group, which must not
// be copied. All methods are safe for concurrent use.
type Group struct {
	// mu guards the fields below, and those fields of members that say so. It is held for a few
	// loads and stores: no lock of lw is taken under it, and no code of the user runs under it.
	mu      sync.Mutex
	members []*member       // that have a Runner, in the order in which they came
	shared  map[any]*member // those of Share, by their sharedKey; also while they have no informer
	phase   lifecycle
	ctx     context.Context // the parent of the members' contexts; set when phase becomes started

	// running counts the members that run. They start under mu, and only while phase is started,
	// so that none starts when Run waits for all.
	running sync.WaitGroup
}

// A member is an informer or a graph of a group.
type member struct {
	runner Runner
	// left is done when the member is no longer in the group.
	left  context.Context
	leave context.CancelFunc
	// started says that run was called, or is about to be. Guarded by Group.mu.
	started bool
	done    chan struct{} // closed when run has returned
	err     error         // what the runner's Run has returned; set before done is closed

	// The fields below are those of a member of Share.

	key   any           // nil for one of Add
	built chan struct{} // closed when runner is set, or when that has failed and it stays nil
	users int           // calls of Share without those of release; guarded by Group.mu
}

func newMember() *member {
	m := &member{done: make(chan struct{})}
	m.left, m.leave = context.WithCancel(context.Background())
	return m
}

// run runs the informer or graph to its end.
func (m *member) run(ctx context.Context) {
	defer close(m.done)
	m.err = m.runner.Run(ctx)
}

// Add adds an informer or a graph that the caller has made, and must not run. It starts with the
// group, or at once if the group runs; if the group has stopped, it is stopped too. Add panics if r
// is nil. remove takes it out of the group, stops it if the group has started it, and returns when
// its Run has returned; a handler of r must not call it.
func (g *Group) Add(r Runner) (remove func()) {
	if isNil(r) {
		panic("lw: Group.Add: nil Runner")
	}
	m := newMember()
	m.runner = r
	g.join(m)
	return once(func() { g.part(m) })
}

// once returns a function that calls f once. Other calls wait for that one. They wait for a channel
// and not for a mutex, as in sync.OnceFunc, because f may take long: in a synctest bubble no time
// passes while a goroutine waits for a mutex.
func once(f func()) func() {
	var called atomic.Bool
	done := make(chan struct{})
	return func() {
		if called.Swap(true) {
			<-done
			return
		}
		defer close(done)
		f()
	}
}

// join adds m, and starts it if the group runs.
func (g *Group) join(m *member) {
	g.mu.Lock()
	g.members = append(g.members, m)
	late := g.phase == ended
	if g.phase == started {
		g.startLocked(m)
	}
	m.started = m.started || late
	g.mu.Unlock()
	if late {
		m.run(g.ctx) // it is done, so that the informer stops at once
	}
}

// startLocked starts m, which runs until it leaves the group or the group stops.
func (g *Group) startLocked(m *member) {
	ctx, cancel := context.WithCancel(g.ctx)
	context.AfterFunc(m.left, cancel)
	m.started = true
	g.running.Go(func() { m.run(ctx) })
}

// part removes m and waits until it has ended.
func (g *Group) part(m *member) {
	g.mu.Lock()
	g.members = without(g.members, m)
	running := m.started
	g.mu.Unlock()
	m.leave()
	switch {
	case running:
		<-m.done
	case m.key != nil:
		// Nobody else can run an informer of Share, and somebody may still wait for it. The context
		// is done, so that it stops at once.
		m.run(m.left)
	}
}

// Run starts the informers and graphs of the group, and those that come later, and returns when ctx
// is done and all have ended. One that ends before, with an [ErrPermanent], does not end the
// others: the error of Run joins those of all such members. A second call returns [ErrStarted].
func (g *Group) Run(ctx context.Context) error {
	// The methods of a context of the user's own must not be called under mu. Those of a child
	// made here may.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !g.start(ctx) {
		return ErrStarted
	}
	<-ctx.Done()
	g.mu.Lock()
	g.phase = ended
	g.mu.Unlock()
	g.running.Wait()
	var errs []error
	for _, m := range g.present() {
		// One that came after the end may be about to stop.
		if isClosed(m.done) && m.err != nil {
			errs = append(errs, m.failure())
		}
	}
	return errors.Join(errs...)
}

// start starts all members. It returns false, and does nothing, unless it is the first call.
func (g *Group) start(ctx context.Context) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase != notStarted {
		return false
	}
	g.phase, g.ctx = started, ctx
	for _, m := range g.members {
		g.startLocked(m)
	}
	return true
}

// failure returns the error of m with its name.
func (m *member) failure() error {
	switch m.err.(type) {
	case *Error, startedError:
		return m.err // has it
	}
	if inf, ok := m.runner.(AnyInformer); ok {
		return fmt.Errorf("lw: Group: %s: %w", inf.Status().Name, m.err)
	}
	return fmt.Errorf("lw: Group: %w", m.err)
}

// present returns the members that have a Runner.
func (g *Group) present() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members)
}

// WaitForSync waits until all informers and graphs have synced that are in the group now, as the
// function [WaitForSync] does. It does not wait for one that leaves the group, and it fails if one
// has stopped.
func (g *Group) WaitForSync(ctx context.Context) error {
	var errs []error
	for _, m := range g.present() {
		errs = append(errs, m.waitForSync(ctx))
	}
	return errors.Join(errs...)
}

// waitForSync waits until the member has synced or has left the group.
func (m *member) waitForSync(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.left, cancel)()
	if err := m.runner.WaitForSync(ctx); err != nil && m.left.Err() == nil {
		return err
	}
	return nil
}

// Status returns the status of each informer, in the order in which they came.
func (g *Group) Status() []Status {
	var all []Status
	for _, m := range g.present() {
		if inf, ok := m.runner.(AnyInformer); ok {
			all = append(all, inf.Status())
		}
	}
	return all
}

// Healthy returns nil if all that the group shows can be relied on: the informers as
// [Status.Healthy] says it, with grace in the place of its minute, and the graphs have synced and
// have been in no step for longer than grace. Otherwise the error joins what is wrong with each.
func (g *Group) Healthy(grace time.Duration) error {
	var errs []error
	for _, m := range g.present() {
		switch r := m.runner.(type) {
		case AnyInformer:
			errs = append(errs, r.Status().healthy(grace))
		case interface{ healthy(time.Duration) error }:
			errs = append(errs, r.healthy(grace))
		case *Group:
			errs = append(errs, r.Healthy(grace))
		}
	}
	return errors.Join(errs...)
}

// Share returns the informer that g has for objects of type T under key. If it has none, Share
// makes one of what source returns, in the goroutine of that caller. opts are as for
// [NewInformer], but the default of Options.Name is T's name and key, such as Pod[web]. The
// informer starts as [Group.Add] says.
//
// Each user calls release after it has removed its handlers. The last release is as the remove of
// Group.Add. A Share that begins after it makes a new informer.
//
// While source runs, others that ask for the same key wait, so source must not. If it panics,
// nothing is shared. Share panics if g or source is nil, if source returns nil, and if key is not
// equal to itself.
func Share[T Object, K comparable](g *Group, key K, source func() Source[T], opts *Options) (inf *Informer[T], release func()) {
	if g == nil {
		panic("lw: Share: nil group")
	}
	if source == nil {
		panic("lw: Share: nil function")
	}
	k := any(sharedKey[T, K]{key})
	if again := k; again != k { // a NaN; it could not be found again
		panic(fmt.Sprintf("lw: Share: key %v is not equal to itself", key))
	}
	m := g.share(k, func() AnyInformer {
		src := source()
		if isNil(src) {
			panic("lw: Share: nil source")
		}
		var o Options
		if opts != nil {
			o = *opts
		}
		if o.Name == "" {
			o.Name = fmt.Sprintf("%s[%v]", typeName[T](), key)
		}
		return NewInformer(src, &o)
	})
	return m.runner.(*Informer[T]), once(func() { g.release(m) })
}

// A sharedKey is a key in Group.shared. Its type tells apart equal keys of informers of different
// types.
type sharedKey[T Identified, K comparable] struct{ key K }

// share returns the member of key, which then has one more user. If there is none, it makes one
// with an informer of build.
func (g *Group) share(key any, build func() AnyInformer) *member {
	for {
		m, first := g.use(key)
		if first {
			g.build(m, build)
			return m
		}
		<-m.built
		if m.runner != nil {
			return m
		}
		// The source of the first user has panicked. Now this one may be the first.
	}
}

// use notes one more user of the member of key. If there is none it makes one without an informer.
func (g *Group) use(key any) (m *member, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m = g.shared[key]; m != nil {
		m.users++
		return m, false
	}
	m = newMember()
	m.key, m.built, m.users = key, make(chan struct{}), 1
	if g.shared == nil {
		g.shared = map[any]*member{}
	}
	g.shared[key] = m
	return m, true
}

// build gives m an informer, and adds it to the members. If build panics, m is forgotten.
func (g *Group) build(m *member, build func() AnyInformer) {
	defer close(m.built)
	defer func() {
		if m.runner == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			delete(g.shared, m.key)
		}
	}()
	m.runner = build()
	g.join(m)
}

// release notes one user less of m, and removes m after the last.
func (g *Group) release(m *member) {
	g.mu.Lock()
	m.users--
	last := m.users == 0
	if last {
		delete(g.shared, m.key)
	}
	g.mu.Unlock()
	if last {
		g.part(m)
	}
}
