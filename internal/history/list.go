package history

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Page is what List returns.
type Page[V any] struct {
	Version   uint64 // of the state that all pages of a list show
	Items     []*Object[V]
	Continue  string // the token of the next page; empty on the last
	Remaining *int64 // how many objects follow; nil on the last page and, as a real server has it, with a selector
}

// List answers a list request in the state that opts asks for, in the order of the keys. An empty namespace means all.
// It does not wait for a version that is not there yet, but fails with a Timeout that says so.
func (c *Collection[V]) List(namespace string, opts metav1.ListOptions) (Page[V], error) {
	panic("not written yet")
}
