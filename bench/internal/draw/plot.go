package draw

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A Panel is a plot of nanoseconds on a logarithmic scale. The steps on the x axis have equal
// distances.
type Panel struct {
	Title string
	X     string   // the name of the x axis
	Steps []string // names of the steps
	Lines []Line
}

// A Line is the value of one side at each step. NaN means that it was not measured.
type Line struct {
	Name   string
	Second bool // drawn in the second color
	Dashed bool // distinguishes lines of one color
	Values []float64
}

// Panels draws panels side by side, perRow in a row.
func Panels(w io.Writer, title string, perRow int, panels []Panel) error {
	const width, height, top = 460.0, 300.0, 44.0
	var c canvas
	c.text("title", "start", 12, 24, title)
	for i, p := range panels {
		p.draw(&c, width*float64(i%perRow), top+height*float64(i/perRow), width, height)
	}
	rows := (len(panels) + perRow - 1) / perRow
	var names []string
	for _, p := range panels {
		names = append(names, p.Title)
	}
	return c.finish(w, width*float64(min(perRow, len(panels))), top+height*float64(rows), title+": "+strings.Join(names, "; "))
}

func (p Panel) draw(c *canvas, x, y, width, height float64) {
	left, right, top, bottom := x+58, x+width-130, y+34, y+height-48
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range p.Lines {
		for _, v := range l.Values {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	scale := logScale{low: math.Pow(10, math.Floor(math.Log10(low))), high: math.Pow(10, math.Ceil(math.Log10(high*1.01))), x0: bottom, x1: top}
	step := func(i int) float64 { return left + (right-left)*float64(i)/float64(max(1, len(p.Steps)-1)) }

	c.text("", "start", x+12, y+16, p.Title)
	for v := scale.low; v <= scale.high*1.01; v *= 10 {
		c.line("grid", left, scale.at(v), right, scale.at(v))
		c.text("note", "end", left-6, scale.at(v)+4, duration(v))
	}
	for i, name := range p.Steps {
		c.text("note", "middle", step(i), bottom+16, name)
	}
	c.text("note", "middle", (left+right)/2, bottom+34, p.X)

	var ends []float64 // the heights of the names drawn so far, so that none covers another
	for _, l := range p.Lines {
		class := "line a"
		if l.Second {
			class = "line b"
		}
		if l.Dashed {
			class += " dash"
		}
		var points []string
		var lastX, lastY float64
		for i, v := range l.Values {
			if math.IsNaN(v) {
				continue
			}
			lastX, lastY = step(i), scale.at(v)
			points = append(points, fmt.Sprintf("%.1f,%.1f", lastX, lastY))
		}
		fmt.Fprintf(c, "<polyline class=%q points=%q/>\n", class, strings.Join(points, " "))
		label := lastY + 4
		for _, other := range ends {
			if math.Abs(label-other) < 13 {
				label = other + 13
			}
		}
		ends = append(ends, label)
		c.text("note", "start", right+8, label, l.Name)
	}
}

// duration formats v nanoseconds, where v is a power of ten.
func duration(v float64) string {
	units := []string{"ns", "µs", "ms", "s"}
	i := 0
	for ; v >= 1000 && i < len(units)-1; i++ {
		v /= 1000
	}
	return fmt.Sprintf("%g %s", v, units[i])
}
