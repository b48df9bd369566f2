package rows

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/pods"
)

const (
	lister   = "client-go, lister"
	iterate  = "lw, iterate"
	snapshot = "lw, snapshot"
)

// Get measures one goroutine that gets random objects of n: with client-go by GetByKey, with a key
// string made before, and by the lister, from namespace and name; with lw by a Key.
func Get(n int) compare.Case {
	what := func(s string) string { return "Get of " + short(n) + ": " + s }
	return compare.Case{
		Name: what(""),
		Lines: []compare.Line{
			{Row: 19, What: what("against GetByKey, CPU"), Unit: compare.Nanoseconds, Key: "cpu", Goal: compare.Times(0.9)},
			{Row: 20, What: what("against Lister.Pods(ns).Get, CPU"), Unit: compare.Nanoseconds, Key: "cpu", Base: lister,
				Goal: compare.Times(2.5), Chart: n == 10_000},
			{Row: 20, What: what("against Lister.Pods(ns).Get, allocations"), Unit: compare.Count, Key: "allocs", Base: lister,
				Goal: compare.Most(0.0001)},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			return getSides(n), nil
		},
	}
}

// getSides are those of [Get].
func getSides(n int) []compare.Side {
	s := newStores(pods.Light(n), 1)
	return []compare.Side{
		timed(compare.ClientGo, func(i int) {
			obj, ok, err := s.clientGo.GetByKey(s.strings[i%n])
			check(ok && err == nil && obj.(*corev1.Pod) != nil, "GetByKey")
		}),
		timed(lister, func(i int) {
			key := &s.keys[i%n]
			_, err := s.lister.Pods(key.Namespace).Get(key.Name)
			check(err == nil, "Lister.Get")
		}),
		timed(compare.LW, func(i int) {
			_, ok := s.lw.Get(s.keys[i%n])
			check(ok, "Get")
		}),
	}
}

// List measures listing all of 100k objects: with client-go by Indexer.List and by its lister; with
// lw by List, by a loop over a snapshot's All, and by taking a Snapshot.
func List() compare.Case {
	const n = 100_000
	return compare.Case{
		Name: "List",
		Lines: []compare.Line{
			{Row: 22, What: "List 100k: a slice, against Indexer.List", Unit: compare.Nanoseconds, Key: "cpu",
				Goal: compare.Times(3)},
			{Row: 22, What: "List 100k: a slice, against Lister.List", Unit: compare.Nanoseconds, Key: "cpu", Base: lister,
				Goal: compare.Times(6), Chart: true},
			{Row: 22, What: "List 100k: iterate, against Indexer.List", Unit: compare.Nanoseconds, Key: "cpu", Side: iterate,
				Goal: compare.Times(15)},
			{Row: 22, What: "List 100k: iterate, allocations", Unit: compare.Count, Key: "allocs", Side: iterate,
				Goal: compare.Most(0.5)},
			{Row: 22, What: "List 100k: take a snapshot", Unit: compare.Nanoseconds, Key: "cpu", Side: snapshot,
				Goal: compare.Most(1000)},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			s := newStores(pods.Light(n), 1)
			snap := s.lw.Snapshot()
			return append(listSides(s),
				timed(lister, func(int) {
					all, err := s.lister.List(labels.Everything())
					check(err == nil && len(all) == n, "Lister.List")
				}),
				timed(iterate, func(int) {
					found := 0
					for pod := range snap.All() {
						if pod != nil {
							found++
						}
					}
					check(found == n, "All")
				}),
			), nil
		},
	}
}

// listSides are those of [List] that read all objects, whatever their number.
func listSides(s *stores) []compare.Side {
	n := len(s.pods)
	return []compare.Side{
		timed(compare.ClientGo, func(int) { check(len(s.clientGo.List()) == n, "Indexer.List") }),
		timed(compare.LW, func(int) { check(len(s.lw.List()) == n, "List") }),
		timed(snapshot, func(int) { check(s.lw.Snapshot() != nil, "Snapshot") }),
	}
}

// Lookup measures reading a hundredth of n objects by an index of their namespace: with client-go
// by ByIndex and by the lister of a namespace, with lw by List and by a loop over Lookup.
func Lookup(n int) compare.Case {
	what := func(s string) string { return "ByIndex, " + short(n/pods.Namespaces) + " of " + short(n) + ": " + s }
	slice := map[int]float64{10_000: 3.5, 100_000: 10}[n]
	return compare.Case{
		Name: what(""),
		Lines: []compare.Line{
			{Row: 23, What: what("a slice"), Unit: compare.Nanoseconds, Key: "cpu", Goal: compare.Times(slice),
				Chart: n == 10_000},
			{Row: 23, What: what("a slice, against the lister"), Unit: compare.Nanoseconds, Key: "cpu", Base: lister},
			{Row: 23, What: what("iterate"), Unit: compare.Nanoseconds, Key: "cpu", Side: iterate, Goal: compare.Times(8)},
			{Row: 23, What: what("iterate, allocations"), Unit: compare.Count, Key: "allocs", Side: iterate,
				Goal: compare.Most(0.0001)},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			s := newStores(pods.Light(n), 1)
			var namespaces []string
			for ns := range s.byNS.Keys() {
				namespaces = append(namespaces, ns)
			}
			each, ns := n/pods.Namespaces, func(i int) string { return namespaces[i%len(namespaces)] }
			return []compare.Side{
				timed(compare.ClientGo, func(i int) {
					found, err := s.clientGo.ByIndex(cache.NamespaceIndex, ns(i))
					check(err == nil && len(found) == each, "ByIndex")
				}),
				timed(lister, func(i int) {
					found, err := s.lister.Pods(ns(i)).List(labels.Everything())
					check(err == nil && len(found) == each, "Lister.Pods(ns).List")
				}),
				timed(compare.LW, func(i int) { check(len(s.byNS.List(ns(i))) == each, "Index.List") }),
				timed(iterate, func(i int) {
					found := 0
					for pod := range s.byNS.Lookup(ns(i)) {
						if pod != nil {
							found++
						}
					}
					check(found == each, "Index.Lookup")
				}),
			}, nil
		},
	}
}
