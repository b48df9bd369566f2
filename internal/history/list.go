package history

import (
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	version, state, err := c.listed(namespace, opts)
	if err != nil {
		return Page[V]{}, err
	}
	page := Page[V]{Version: version}
	if f.shard != nil {
		page.Shard = &metav1.ShardInfo{Selector: f.shard.String()}
	}
	for i, obj := range state {
		if !f.matches(obj) {
			continue
		}
		if limit <= 0 || int64(len(page.Items)) < limit {
			page.Items = append(page.Items, obj)
			continue
		}
		last := page.Items[limit-1]
		page.Continue = token{Version: int64(version), Start: strings.TrimPrefix(pathOf(last.Key), prefixOf(namespace)) + "\x00"}.encode()
		page.Remaining = f.count(state[i:])
		break
	}
	return page, nil
}

// prefixOf returns what the paths of all objects of a namespace begin with. As with kube-apiserver,
// the token of a request for one namespace says where to go on after that. So it has no meaning of
// its own: in another namespace it goes on there.
func prefixOf(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + "/"
}

// count returns how many of objs match, or nil if a server does not count them.
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

// listed returns the version of the state that answers a list request, and the objects of that
// state that are not on earlier pages. They are not filtered yet.
func (c *Collection[V]) listed(namespace string, opts metav1.ListOptions) (uint64, []*Object[V], error) {
	if opts.Continue != "" {
		return c.continued(namespace, opts)
	}
	version, err := ParseVersion(opts.ResourceVersion)
	if err != nil {
		return 0, nil, apierrors.NewBadRequest(err.Error())
	}
	// If there is a limit, an unset match means Exact: a legacy rule of the API.
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

// continued is listed for a request that has a token.
func (c *Collection[V]) continued(namespace string, opts metav1.ListOptions) (uint64, []*Object[V], error) {
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return 0, nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	t, err := decodeToken(opts.Continue)
	if err != nil {
		return 0, nil, err
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	// A plain token names the version of the first page. So all pages show one state, as long as
	// that is not compacted.
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
	state, start := c.stateLocked(version), prefixOf(namespace)+t.Start
	return version, state[sort.Search(len(state), func(i int) bool { return pathOf(state[i].Key) >= start }):], nil
}
