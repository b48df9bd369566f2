package compare

import (
	"fmt"
	"io"

	"github.com/go-lw/lw/bench/internal/draw"
)

// SVG draws the lines that are marked for it.
func (r *Report) SVG(w io.Writer) error {
	var bars []draw.Bar
	for i := range r.Results {
		res := &r.Results[i]
		if !res.line.Chart || res.Ratio == nil {
			continue
		}
		u := res.line.Unit
		bar := draw.Bar{Label: res.What, Ratio: *res.Ratio, Goal: res.line.Goal.value, Value: u.format(res.Base) + " → " + u.format(res.Side)}
		switch res.line.Goal.kind {
		case part:
			bar.Ratio, bar.Goal = 1/bar.Ratio, 1/bar.Goal
		case most, noGoal:
			bar.Goal = 0
		}
		bars = append(bars, bar)
	}
	title := fmt.Sprintf("lw against client-go %s: how many times better", r.Versions["k8s.io/client-go"])
	note := fmt.Sprintf("Medians of %d rounds on %d CPUs, %s. The mark is the goal, amber misses it; logarithmic scale. Right: client-go → lw.", r.Rounds, r.CPUs, r.Go)
	return draw.Bars(w, title, note, bars)
}
