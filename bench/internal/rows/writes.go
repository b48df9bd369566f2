package rows

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// Update measures storing new versions of 10k objects whose index values do not change: with
// client-go by Indexer.Update, with lw by Indexer.Set.
func Update(indexes int) compare.Case {
	what := func(s string) string { return "update, " + indexesOf(indexes) + ": " + s }
	return compare.Case{
		Name: what(""),
		Lines: []compare.Line{
			{Row: 24, What: what("CPU"), Unit: compare.Nanoseconds, Key: "cpu", Goal: compare.Times(map[int]float64{0: 1, 1: 1.7, 3: 1.8}[indexes])},
			{Row: 24, What: what("allocations"), Unit: compare.Count, Key: "allocs", Goal: compare.Most(0.001)},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			s := newStores(pods.Light(10_000), indexes)
			// Two versions of each object, so that an update is never by the version that is
			// stored.
			next := pods.Next(s.pods, 2*len(s.pods), len(s.pods))
			return []compare.Side{
				timed(compare.ClientGo, func(i int) { check(s.clientGo.Update(next[i%len(next)]) == nil, "Update") }),
				timed(compare.LW, func(i int) {
					_, replaced := s.lw.Set(next[i%len(next)])
					check(replaced, "Set")
				}),
			}, nil
		},
	}
}

func indexesOf(n int) string {
	if n == 1 {
		return "1 index"
	}
	return fmt.Sprintf("%d indexes", n)
}

// Load measures filling an empty store with 100k objects, by Replace on both sides.
func Load(indexes int) compare.Case {
	what := func(s string) string { return "bulk load of 100k, " + indexesOf(indexes) + ": " + s }
	goal := map[int]float64{0: 0.8, 1: 2.5, 3: 2.2}[indexes]
	return compare.Case{
		Name: what(""),
		Lines: []compare.Line{
			{Row: 25, What: what("CPU an object"), Unit: compare.Nanoseconds, Key: "cpu", Goal: compare.Times(goal), Chart: indexes == 3},
			{Row: 25, What: what("bytes an object"), Unit: compare.Bytes, Key: "bytes"},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			objects := pods.Light(100_000)
			list := boxed(objects)
			version := pods.Version(len(objects))
			return []compare.Side{
				{Name: compare.ClientGo, Measure: func() compare.Sample {
					return measure.Do(func() {
						x := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers(indexes))
						check(x.Replace(list, version) == nil, "Replace")
					}).Sample(len(objects))
				}},
				{Name: compare.LW, Measure: func() compare.Sample {
					return measure.Do(func() {
						x := lw.NewIndexer[*corev1.Pod]()
						index(x, indexes)
						x.Replace(objects, version)
					}).Sample(len(objects))
				}},
			}, nil
		},
	}
}
