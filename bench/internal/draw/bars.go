package draw

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
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
		margin, gap       = 12.0, 10.0   // outside of all, and between a label and its bar
		length, values    = 358.0, 250.0 // of the scale, and what is right of it
		top, step, height = 78.0, 26.0, 14.0
		// letter is how wide a letter of a label is on average in the widest of the fonts that the
		// style names, DejaVu Sans.
		letter = 6.6
	)
	high, left := 10.0, 372.0
	for _, b := range bars {
		high = max(high, b.Ratio, b.Goal)
		left = max(left, math.Ceil(margin+gap+letter*float64(utf8.RuneCountInString(b.Label))))
	}
	right := left + length
	width := right + values
	scale := logScale{low: 1, high: math.Pow(10, math.Ceil(math.Log10(high))), x0: left, x1: right}
	bottom := top + step*float64(len(bars))

	var c canvas
	c.text("title", "start", margin, 24, title)
	c.text("note", "start", margin, 43, note)
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
		c.text("", "end", left-gap, middle, b.Label)
		c.rect(class, left, y, scale.at(b.Ratio)-left, height)
		at := scale.at(b.Ratio)
		if b.Goal > 0 {
			c.line("goal", scale.at(b.Goal), y-4, scale.at(b.Goal), y+height+4)
			if b.Goal > b.Ratio {
				at = scale.at(b.Goal)
			}
		}
		c.text("", "start", at+8, middle, number(b.Ratio)+"x")
		c.text("note", "end", width-margin, middle, b.Value)
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
