package draw

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A Bar is a ratio and the ratio that it must reach.
type Bar struct {
	Label string
	Ratio float64
	Goal  float64 // 0: none
	Value string  // the two values, such as "503 µs → 42 µs"
}

// Bars draws bars on a logarithmic scale that begins at 1. A bar that misses its goal has another
// color.
func Bars(w io.Writer, title, note string, bars []Bar) error {
	const (
		width, left, right = 980.0, 372.0, 730.0
		top, step, height  = 78.0, 26.0, 14.0
	)
	high := 10.0
	for _, b := range bars {
		high = max(high, b.Ratio, b.Goal)
	}
	scale := logScale{low: 1, high: math.Pow(10, math.Ceil(math.Log10(high))), x0: left, x1: right}
	bottom := top + step*float64(len(bars))

	var c canvas
	c.text("title", "start", 12, 24, title)
	c.text("note", "start", 12, 43, note)
	for v := 1.0; v <= scale.high; v *= 10 {
		c.line("grid", scale.at(v), top-8, scale.at(v), bottom)
		c.text("note", "middle", scale.at(v), top-14, fmt.Sprintf("%.0fx", v))
	}
	for i, b := range bars {
		y := top + step*float64(i)
		middle := y + height/2 + 4
		class := "a"
		if b.Ratio < b.Goal {
			class = "b"
		}
		c.text("", "end", left-10, middle, b.Label)
		c.rect(class, left, y, scale.at(b.Ratio)-left, height)
		at := scale.at(b.Ratio)
		if b.Goal > 0 {
			c.line("goal", scale.at(b.Goal), y-4, scale.at(b.Goal), y+height+4)
			if b.Goal > b.Ratio {
				at = scale.at(b.Goal)
			}
		}
		c.text("", "start", at+8, middle, number(b.Ratio)+"x")
		c.text("note", "end", width-12, middle, b.Value)
	}
	c.line("axis", left, top-8, left, bottom)
	return c.finish(w, width, bottom+14, summary(title, bars))
}

// summary returns the chart as a sentence.
func summary(title string, bars []Bar) string {
	parts := make([]string, len(bars))
	for i, b := range bars {
		parts[i] = b.Label + " " + number(b.Ratio) + "x"
	}
	return title + ": " + strings.Join(parts, ", ")
}
