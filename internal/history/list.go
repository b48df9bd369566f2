package history

import (
	"slices"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
)

// A Page is the answer to a list request.
type Page[V any] struct {
	Version  uint64 // of the state; all pages of one list show the same state
	Items    []*Object[V]
	Continue string // the token for the next page; empty on the last page
	// Remaining is the number of objects after this page. It is nil on the last page, and always if
	// there is a selector, as a real server leaves it out then.
	Remaining *int64
	// Shard is the request's shard selector, as a server that selects by it echoes it. It is nil if
	// the request has none.
	Shard *metav1.ShardInfo
}

// List answers a list request, with the objects in the order of their paths. An empty namespace
// means all namespaces. opts chooses the state:
//
//   - no resource version: the current one
//   - a token (Continue): the state that the first page showed
//   - a resource version with Exact, or with a limit and no match: the state at that version
//   - any other resource version: the current one, which is not older than requested
//
// A limit is ignored with resource version "0", as servers with a watch cache do. List fails with
// Expired if the state was compacted. If the line has not reached the version, List does not wait
// as a server does for some seconds, but fails at once, as StateAt does.
func (c *Collection[V]) List(namespace string, opts metav1.ListOptions) (Page[V], error) {
	if err := listopts.ValidateList(opts); err != nil {
		return Page[V]{}, err
	}
	f, err := c.newFilter(namespace, opts)
	if err != nil {
		return Page[V]{}, err
	}
	limit := listopts.Limit(opts)
	version, state, err := c.listed(namespace, opts)
	if err != nil {
		return Page[V]{}, err
	}
	page := Page[V]{Version: version, Shard: f.Shard()}
	for i, obj := range state {
		if !c.matches(f, obj) {
			continue
		}
		if limit == 0 || int64(len(page.Items)) < limit {
			page.Items = append(page.Items, obj)
			continue
		}
		last := page.Items[limit-1]
		page.Continue = listopts.After(version, namespace, listopts.Path(last.Key)).Encode()
		page.Remaining = c.count(f, state[i:])
		break
	}
	return page, nil
}

// newFilter parses the selectors of a request.
func (c *Collection[V]) newFilter(namespace string, opts metav1.ListOptions) (*listopts.Filter, error) {
	c.line.mu.Lock()
	fields := c.opts.Fields
	c.line.mu.Unlock()
	return listopts.NewFilter(namespace, opts, func(field string) bool { return slices.Contains(fields, field) })
}

// SetFields sets the Fields of a collection that has a Field function, for requests to come.
func (c *Collection[V]) SetFields(names []string) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.opts.Fields = names
}

// matches reports whether the filter selects obj. It is false for nil.
func (c *Collection[V]) matches(f *listopts.Filter, obj *Object[V]) bool {
	return obj != nil && f.Matches(
		listopts.Object{Namespace: obj.Key.Namespace, Name: obj.Key.Name, UID: obj.UID, Labels: obj.Labels},
		func(name string) string {
			if c.opts.Field != nil {
				return c.opts.Field(obj, name)
			}
			return obj.Fields[name]
		})
}

// count returns how many of objs match, or nil if a server does not count them.
func (c *Collection[V]) count(f *listopts.Filter, objs []*Object[V]) *int64 {
	if f.Selects() {
		return nil
	}
	n := int64(len(objs))
	if f.Namespace() != "" {
		n = 0
		for _, obj := range objs {
			if c.matches(f, obj) {
				n++
			}
		}
	}
	return &n
}

// listed returns the version of the state that answers a list request, and the objects of that
// state that are not on earlier pages. They are not filtered yet.
func (c *Collection[V]) listed(namespace string, opts metav1.ListOptions) (uint64, []*Object[V], error) {
	if opts.Continue != "" {
		return c.continued(namespace, opts)
	}
	version, err := listopts.ListVersion(opts.ResourceVersion)
	if err != nil {
		return 0, nil, err
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	switch {
	case version > c.line.now:
		return 0, nil, listopts.TooLarge(version, c.line.now)
	case version == 0 || !listopts.Exact(opts):
		version = c.line.now
	case version < c.oldest:
		return 0, nil, listopts.TooOld(version, c.oldest)
	}
	return version, c.stateLocked(version), nil
}

// continued is listed for a request that has a token.
func (c *Collection[V]) continued(namespace string, opts metav1.ListOptions) (uint64, []*Object[V], error) {
	t, err := listopts.Continued(opts)
	if err != nil {
		return 0, nil, err
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	// A plain token names the version of the first page. So all pages show one state, as long as
	// that is not compacted.
	version := c.line.now
	if t.Version != listopts.Inconsistent {
		version = uint64(t.Version)
	}
	if version < c.oldest {
		return 0, nil, listopts.ExpiredToken(t.Start)
	}
	if version > c.line.now {
		return 0, nil, listopts.TooLarge(version, c.line.now)
	}
	state, from := c.stateLocked(version), t.From(namespace)
	return version, state[sort.Search(len(state), func(i int) bool { return listopts.Path(state[i].Key) >= from }):], nil
}
