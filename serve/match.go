package serve

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/serve/internal/order"
)

// longSelectors is how long the selectors of a request may be before they are matched apart. A
// shorter one takes a few microseconds for an event, about as long as the write of it. A thousand
// of the longest would hold up a sweeper, and with it all other clients, for half a second.
const longSelectors = 512

// A filter with long selectors has sharedVerdicts: equal filters are one, which matches an event
// once, and those of one client are matched one after the other, in goroutines that write to nobody
// else. So however much a client selects by, others do not wait for it.
type sharedVerdicts struct {
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

// filters are the filters with long selectors that are in use.
type filters struct {
	verdicts weakMap[[32]byte, verdicts] // by a hash of the selectors
	turns    weakMap[string, turn]       // of the clients that have such
}

// parse parses the selectors of a client's request.
func (all *filters) parse(r *resource, namespace string, opts metav1.ListOptions, client func() string) (*filter, error) {
	parse := func() (*listopts.Filter, error) { return listopts.NewFilter(namespace, opts, r.knows) }
	if len(opts.LabelSelector)+len(opts.FieldSelector)+len(opts.ShardSelector) < longSelectors {
		f, err := parse()
		return &filter{f, r, nil}, err
	}
	text := fmt.Sprintf("%q %q %q %q", namespace, opts.LabelSelector, opts.FieldSelector, opts.ShardSelector)
	shared, err := all.verdicts.get(sha256.Sum256([]byte(text)), func() (*verdicts, error) {
		f, err := parse()
		return &verdicts{filter: f}, err
	})
	if err != nil {
		return nil, err
	}
	name := client()
	own, err := all.turns.get(name, func() (*turn, error) { return &turn{client: name}, nil })
	return &filter{shared.filter, r, &sharedVerdicts{shared, own}}, err
}

// selects is matches for a list.
func (f *filter) selects(i *item) bool {
	if f.shared != nil {
		f.shared.turn.Lock()
		defer f.shared.turn.Unlock()
	}
	return f.matches(i)
}

// change returns whether the filter selects the old and the new item of an event, which is before
// at.
func (f *filter) change(at place, e *event) (was, is bool) {
	c := f.shared
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

// A weakMap has one value for each key, for as long as somebody uses it.
type weakMap[K comparable, V any] struct {
	mu  sync.Mutex // guards all
	all map[K]weak.Pointer[V]
}

// get returns the value of a key. It calls create if there is none.
func (n *weakMap[K, V]) get(key K, create func() (*V, error)) (*V, error) {
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
func (n *weakMap[K, V]) of(key K, otherwise *V) *V {
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
func (n *weakMap[K, V]) forget(key K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[key].Value() == nil {
		delete(n.all, key)
	}
}

// A filter selects items.
type filter struct {
	*listopts.Filter
	resource *resource
	shared   *sharedVerdicts // nil: it matches at once
}

// matches reports whether the filter selects an item. It is false for nil.
func (f *filter) matches(i *item) bool {
	if i == nil {
		return false
	}
	key := i.key()
	unknown := false // whether it is asked for: who may have asked for the item gets its error
	selects := f.Matches(listopts.Object{
		Namespace: key.Namespace, Name: key.Name, UID: i.uid, Labels: i.labels,
	}, func(name string) string {
		if n, ok := slices.BinarySearch(f.resource.fieldNames, name); ok {
			unknown = i.failed != nil
			return i.fields[n]
		}
		return ""
	})
	if i.failed != nil && i.failed.labels && f.Selects() {
		unknown = f.Namespace() == "" || f.Namespace() == key.Namespace
	}
	return selects || unknown
}

// selected yields the items of a state that the filter selects, in order, from a path on. One that
// the selector names is looked up: most watches of single objects would else pass over all.
func (f *filter) selected(state *order.List[*item], start string) iter.Seq[*item] {
	prefix := listopts.Prefix(f.Namespace())
	start = max(start, prefix)
	return func(yield func(*item) bool) {
		if name := f.Name(); name != "" && (prefix != "" || f.resource.cluster) {
			if i, ok := state.Get(prefix + name); ok && i.path >= start && f.selects(i) {
				yield(i)
			}
			return
		}
		for path, i := range state.From(start) {
			if !strings.HasPrefix(path, prefix) || f.selects(i) && !yield(i) {
				return
			}
		}
	}
}
