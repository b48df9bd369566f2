// Package draw draws SVG charts that are readable on light and on dark pages.
package draw

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// canvas collects the elements of an SVG image. Colors are CSS classes, so that they can follow the
// color scheme of the page.
type canvas struct {
	bytes.Buffer
}

const style = `<style>
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.note { font-size: 11px; fill: #57606a }
.grid { stroke: #8c959f; stroke-opacity: .3; stroke-width: 1 }
.axis { stroke: #8c959f; stroke-width: 1 }
.goal { stroke: #24292f; stroke-width: 2 }
.a { fill: #1a7f64; stroke: #1a7f64 }
.b { fill: #bc6c25; stroke: #bc6c25 }
.line { fill: none; stroke-width: 2 }
.dash { stroke-dasharray: 5 3 }
.dot { stroke-dasharray: 2 2 }
.dashdot { stroke-dasharray: 9 3 2 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.note { fill: #9198a1 }
.goal { stroke: #e6edf3 }
.a { fill: #3fb68b; stroke: #3fb68b }
.b { fill: #e39a50; stroke: #e39a50 }
.line { fill: none }
}
</style>
`

func (c *canvas) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(c, "<text class=%q text-anchor=%q x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, anchor, x, y, html.EscapeString(s))
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, "<line class=%q x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2)
}

func (c *canvas) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(c, "<rect class=%q x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"/>\n", class, x, y, w, h)
}

// finish writes the image. title describes the image for readers who cannot see it.
func (c *canvas) finish(w io.Writer, width, height float64, title string) error {
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\">\n<title>%s</title>\n%s%s</svg>\n",
		width, height, width, height, html.EscapeString(title), style, c.String())
	return err
}

// logScale maps values to a line from x0 to x1 by their logarithm.
type logScale struct{ low, high, x0, x1 float64 }

func (s logScale) at(v float64) float64 {
	v = min(max(v, s.low), s.high)
	return s.x0 + (s.x1-s.x0)*math.Log(v/s.low)/math.Log(s.high/s.low)
}

// number formats v with two or three digits.
func number(v float64) string {
	switch {
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}
