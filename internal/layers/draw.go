package layers

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// The measures of a drawing, in pixels.
const (
	drawWidth   = 980
	drawMargin  = 16
	drawHead    = 84 // for the names of the columns
	drawRow     = 44
	drawColumns = 600 // where the first column begins
	drawColumn  = 46
)

// Draw returns an SVG of rooms: one below the other, the lowest at the bottom, with their files. A
// column for each room has a dot in the rows of those that may use it. No dot is above the squares,
// which are where a room's row meets its own column.
func Draw(rooms []Room) string {
	height := drawHead + len(rooms)*drawRow + drawMargin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="The rooms of package lw, and which may use which">
<style>
text { font-family: system-ui, sans-serif; fill: #1c2b39; }
.t { font-size: 15px; font-weight: 600; }
.s { font-size: 12.5px; fill: #33475b; }
.l { font-size: 12.5px; font-weight: 600; fill: #52677c; }
</style>
<rect width="%[1]d" height="%[2]d" fill="#ffffff"/>
<text x="%[3]d" y="%[4]d" class="l">A room of package lw, its files, and the rooms that it may use</text>
`, drawWidth, height, drawMargin, drawHead-14)
	for i, r := range rooms {
		x := drawColumns + i*drawColumn + drawColumn/2
		fmt.Fprintf(&b, `<text transform="translate(%d %d) rotate(-40)" class="l">%s</text>`+"\n", x, drawHead-10, html.EscapeString(r.Name))
	}
	for i, r := range slices.Backward(rooms) {
		y := drawHead + (len(rooms)-1-i)*drawRow
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#eef3f8" stroke="#b8c7d6"/>`+"\n", drawMargin, y, drawWidth-2*drawMargin, drawRow-6)
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="t">%s</text>`, drawMargin+12, y+24, html.EscapeString(r.Name))
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="s">%s</text>`+"\n", drawMargin+102, y+24, html.EscapeString(strings.Join(r.Files, "  ")))
		for j, other := range rooms {
			x, y := drawColumns+j*drawColumn+drawColumn/2, y+(drawRow-6)/2
			switch {
			case j == i:
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="#ffffff" stroke="#3b5b7a"/>`+"\n", x-6, y-6)
			case slices.Contains(r.Uses, other.Name):
				fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="6" fill="#3b5b7a"/>`+"\n", x, y)
			}
		}
	}
	return b.String() + "</svg>\n"
}
