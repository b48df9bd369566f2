package lw

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/graph/settle"
)

// A Union is all objects of several collections, such as those of several namespaces or clusters.
// Of objects with one key, that of the collection that was added first is shown, and
// [DerivedStatus] names the conflict. A [Derive] that puts the cluster's name into the key keeps
// both.
type Union[T Identified] struct {
	*Derived[T]
	members *members[T]
}

// NewUnion returns the union of ins, which may be none. It syncs when all of these have: one that
// may never answer is better added by Add, which the union does not wait for. NewUnion panics if
// one of ins is nil.
func NewUnion[T Object](g *Graph, ins ...Collection[T]) *Union[T] {
	all := new(members[T])
	for _, in := range ins {
		all.add(&unionMember[T]{in: inputOf(g, in, "NewUnion"), first: true})
	}
	// An object is the same as itself only: versions and UIDs of two servers mean nothing to each
	// other.
	u := &Union[T]{members: all}
	u.Derived = newDerived(g, fmt.Sprintf("Union[%s]", typeName[T]()), func(*faults) func(a, b T) bool { return equal.Same[T] }, func(shown func(Key) (T, bool), faults *faults) operator[T] {
		joined := map[int]*unionMember[T]{}
		return &unionOperator[T]{
			Results: settle.NewResults(settle.Rules[int, T]{
				Compare: cmp.Compare[int], Same: equal.Same[T], Shown: shown,
				Home: func(Key) int { return 0 },
				Rivals: func(key Key, shown, rival int, several bool) {
					if several {
						faults.overlap(key, joined[shown].in.name(), joined[rival].in.name())
					} else {
						faults.note(key, nil, false)
					}
				},
			}),
			graph: g, members: all, joined: joined,
		}
	})
	return u
}

// Add adds the objects of in to the union, at one point after in has synced. remove takes them out
// at one point; from its call on the union does not depend on in, which may be closed. Add does
// nothing if the union or in was closed. It panics if in is nil or depends on the union.
func (u *Union[T]) Add(in Collection[T]) (remove func()) {
	if isNil(in) {
		panic("lw: Union.Add: nil collection")
	}
	m, circle := u.add(in)
	if circle {
		panic("lw: Union.Add: the collection depends on the union")
	}
	u.graph.wake()
	return func() { u.remove(m) }
}

// add makes in a member, unless it depends on the union.
func (u *Union[T]) add(in Collection[T]) (m *unionMember[T], circle bool) {
	g := u.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	m = new(unionMember[T])
	over := g.phase == ended || !g.hasLocked(u.Derived)
	if d := in.derived(); d != nil && d.graph == g {
		if d == u.Derived || g.readBy([]node{d}, node.inputs)[u.Derived] {
			return nil, true
		}
		over = over || !g.hasLocked(d)
	}
	if !over {
		m.in = inputLocked(g, in)
		u.members.add(m)
		_, derived := m.in.(node)
		g.unsorted = g.unsorted || derived
	}
	return m, false
}

// remove takes m out of the union, if it is in it. The next step takes its objects out of what the
// union shows.
func (u *Union[T]) remove(m *unionMember[T]) {
	u.graph.mu.Lock()
	u.members.remove(m)
	u.graph.mu.Unlock()
	u.graph.wake()
}

// members are the collections of a union. A member is present from Add until remove, and then
// leaving until a step has taken its objects out of the union. Members come and go under Graph.mu
// and mu.
type members[T Identified] struct {
	mu      sync.Mutex
	present []*unionMember[T] // in the order in which they were added; appended to or replaced
	leaving []*unionMember[T] // appended to or replaced
	gone    bool              // there are some in present that leave
	last    int               // the number of the last one

	// step and going are present and leaving as they were when the present step began. They belong
	// to the goroutine of Run. A member that is closed while it leaves is not computed any more. Its
	// objects are those of its last step, which the union shows.
	step, going []*unionMember[T]
}

// A unionMember is a collection of a union.
type unionMember[T Identified] struct {
	number int // that of a member that was added later is larger
	in     input[T]
	first  bool // NewUnion was called with it, so that the union waits for it
	here   bool // it is present; guarded by members.mu
}

func (ms *members[T]) add(m *unionMember[T]) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m.number, m.here = ms.last, true
	ms.last++
	ms.present = append(ms.present, m)
}

// remove has m leave, if it is present. The next list takes it out of present, with all that have
// left since the last one.
func (ms *members[T]) remove(m *unionMember[T]) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m.here {
		m.here, ms.gone = false, true
		ms.leaving = append(ms.leaving, m)
	}
}

// forget forgets the members that were leaving when the step began.
func (ms *members[T]) forget() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.leaving = slices.Clone(ms.leaving[len(ms.going):]) // others are behind them
}

