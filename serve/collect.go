package serve

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/registry"
)

// Collect is Kubernetes' garbage collector for what h serves by [ServeStore], until ctx is done. It
// deletes objects whose owners are all gone; keeps an owner that is deleted in the foreground until
// those that block it are gone; and takes the owner from the dependents of one that leaves orphans.
// Without it such an owner waits for ever.
//
// An owner of a kind that h does not serve is taken for present. The T of dependents and owners has
// the methods of a metav1.Object. Several processes may collect in one store; one does the work. A
// write that fails goes to the Logger and OnError, and is tried again after a pause. The error is
// the cause of ctx, or says that h has a collector already.
func (h *Handler) Collect(ctx context.Context) error {
	g := &garbage{opts: &h.opts, wake: make(chan struct{}, 1), all: registry.NewCollector(), pauses: map[types.UID]time.Duration{}}
	h.mu.Lock()
	taken := h.garbage != nil
	if !taken {
		h.garbage = g
	}
	h.mu.Unlock()
	if taken {
		return errors.New("serve: Collect: the Handler has a garbage collector already")
	}
	defer func() {
		h.mu.Lock()
		h.garbage = nil
		h.mu.Unlock()
		g.follow(nil)
	}()
	for {
		g.follow(slices.DeleteFunc(h.all(), func(c *collection) bool { return c.writes == nil }))
		g.collect(ctx)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.wake:
		}
	}
}

const (
	minPause = time.Second // after a failure; then twice as long
	maxPause = 5 * time.Minute
	// maxSteps is how many writes of the collector are made at once: an etcd takes a while for each.
	maxSteps = 16
)

// A garbage is the garbage collector of a Handler. The histories tell it of each change.
type garbage struct {
	opts   *Options      // of the Handler
	wake   chan struct{} // has a token when there may be something to do
	served []*collection // only Collect changes it, and stores
	stores []*collection // one for each store: versions share their objects, and one may not show all

	mu     sync.Mutex
	all    *registry.Collector
	pauses map[types.UID]time.Duration // of objects with which a write has failed
}

// wakeUp says that something has changed. A nil garbage need not know.
func (g *garbage) wakeUp() {
	if g == nil {
		return
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// follow observes the collections that there are now. When others come or go, all is looked at
// anew: a kind that is known decides about its dependents.
func (g *garbage) follow(now []*collection) {
	if slices.Equal(g.served, now) {
		return
	}
	for _, c := range g.stores {
		c.history.observe(nil)
	}
	var kinds []*registry.Kind
	g.stores = nil
	for _, c := range now {
		kinds = append(kinds, c.writes.kind)
		i := slices.IndexFunc(g.stores, func(other *collection) bool {
			a, b := other.writes.behind, c.writes.behind
			return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
		})
		if i < 0 {
			g.stores = append(g.stores, c)
		} else if !c.writes.converted {
			g.stores[i] = c
		}
	}
	g.mu.Lock()
	g.served, g.all = now, registry.NewCollector(kinds...)
	g.mu.Unlock()
	for _, c := range g.stores {
		c.history.observe(func(old, new *item) { g.changed(c, old, new) })
	}
}

func (g *garbage) changed(c *collection, old, new *item) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if new == nil {
		g.all.Remove(old.uid)
	} else {
		g.all.Set(c.writes.kind, ownership(new))
	}
	g.wakeUp()
}

// ownership returns what the collector needs to know of an object.
func ownership(i *item) *metav1.ObjectMeta {
	key := i.key()
	m := &metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: i.uid, ResourceVersion: listopts.FormatVersion(i.version)}
	if o, ok := i.obj.(interface {
		GetDeletionTimestamp() *metav1.Time
		GetFinalizers() []string
		GetOwnerReferences() []metav1.OwnerReference
	}); ok {
		m.DeletionTimestamp, m.Finalizers, m.OwnerReferences = o.GetDeletionTimestamp(), o.GetFinalizers(), o.GetOwnerReferences()
	}
	return m
}

// collect makes the writes that are due. Whoever seems to be gone, or to have no dependents, may
// only not have come yet, so the collections catch up with their stores before.
func (g *garbage) collect(ctx context.Context) {
	if slices.ContainsFunc(g.stores, func(c *collection) bool { return !c.history.extent().synced }) {
		return // a beginning wakes
	}
	g.mu.Lock()
	due := slices.DeleteFunc(g.all.Take(), func(uid types.UID) bool {
		_, ok := g.stepLocked(uid)
		return !ok
	})
	g.mu.Unlock()
	if len(due) == 0 {
		return
	}
	for _, c := range g.stores {
		if err := c.caughtUp(ctx, c.writes.catchUp); err != nil {
			g.failed(ctx, fmt.Errorf("%s: %w", c.name, err), due...)
			return
		}
	}
	var steps errgroup.Group
	steps.SetLimit(maxSteps)
	for _, uid := range due {
		steps.Go(func() error {
			if err := g.step(ctx, uid); err != nil {
				g.failed(ctx, err, uid)
			}
			return nil
		})
	}
	_ = steps.Wait()
}

// failed reports an error, and has the objects looked at again after a while.
func (g *garbage) failed(ctx context.Context, err error, due ...types.UID) {
	if ctx.Err() != nil {
		return
	}
	err = fmt.Errorf("serve: Collect: %w", err)
	g.opts.Logger.Error("lw/serve: garbage cannot be collected", "error", err)
	if g.opts.OnError != nil {
		g.opts.OnError(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pause := min(max(minPause, 2*g.pauses[due[0]]), maxPause)
	g.pauses[due[0]] = pause
	time.AfterFunc(pause, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, uid := range due {
			if !g.all.Again(uid) {
				delete(g.pauses, uid)
			}
		}
		g.wakeUp()
	})
}

// stepLocked returns the write that an object calls for. One that calls for none has no pause.
func (g *garbage) stepLocked(uid types.UID) (registry.Step, bool) {
	step, ok := g.all.Step(uid)
	if !ok {
		delete(g.pauses, uid)
	}
	return step, ok
}

// step makes the write that an object still calls for. If the object has changed meanwhile, that is
// looked at when it comes.
func (g *garbage) step(ctx context.Context, uid types.UID) error {
	g.mu.Lock()
	step, ok := g.stepLocked(uid)
	g.mu.Unlock()
	if !ok {
		return nil
	}
	c := g.stores[slices.IndexFunc(g.stores, func(c *collection) bool { return c.writes.kind == step.Kind })]
	w, err := step.Kind.Prepare(step.Request)
	if err == nil {
		_, err = w.Run(ctx, c.writes.store)
	}
	raced := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	if raced { // or refused, if the same is to be done when the other write is here
		if late := c.caughtUp(ctx, c.writes.catchUp); late != nil {
			return late
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if again, ok := g.all.Step(uid); err != nil && (!raced || ok && reflect.DeepEqual(step, again)) {
		return fmt.Errorf("%s: %w", step, err)
	}
	delete(g.pauses, uid)
	return nil
}
