// Package chart draws SVG charts with gonum/plot.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	green = color.RGBA{26, 127, 100, 255}
	amber = color.RGBA{188, 108, 37, 255}
)

func init() {
	plot.DefaultFont.Variant, plotter.DefaultFont.Variant = "Sans", "Sans"
}

// A Bar is how many times better something is, and how many times better it must be; 0: no goal.
type Bar struct {
	Label       string
	Ratio, Goal float64
	Value       string // the values that are compared
}

// Bars draws horizontal bars on a logarithmic scale. The mark is the goal; amber misses it.
func Bars(w io.Writer, title, note string, bars []Bar) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, note
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, times{}
	names, values := make([]string, len(bars)), plotter.XYLabels{}
	for i, b := range bars {
		y := float64(len(bars) - 1 - i)
		names[len(bars)-1-i] = b.Label
		line := func(x0, x1, y0, y1 float64, width vg.Length, c color.Color) error {
			l, err := plotter.NewLine(plotter.XYs{{X: x0, Y: y0}, {X: x1, Y: y1}})
			if err != nil {
				return err
			}
			l.Width, l.Color = width, c
			p.Add(l)
			return nil
		}
		c := green
		if b.Ratio < b.Goal {
			c = amber
		}
		if err := line(1, max(b.Ratio, 1), y, y, vg.Points(10), c); err != nil {
			return err
		}
		if b.Goal > 0 {
			if err := line(b.Goal, b.Goal, y-.4, y+.4, vg.Points(1.5), color.Black); err != nil {
				return err
			}
		}
		values.XYs = append(values.XYs, plotter.XY{X: max(b.Ratio, b.Goal, 1) * 1.08, Y: y - .15})
		values.Labels = append(values.Labels, fmt.Sprintf("%sx   %s", number(b.Ratio), b.Value))
	}
	labels, err := plotter.NewLabels(values)
	if err != nil {
		return err
	}
	p.Add(labels)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max, p.X.Min = -.6, float64(len(bars))-.4, 1
	p.X.Max *= 8 // room for the values
	alt := make([]string, len(bars))
	for i, b := range bars {
		alt[i] = b.Label + " " + number(b.Ratio) + "x"
	}
	return write(w, title+": "+strings.Join(alt, ", "), 880, vg.Length(70+20*len(bars)), [][]*plot.Plot{{p}})
}

// A Panel is a plot of nanoseconds on a logarithmic scale. The steps on the x axis have equal
// distances.
type Panel struct {
	Title string
	X     string   // the name of the x axis
	Steps []string // names of the steps
	Lines []Line
}

// A Line is the value of one side at each step.
type Line struct {
	Name   string
	Second bool // drawn in the second color
	Dashed bool // distinguishes lines of one color
	Values []float64
}

// Panels draws panels side by side, perRow in a row.
func Panels(w io.Writer, title string, perRow int, panels []Panel) error {
	grid := make([][]*plot.Plot, (len(panels)+perRow-1)/perRow)
	for i := range grid {
		grid[i] = make([]*plot.Plot, perRow)
	}
	alt := make([]string, len(panels))
	for i, panel := range panels {
		p := plot.New()
		p.Title.Text, p.X.Label.Text = panel.Title, panel.X
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, durations{}
		p.Legend.Top, p.Legend.Left = true, true
		p.Add(plotter.NewGrid())
		for _, l := range panel.Lines {
			var points plotter.XYs
			for x, v := range l.Values {
				points = append(points, plotter.XY{X: float64(x), Y: v})
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", panel.Title, l.Name, err)
			}
			line.Width, line.Color = vg.Points(2), green
			if l.Second {
				line.Color = amber
			}
			if l.Dashed {
				line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
			}
			p.Add(line)
			p.Legend.Add(l.Name, line)
		}
		p.NominalX(panel.Steps...)
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))),
			math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))*10 // room for the legend
		grid[i/perRow][i%perRow], alt[i] = p, panel.Title
	}
	return write(w, title+": "+strings.Join(alt, "; "), vg.Length(420*perRow), vg.Length(280*len(grid)), grid)
}

// write draws plots on white, in rows. alt describes the image to readers who cannot see it.
func write(w io.Writer, alt string, width, height vg.Length, grid [][]*plot.Plot) error {
	c := vgsvg.New(width, height)
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	tiles := draw.Tiles{Rows: len(grid), Cols: len(grid[0]), PadX: vg.Points(16), PadY: vg.Points(16), PadTop: 8,
		PadBottom: 8, PadLeft: 8, PadRight: 12}
	for y, row := range plot.Align(grid, tiles, dc) {
		for x, tile := range row {
			if grid[y][x] != nil {
				grid[y][x].Draw(tile)
			}
		}
	}
	var svg bytes.Buffer
	if _, err := c.WriteTo(&svg); err != nil {
		return err
	}
	head, rest, _ := strings.Cut(svg.String(), "<g ")
	_, err := fmt.Fprintf(w, "%s<title>%s</title>\n<g %s", head, html.EscapeString(alt), rest)
	return err
}

// times are the ticks of a scale of ratios.
type times struct{}

func (times) Ticks(low, high float64) []plot.Tick {
	return decades(low, high, func(v float64) string { return number(v) + "x" })
}

// durations are the ticks of a scale of nanoseconds.
type durations struct{}

func (durations) Ticks(low, high float64) []plot.Tick {
	return decades(low, high, func(v float64) string {
		units := []string{"ns", "µs", "ms", "s"}
		i := 0
		for ; v >= 1000 && i < len(units)-1; i++ {
			v /= 1000
		}
		return fmt.Sprintf("%g %s", v, units[i])
	})
}

func decades(low, high float64, label func(float64) string) (ticks []plot.Tick) {
	for v := math.Pow(10, math.Ceil(math.Log10(low)-1e-9)); v <= high*1.001; v *= 10 {
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
	return ticks
}

// number formats v with two or three digits.
func number(v float64) string {
	switch {
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
