package draw

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A Chart is a plot of curves. Both axes are linear, unless Log is set.
type Chart struct {
	Title  string
	X, Y   string // the names of the axes
	Log    bool   // both axes are logarithmic
	Bytes  bool   // Y is in bytes
	Curves []Curve
}

// A Curve is a line through points. X rises from point to point.
type Curve struct {
	Name   string
	Second bool // drawn in the second color
	Dash   int  // distinguishes curves of one color: 0 is a full line; up to 3
	Points [][2]float64
}

// Charts draws charts side by side, perRow in a row.
func Charts(w io.Writer, title string, perRow int, charts []Chart) error {
	const width, height, top = 560.0, 300.0, 44.0
	var c canvas
	c.text("title", "start", 12, 24, title)
	for i, p := range charts {
		p.draw(&c, width*float64(i%perRow), top+height*float64(i/perRow), width, height)
	}
	rows := (len(charts) + perRow - 1) / perRow
	var names []string
	for _, p := range charts {
		names = append(names, p.Title)
	}
	const margin = 20.0 // for the names of the last curves
	return c.finish(w, width*float64(min(perRow, len(charts)))+margin, top+height*float64(rows), title+": "+strings.Join(names, "; "))
}

func (ch Chart) draw(c *canvas, x, y, width, height float64) {
	left, right, top, bottom := x+70, x+width-150, y+44, y+height-48
	xs, ys := newAxis(left, right, ch.Log), newAxis(bottom, top, ch.Log)
	for _, curve := range ch.Curves {
		for _, point := range curve.Points {
			xs.include(point[0])
			ys.include(point[1])
		}
	}
	xs.round()
	ys.round()

	c.text("", "start", x+12, y+16, ch.Title)
	c.text("note", "start", x+12, y+34, ch.Y)
	for _, v := range ys.marks() {
		c.line("grid", left, ys.at(v), right, ys.at(v))
		c.text("note", "end", left-6, ys.at(v)+4, ch.mark(v, ch.Bytes))
	}
	for _, v := range xs.marks() {
		c.line("axis", xs.at(v), bottom, xs.at(v), bottom+4)
		c.text("note", "middle", xs.at(v), bottom+17, ch.mark(v, false))
	}
	c.line("axis", left, bottom, right, bottom)
	c.text("note", "middle", (left+right)/2, bottom+35, ch.X)

	for i, curve := range ch.Curves {
		class := "line a"
		if curve.Second {
			class = "line b"
		}
		class += [...]string{"", " dash", " dot", " dashdot"}[curve.Dash]
		var points []string
		for _, point := range curve.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", xs.at(point[0]), ys.at(point[1])))
		}
		fmt.Fprintf(c, "<polyline class=%q points=%q/>\n", class, strings.Join(points, " "))
		key := top + 10 + 18*float64(i)
		c.line(class, right+12, key-4, right+32, key-4)
		c.text("note", "start", right+38, key, curve.Name)
	}
}

// mark formats a value at an axis.
func (ch Chart) mark(v float64, bytes bool) string {
	if bytes {
		units := []string{"B", "kB", "MB", "GB", "TB"}
		i := 0
		for ; v >= 999 && i < len(units)-1; i++ {
			v /= 1000
		}
		return fmt.Sprintf("%.3g %s", v, units[i])
	}
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case v >= 10_000:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// axis maps values to a line from x0 to x1.
type axis struct {
	low, high, x0, x1, step float64
	log                     bool
}

func newAxis(x0, x1 float64, log bool) axis {
	a := axis{x0: x0, x1: x1, log: log, low: 0, high: math.Inf(-1)}
	if log {
		a.low = math.Inf(1)
	}
	return a
}

func (a *axis) include(v float64) { a.low, a.high = min(a.low, v), max(a.high, v) }

// round moves the ends to round values, and chooses the distance of the marks.
func (a *axis) round() {
	if a.log {
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(a.low))), math.Pow(10, math.Ceil(math.Log10(a.high)))
		a.high = max(a.high, 10*a.low)
		return
	}
	a.high = max(a.high, a.low+1e-9)
	a.step = math.Pow(10, math.Floor(math.Log10(a.high-a.low)))
	for _, part := range []float64{2, 2.5, 2} { // of 10: 5, 2, 1
		if (a.high-a.low)/a.step < 3.5 {
			a.step /= part
		}
	}
	a.high = a.step * math.Ceil(a.high/a.step)
}

// marks returns the values that are written at the axis.
func (a *axis) marks() []float64 {
	var all []float64
	if a.log {
		for v := a.low; v < a.high*1.01; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	for i := range int(a.high/a.step+0.5) + 1 {
		all = append(all, float64(i)*a.step)
	}
	return all
}

func (a *axis) at(v float64) float64 {
	if a.log {
		s := logScale{low: a.low, high: a.high, x0: a.x0, x1: a.x1}
		return s.at(v)
	}
	return a.x0 + (a.x1-a.x0)*(v-a.low)/(a.high-a.low)
}
