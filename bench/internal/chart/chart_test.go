package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

// The images are XML, and name what they show to readers who cannot see it.
func TestCharts(t *testing.T) {
	var bars, panels bytes.Buffer
	rig.OK(t, Bars(&bars, "Better", "note", []Bar{{"a<b", 3, 2, "3 → 1"}, {"c", .5, 0, ""}}))
	rig.OK(t, Panels(&panels, "Growth", 2, []Panel{{Title: "One", X: "objects", Steps: []string{"1", "2"}, Lines: []Line{
		{Name: "lw", Values: []float64{10, 2e6}}, {Name: "client-go", Second: true, Dashed: true,
			Values: []float64{5, 50}}}}}))
	for svg, title := range map[*bytes.Buffer]string{&bars: "<title>Better: a&lt;b 3.0x, c 0.50x</title>",
		&panels: "<title>Growth: One</title>"} {
		if !strings.Contains(svg.String(), title) {
			t.Errorf("no %s in %.300s", title, svg)
		}
		for d := xml.NewDecoder(svg); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}