func (ms *members[T]) list() (present, leaving []*unionMember[T]) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.gone {
		ms.gone = false
		ms.present = slices.DeleteFunc(slices.Clone(ms.present), func(m *unionMember[T]) bool { return !m.here })
	}
	return ms.present, ms.leaving
}

type unionOperator[T Identified] struct {
	*settle.Results[int, T]
	graph   *Graph
	members *members[T]
	joined  map[int]*unionMember[T] // those whose objects are in the results, by their numbers
}

func (o *unionOperator[T]) takeLocked() { o.members.step, o.members.going = o.members.list() }

func (o *unionOperator[T]) inputs(yield func(anyInput) bool) {
	present, _ := o.members.list()
	for _, m := range present {
		if !yield(m.in) {
			return
		}
	}
}

// held is inputs with the members that leave.
func (o *unionOperator[T]) held(yield func(anyInput) bool) {
	present, leaving := o.members.list()
	for _, m := range slices.Concat(present, leaving) {
		if !yield(m.in) {
			return
		}
	}
}

// needs is inputs for the members that the union waits for.
func (o *unionOperator[T]) needs(yield func(anyInput) bool) {
	present, _ := o.members.list()
	for _, m := range present {
		if m.first && !yield(m.in) {
			return
		}
	}
}

// wantsContent reports whether a member joins or leaves in the step that has begun.
func (o *unionOperator[T]) wantsContent() bool {
	return slices.ContainsFunc(o.members.going, func(m *unionMember[T]) bool { return o.joined[m.number] != nil }) ||
		slices.ContainsFunc(o.members.step, func(m *unionMember[T]) bool { return o.joined[m.number] == nil && m.in.stage() != waiting })
}

func (o *unionOperator[T]) run(whole bool) {
	for _, m := range o.members.step {
		if m.in.stage() == waiting {
			continue // it joins later
		}
		o.feed(m, whole || o.joined[m.number] == nil)
		o.joined[m.number] = m
	}
	for _, m := range o.members.going {
		if o.joined[m.number] == nil {
			continue
		}
		o.feed(m, false) // what this step takes out of the member is not in its contents
		for obj := range m.in.contents() {
			o.Drop(m.number, KeyOf(obj))
		}
		delete(o.joined, m.number)
	}
}

// feed gives the results what has changed in m, or all objects of m if whole is true.
func (o *unionOperator[T]) feed(m *unionMember[T], whole bool) {
	feed(m.in, whole, func(key Key, obj T) {
		if equal.IsZero(obj) {
			o.Drop(m.number, key)
		} else {
			o.Put(m.number, key, obj)
		}
	})
}

// finish ends the step. Nothing is kept of the members that have left.
func (o *unionOperator[T]) finish() {
	if len(o.members.going) > 0 {
		o.members.forget()
		o.graph.mu.Lock()
		o.graph.shrunk = true
		o.graph.mu.Unlock()
	}
	o.members.step, o.members.going = nil, nil
}

// A ByName is the objects that a [KeySet] names, each followed by an Informer of its own: for a
// program that may get, list and watch single objects only, by their names
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources). Who may
// watch the whole collection needs one watch for all of them; see [Wanted].
//
// What becomes wanted is in the union when it has been read, and what nobody wants any more leaves
// it. Each object is of a state of its own: no version is one of all.
type ByName[T Object] struct {
	*Union[T]
	set     *KeySet
	source  func(Key) Source[T]
	opts    ByNameOptions
	started atomic.Bool
	refused bool         // that there are too many keys has been reported; of the goroutine of Run
	reading atomic.Int32 // members that have not been read, for a while

	mu      sync.Mutex
	of      map[Key]*namedMember[T] // guarded by mu, as all below; only the goroutine of Run changes it
	ended   bool                    // Run has returned
	changed chan struct{}           // closed by the next change of one of these
}

// A namedMember is the informer of a key, in the union.
type namedMember[T Object] struct {
	inf *Informer[T]
	end func()
}

// ByNameOptions are the settings of a [ByName]. The zero value works.
type ByNameOptions struct {
	Options     // of each informer; the key follows its Name
	Limit   int // of objects, each of which is a watch. The graph's OnError gets more. Default: 64
}

