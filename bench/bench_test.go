// Package bench holds the benchmarks of package rows as those of package testing, for benchstat.
package bench

import (
	"io"
	"strings"
	"testing"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/rows"
)

// BenchmarkRows measures each side of each case that needs no network. An iteration is one run of a
// side, of which the samples are reported by their keys: an operation, an object or an event costs
// cpu nanoseconds, allocs and bytes.
//
//	go test -bench 'Rows/pipeline.*/side=lw$' -count 10 | benchstat -
func BenchmarkRows(b *testing.B) {
	for _, c := range rows.Cases() {
		name := strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(strings.TrimSuffix(c.Name, ": "))
		b.Run("case="+name, func(b *testing.B) {
			sides, done := c.Setup(compare.Config{Rounds: 1, Short: testing.Short(), Log: io.Discard})
			if done != nil {
				defer done()
			}
			for _, side := range sides {
				b.Run("side="+strings.NewReplacer(", ", "-", " ", "-").Replace(side.Name), func(b *testing.B) {
					sums := compare.Sample{}
					for b.Loop() {
						for key, v := range side.Measure() {
							sums[key] += v
						}
					}
					b.ReportMetric(0, "ns/op") // of an iteration, which says nothing
					for key, sum := range sums {
						b.ReportMetric(sum/float64(b.N), key+"/each")
					}
				})
			}
		})
	}
}
