package clientgo

import (
	"iter"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// A query for several values finds an object that has one of them all the time, also if the object
// gets another value between two lookups. It ends also if objects change for ever.
func TestLookupAny(t *testing.T) {
	for moves, want := range map[int]int{0: 1, 1: 1, 7: 1, 1000: 0} {
		pod := func(value string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{"v": value}}}
		}
		store := lw.NewIndexer(pod("b"))
		index := lw.NewIndex(store, func(p *corev1.Pod) string { return p.Labels["v"] })
		left := moves
		lookup := func(value string) iter.Seq[*corev1.Pod] {
			return func(yield func(*corev1.Pod) bool) {
				index.Lookup(value)(yield)
				if left == 0 {
					return
				}
				// After a was looked at the object moves there, and back after b.
				if value == "a" {
					store.Set(pod("a"))
					left--
				} else {
					store.Set(pod("b"))
				}
			}
		}
		// The version of the store stays "", as it does while an object is set aside.
		got := lookupAny(index.Changed, lookup, []string{"a", "b"})
		if len(got) != want {
			t.Errorf("%d moves: found %d objects, want %d", moves, len(got), want)
		}
	}
}