// NewByName returns the objects that keys names. source returns the [Source] of the collection of a
// key, such as that of its namespace, and may return the same one each time; the ByName selects the
// object by metadata.name. Call Run. NewByName panics if an argument but opts is nil.
func NewByName[T Object](g *Graph, keys *KeySet, source func(key Key) Source[T], opts *ByNameOptions) *ByName[T] {
	if keys == nil || source == nil {
		panic("lw: NewByName: nil keys or source")
	}
	const limit = 64
	b := &ByName[T]{Union: NewUnion[T](g), set: keys, source: source, of: map[Key]*namedMember[T]{}, changed: make(chan struct{})}
	if opts != nil {
		b.opts = *opts
	}
	b.opts.Name = cmp.Or(b.opts.Name, typeName[T]())
	if b.opts.Limit <= 0 {
		b.opts.Limit = limit
	}
	return b
}

// Run follows what is wanted until ctx is done, and then returns nil when nothing runs any more. A
// second call returns [ErrStarted].
func (b *ByName[T]) Run(ctx context.Context) error {
	if !b.started.CompareAndSwap(false, true) {
		return fmt.Errorf("lw: %s: %w", b.opts.Name, ErrStarted)
	}
	var running sync.WaitGroup
	for ctx.Err() == nil {
		wanted, changed := b.set.wanted().Changed(), b.change()
		b.follow(ctx, &running)
		select {
		case <-wanted:
		case <-changed:
		case <-ctx.Done():
		}
	}
	b.update(func() { b.ended = true })
	running.Wait()
	return nil
}

// follow ends the informers of what nobody wants any more, and begins those of what is wanted. No
// lock is held while code of the user's runs.
func (b *ByName[T]) follow(ctx context.Context, running *sync.WaitGroup) {
	keys := b.set.wanted().All()
	slices.SortFunc(keys, compareKeys)
	for key, m := range b.of { // only this goroutine changes it
		if _, wanted := slices.BinarySearchFunc(keys, key, compareKeys); !wanted {
			b.update(func() { delete(b.of, key) })
			m.end()
		}
	}
	for _, key := range keys {
		if b.of[key] != nil {
			continue
		}
		if len(b.of) >= b.opts.Limit {
			if !b.refused {
				b.refused = true
				b.graph.opts.OnError(&Error{Informer: b.opts.Name, Op: opWatch, Key: key, Err: fmt.Errorf("%d objects are wanted by name, more than ByNameOptions.Limit: %d", len(keys), b.opts.Limit)})
			}
			break
		}
		if b.reading.Load() >= maxReads {
			break // it has its turn when another one has been read
		}
		m := b.begin(ctx, key, running)
		b.update(func() { b.of[key] = m })
	}
	b.refused = b.refused && len(keys) > b.opts.Limit
}

// begin begins the informer of key.
func (b *ByName[T]) begin(ctx context.Context, key Key, running *sync.WaitGroup) *namedMember[T] {
	opts := b.opts.Options
	opts.Name += " " + keyString(key)
	inf := NewInformer(WithListOptions(b.source(key), func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", key.Name).String()
	}), &opts)
	ctx, cancel := context.WithCancel(ctx)
	remove := b.Add(inf)
	b.reading.Add(1)
	running.Go(func() { _ = inf.Run(ctx) }) // OnError gets why it ends
	running.Go(func() {
		// An object that cannot be read does not keep the others waiting.
		first, end := context.WithTimeout(ctx, 10*time.Second)
		defer end()
		_ = inf.WaitForSync(first)
		b.update(func() { b.reading.Add(-1) })
	})
	return &namedMember[T]{inf, func() { cancel(); remove() }}
}

// WaitForKey waits until the union shows what there is of key. The error wraps the cause of ctx,
// [ErrStopped], or [ErrUnwanted]; and the last failure to read the object.
func (b *ByName[T]) WaitForKey(ctx context.Context, key Key) error {
	for {
		wanted, changed := b.set.wanted().Changed(), b.change()
		b.mu.Lock()
		m, ended := b.of[key], b.ended
		b.mu.Unlock()
		var cause error
		switch {
		case !b.set.wanted().Wants(key):
			cause = ErrUnwanted
		case m != nil:
			err := m.inf.WaitForSync(ctx)
			if err == nil {
				return b.graph.WaitForStep(ctx)
			}
			b.mu.Lock()
			left := b.of[key] != m
			b.mu.Unlock()
			if !left || ctx.Err() != nil {
				return err
			}
		case ended:
			cause = ErrStopped
		default:
			select {
			case <-wanted:
			case <-changed:
			case <-ctx.Done():
				cause = context.Cause(ctx)
			}
		}
		if cause != nil {
			return fmt.Errorf("lw: %s: waiting for %s: %w", b.opts.Name, keyString(key), cause)
		}
	}
}

// change returns a channel that the next update closes.
func (b *ByName[T]) change() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// update calls do under mu, and wakes those who wait for a change.
func (b *ByName[T]) update(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
	close(b.changed)
	b.changed = make(chan struct{})
}
