package history

import (
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Page is what List returns.
type Page[V any] struct {
	Version   uint64 // of the state that all pages of a list show
	Items     []*Object[V]
	Continue  string // the token of the next page; empty on the last
	Remaining *int64 // how many objects follow; nil on the last page and, as a real server has it, with a selector
}

// List answers a list request in the state that opts asks for, in the order of the keys. An empty namespace means all.
// A limit is ignored with resourceVersion "0", as a server with a watch cache does. List does not wait for a version that is
// not there yet, but fails with a Timeout that says so.
func (c *Collection[V]) List(namespace string, opts metav1.ListOptions) (Page[V], error) {
	if err := validateList(opts); err != nil {
		return Page[V]{}, err
	}
	f, err := c.newFilter(namespace, opts)
	if err != nil {
		return Page[V]{}, err
	}
	limit := opts.Limit
	if opts.ResourceVersion == "0" && opts.Continue == "" {
		limit = 0
	}
	version, state, err := c.listed(opts)
	if err != nil {
		return Page[V]{}, err
	}
	page := Page[V]{Version: version}
	for i, obj := range state {
		if !f.matches(obj) {
			continue
		}
		if limit <= 0 || int64(len(page.Items)) < limit {
			page.Items = append(page.Items, obj)
			continue
		}
		last := page.Items[limit-1]
		page.Continue = token{Version: int64(version), Start: pathOf(last.Key) + "\x00"}.encode()
		page.Remaining = f.count(state[i:])
		break
	}
	return page, nil
}

// count returns how many of objs match, or nil where that is not told.
func (f filter[V]) count(objs []*Object[V]) *int64 {
	if f.selects() {
		return nil
	}
	n := int64(len(objs))
	if f.namespace != "" {
		n = 0
		for _, obj := range objs {
			if f.matches(obj) {
				n++
			}
		}
	}
	return &n
}

// listed returns the version that a list request is answered at, and the part of its state that may come.
func (c *Collection[V]) listed(opts metav1.ListOptions) (uint64, []*Object[V], error) {
	if opts.Continue != "" {
		return c.continued(opts)
	}
	version, err := ParseVersion(opts.ResourceVersion)
	if err != nil {
		return 0, nil, apierrors.NewBadRequest(err.Error())
	}
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact || opts.ResourceVersionMatch == "" && opts.Limit > 0
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	switch {
	case version > c.line.now:
		return 0, nil, errTooLarge(version, c.line.now)
	case version == 0 || !exact:
		version = c.line.now
	case version < c.oldest:
		return 0, nil, errTooOld(version, c.oldest)
	}
	return version, c.stateLocked(version), nil
}

func (c *Collection[V]) continued(opts metav1.ListOptions) (uint64, []*Object[V], error) {
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return 0, nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	t, err := decodeToken(opts.Continue)
	if err != nil {
		return 0, nil, err
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	version := c.line.now
	if t.Version != inconsistent {
		version = uint64(t.Version)
	}
	if version < c.oldest {
		return 0, nil, errExpiredToken(t.Start)
	}
	if version > c.line.now {
		return 0, nil, errTooLarge(version, c.line.now)
	}
	state := c.stateLocked(version)
	return version, state[sort.Search(len(state), func(i int) bool { return pathOf(state[i].Key) >= t.Start }):], nil
}
