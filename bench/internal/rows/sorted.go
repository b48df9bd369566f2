package rows

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/btree"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/pods"
)

const byHand = "google/btree"

// created is the time of pod i, by which the pods are sorted. A hundred pods have the same.
func created(i int) metav1.Time { return metav1.Unix(int64(i*7919%100_003)/100, 0) }

// Sorted measures what a dashboard does: the newest twenty of n objects, and an update of one. With
// client-go that is Indexer.List and a sort; by hand it is a google/btree under a lock; with lw a
// SortedIndex.
func Sorted(n int) compare.Case {
	what := func(s string) string { return "sorted, " + short(n) + ": " + s }
	return compare.Case{
		Name: what(""),
		Lines: []compare.Line{
			{Row: 47, What: what("the top twenty"), Unit: compare.Nanoseconds, Key: "cpu", Goal: compare.Times(100)},
			{Row: 47, What: what("the top twenty, against a tree by hand"), Unit: compare.Nanoseconds, Key: "cpu", Base: byHand},
			{Row: 47, What: what("an update, against a tree by hand"), Unit: compare.Nanoseconds, Key: "cpu", Base: byHand + ", update", Side: compare.LW + ", update"},
			{Row: 47, What: what("an update, allocations"), Unit: compare.Count, Key: "allocs", Side: compare.LW + ", update"},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			s := newStores(pods.Light(n), 0)
			for i, p := range s.pods {
				p.CreationTimestamp = created(i)
			}
			of := func(p *corev1.Pod) int64 { return p.CreationTimestamp.UnixNano() }
			x := lw.NewIndexer(s.pods...)
			sorted := lw.NewSortedIndex(x, of)
			var mu sync.Mutex
			hand := btree.NewG(32, func(a, b *corev1.Pod) bool {
				return cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
			})
			for _, p := range s.pods {
				hand.ReplaceOrInsert(p)
			}
			next := pods.Next(s.pods, 2*n, n)
			return []compare.Side{
				timed(compare.ClientGo, func(int) {
					all := s.clientGo.List()
					slices.SortFunc(all, func(a, b any) int { return cmp.Compare(of(b.(*corev1.Pod)), of(a.(*corev1.Pod))) })
					check(len(all[:20]) == 20, "List")
				}),
				timed(byHand, func(int) {
					top := make([]*corev1.Pod, 0, 20)
					mu.Lock()
					hand.Descend(func(p *corev1.Pod) bool {
						top = append(top, p)
						return len(top) < 20
					})
					mu.Unlock()
					check(len(top) == 20, "Descend")
				}),
				timed(compare.LW, func(int) { check(len(slices.Collect(sorted.Down(0, 20))) == 20, "Down") }),
				timed(byHand+", update", func(i int) {
					p := next[i%len(next)]
					key, _ := cache.MetaNamespaceKeyFunc(p)
					_, _, err := s.clientGo.GetByKey(key)
					check(err == nil && s.clientGo.Update(p) == nil, "Update")
					mu.Lock()
					_, was := hand.ReplaceOrInsert(p)
					mu.Unlock()
					check(was, "ReplaceOrInsert")
				}),
				timed(compare.LW+", update", func(i int) {
					_, was := x.Set(next[i%len(next)])
					check(was, "Set")
				}),
			}, nil
		},
	}
}
