package lw_test

import (
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
)

// A host is an object of one's own.
type host struct {
	lw.Meta
	Rack   string
	Roles  []string
	Labels map[string]string
}

func (h *host) GetLabels() map[string]string { return h.Labels }

func newHost(name, rack string, roles ...string) *host {
	return &host{Meta: lw.Meta{Namespace: "dc1", Name: name}, Rack: rack, Roles: roles}
}

// names returns the names of hosts, sorted, since a store has no order.
func names(hosts iter.Seq[*host]) []string {
	var all []string
	for h := range hosts {
		all = append(all, h.Name)
	}
	slices.Sort(all)
	return all
}

func ExampleIndexer() {
	hosts := lw.NewIndexer(newHost("a", "r1"), newHost("b", "r1"))
	old, replaced := hosts.Set(newHost("b", "r2"))
	fmt.Println(old.Rack, replaced)
	hosts.Delete(lw.Key{Namespace: "dc1", Name: "a"})

	b, ok := hosts.Get(lw.Key{Namespace: "dc1", Name: "b"})
	fmt.Println(b.Rack, ok)
	fmt.Println(hosts.Len(), names(hosts.All()))
	// Output:
	// r1 true
	// r2 true
	// 1 [b]
}

func ExampleNewIndex() {
	hosts := lw.NewIndexer(newHost("a", "r1"), newHost("b", "r1"), newHost("c", "r2"))
	racks := lw.NewIndex(hosts, func(h *host) string { return h.Rack })
	fmt.Println(names(racks.Lookup("r1")))

	hosts.Set(newHost("b", "r2"))
	for _, rack := range slices.Sorted(racks.Keys()) {
		fmt.Println(rack, racks.Len(rack), names(racks.Lookup(rack)))
	}
	// Output:
	// [a b]
	// r1 1 [a]
	// r2 2 [b c]
}

func ExampleNewMultiIndex() {
	hosts := lw.NewIndexer(newHost("a", "r1", "web", "db"), newHost("b", "r1", "web"))
	roles := lw.NewMultiIndex(hosts, func(h *host) iter.Seq[string] { return slices.Values(h.Roles) })
	fmt.Println(names(roles.Lookup("web")), names(roles.Lookup("db")))
	// Output: [a b] [a]
}

func ExampleSnapshot() {
	hosts := lw.NewIndexer(newHost("a", "r1"))
	snap := hosts.Snapshot()
	hosts.Set(newHost("b", "r1"))
	hosts.Set(newHost("a", "r2"))

	a, _ := snap.Get(lw.Key{Namespace: "dc1", Name: "a"})
	fmt.Println(snap.Len(), names(snap.All()), a.Rack)
	fmt.Println(hosts.Len(), names(hosts.All()))
	// Output:
	// 1 [a] r1
	// 2 [a b]
}

func ExampleNamespace() {
	hosts := lw.NewIndexer(newHost("a", "r1"), newHost("b", "r1"))
	namespaces := lw.NewIndex(hosts, lw.Namespace[*host])
	fmt.Println(names(namespaces.Lookup("dc1")))
	// Output: [a b]
}

func ExampleOwnerUIDs() {
	owned := func(name string, uid types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: name, OwnerReferences: []metav1.OwnerReference{{UID: uid}},
		}}
	}
	pods := lw.NewIndexer(owned("a", "set-1"), owned("b", "set-2"))
	owners := lw.NewMultiIndex(pods, lw.OwnerUIDs[*metav1.PartialObjectMetadata])
	for pod := range owners.Lookup("set-2") {
		fmt.Println(pod.Name)
	}
	// Output: b
}

func ExampleSelect() {
	a, b := newHost("a", "r1"), newHost("b", "r1")
	a.Labels = map[string]string{"tier": "front"}
	hosts := lw.NewIndexer(a, b)
	front := labels.SelectorFromSet(labels.Set{"tier": "front"})
	fmt.Println(names(lw.Select(hosts.All(), front)))
	// Output: [a]
}
