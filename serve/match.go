package serve

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
)

// costlySelectors is how long the selectors of a request may be before they are matched apart. A
// shorter one takes a few microseconds for an event, about as long as the write of it. A thousand
// of the longest would hold up a sweeper, and with it all other clients, for half a second.
const costlySelectors = 512

// A costly is what is special about a filter with long selectors: equal ones are one, which matches
// an event once, and those of one client are matched one after the other, in goroutines that write
// to nobody else. So however much a client selects by, others do not wait for it.
type costly struct {
	*verdicts
	turn *turn
}

// A turn lets one goroutine of a client match at a time.
type turn struct {
	sync.Mutex
	client string
}

// verdicts are what a filter has made of the last changes. All watches with equal selectors share
// them.
type verdicts struct {
	filter *listopts.Filter

	mu   sync.Mutex // guards last
	last [maxRead]verdict
}

type verdict struct {
	position uint64 // behind the event in its history; 0: there is none
	was, is  bool
}

// newFilter parses the selectors of a client's request.
func (s *served) newFilter(namespace string, opts metav1.ListOptions, client func() string) (*filter, error) {
	parse := func() (*listopts.Filter, error) { return listopts.NewFilter(namespace, opts, s.knows) }
	if len(opts.LabelSelector)+len(opts.FieldSelector)+len(opts.ShardSelector) < costlySelectors {
		f, err := parse()
		return &filter{f, s.resource, nil}, err
	}
	text := fmt.Sprintf("%q %q %q %q", namespace, opts.LabelSelector, opts.FieldSelector, opts.ShardSelector)
	all, err := s.selectors.get(sha256.Sum256([]byte(text)), func() (*verdicts, error) {
		f, err := parse()
		return &verdicts{filter: f}, err
	})
	if err != nil {
		return nil, err
	}
	name := client()
	own, err := s.turns.get(name, func() (*turn, error) { return &turn{client: name}, nil })
	return &filter{all.filter, s.resource, &costly{all, own}}, err
}

// selects is matches for a list.
func (f *filter) selects(i *item) bool {
	if f.costly != nil {
		f.costly.turn.Lock()
		defer f.costly.turn.Unlock()
	}
	return f.matches(i)
}

// change returns whether the filter selects the old and the new item of an event, which is before at.
func (f *filter) change(at place, e *event) (was, is bool) {
	c := f.costly
	if c == nil {
		return f.matches(e.old), f.matches(e.new)
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &c.last[at.position%maxRead]
	if v.position != at.position {
		*v = verdict{at.position, f.matches(e.old), f.matches(e.new)}
	}
	return v.was, v.is
}

// An interned has one value for each key, for as long as somebody uses it.
type interned[K comparable, V any] struct {
	mu  sync.Mutex // guards all
	all map[K]weak.Pointer[V]
}

// get returns the value of a key. It calls create if there is none.
func (n *interned[K, V]) get(key K, create func() (*V, error)) (*V, error) {
	if v := n.of(key, nil); v != nil {
		return v, nil
	}
	v, err := create()
	if err != nil {
		return nil, err
	}
	return n.of(key, v), nil
}

// of returns the value of a key, which is otherwise if there is none.
func (n *interned[K, V]) of(key K, otherwise *V) *V {
	n.mu.Lock()
	defer n.mu.Unlock()
	if v := n.all[key].Value(); v != nil || otherwise == nil {
		return v
	}
	if n.all == nil {
		n.all = map[K]weak.Pointer[V]{}
	}
	n.all[key] = weak.Make(otherwise)
	runtime.AddCleanup(otherwise, n.forget, key)
	return otherwise
}

// forget is called when nobody uses the value of a key any more. There may be a new one.
func (n *interned[K, V]) forget(key K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[key].Value() == nil {
		delete(n.all, key)
	}
}
