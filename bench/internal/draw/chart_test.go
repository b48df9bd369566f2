package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAxis checks that the marks of an axis are few, round, and around the values.
func TestAxis(t *testing.T) {
	for _, test := range []struct {
		high float64
		want []float64
	}{
		{1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{7, []float64{0, 1, 2, 3, 4, 5, 6, 7}},
		{35, []float64{0, 10, 20, 30, 40}},
		{123, []float64{0, 20, 40, 60, 80, 100, 120, 140}},
		{1999, []float64{0, 500, 1000, 1500, 2000}},
	} {
		a := newAxis(0, 100, false)
		a.include(test.high)
		a.round()
		near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 1e-9 })
		if diff := cmp.Diff(test.want, a.marks(), near); diff != "" {
			t.Errorf("marks up to %g: (-want +got)\n%s", test.high, diff)
		}
	}
	a := newAxis(0, 100, true)
	a.include(30)
	a.include(4000)
	a.round()
	if diff := cmp.Diff([]float64{10, 100, 1000, 10_000}, a.marks()); diff != "" {
		t.Errorf("marks of a logarithmic axis: (-want +got)\n%s", diff)
	}
}

// TestCharts checks that the image is XML, that nothing leaves it, and that it names its charts to
// readers who cannot see it.
func TestCharts(t *testing.T) {
	var svg bytes.Buffer
	charts := []Chart{
		{Title: "One", X: "x", Y: "y", Curves: []Curve{{Name: "a<b", Points: [][2]float64{{0, 1}, {5, 20}}}}},
		{Title: "Two", X: "x", Y: "y", Log: true, Bytes: true, Curves: []Curve{{Name: "c", Second: true, Points: [][2]float64{{10, 1 << 10}, {1e6, 1 << 40}}}}},
	}
	if err := Charts(&svg, "Both", 2, charts); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(svg.String(), "<title>Both: One; Two</title>") {
		t.Error("the image does not name its charts")
	}
	d := xml.NewDecoder(&svg)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLabelsOfBars checks that there is room for the labels of bars, which end before the bars, in
// the widest of the fonts: there a letter is 6.4 wide at most, on average over a label.
func TestLabelsOfBars(t *testing.T) {
	for _, n := range []int{1, 30, 62, 90} {
		var svg bytes.Buffer
		label := strings.Repeat("é", n)
		if err := Bars(&svg, "title", "note", []Bar{{Label: label, Ratio: 3, Goal: 2, Value: "3 → 1"}}); err != nil {
			t.Fatal(err)
		}
		var x, width float64
		_, text, _ := strings.Cut(svg.String(), `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 `)
		fmt.Sscanf(text, "%g", &width)
		_, text, _ = strings.Cut(text, `<text class="" text-anchor="end" x="`)
		fmt.Sscanf(text, "%g", &x)
		if !strings.Contains(text, ">"+label+"<") || x < 6.4*float64(n) {
			t.Errorf("a label of %d letters ends at %g: %.60s", n, x, text)
		}
		_, text, _ = strings.Cut(text, `<text class="note" text-anchor="end" x="`)
		if fmt.Sscanf(text, "%g", &x); x != width-12 {
			t.Errorf("the values end at %g of %g", x, width)
		}
	}
}
