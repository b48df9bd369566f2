package compare

import (
	"fmt"
	"io"

	"github.com/go-lw/lw/bench/internal/chart"
)

// SVG draws a chart of the results that have a bar.
func (r *Report) SVG(w io.Writer) error {
	var bars []chart.Bar
	for i := range r.Results {
		res := &r.Results[i]
		if res.Bar == nil {
			continue
		}
		values := res.Unit.format(res.Base) + " → " + res.Unit.format(res.Side)
		bars = append(bars, chart.Bar{Label: res.What, Ratio: res.Bar.Times, Goal: res.Bar.Goal, Value: values})
	}
	title := fmt.Sprintf("lw against client-go %s: how many times better", r.Versions["k8s.io/client-go"])
	note := fmt.Sprintf("Medians of %d rounds or more on %d CPUs, %s. The mark is the goal, amber misses it; logarithmic scale. Right: client-go → lw.",
		r.Rounds, r.CPUs, r.Go)
	return chart.Bars(w, title, note, bars)
}
