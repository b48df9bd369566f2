package layers

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// The measures of a drawing, in pixels.
const (
	drawWidth   = 1000
	drawMargin  = 16
	drawHead    = 96 // for the name of a package, and those of the columns
	drawRow     = 38
	drawLine    = 16  // of a row, for each line of files but the first
	drawColumns = 590 // where the first column begins
	drawColumn  = 38
	drawLetters = 76 // in a line of files
)

// Draw returns an SVG of the folders of the product, and of the rooms of each package.
func Draw() string {
	var b strings.Builder
	y := drawPart(&b, 0, "The folders of the product, and which may import which", Product)
	for _, p := range Packages {
		name := p.Folder
		if name == "." {
			name = "lw"
		}
		y = drawPart(&b, y, "The rooms of "+name, p.Rooms)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="The rooms of each package, and which may use which">
<style>
text { font-family: system-ui, sans-serif; fill: #1c2b39; }
.h { font-size: 17px; font-weight: 600; }
.t { font-size: 14px; font-weight: 600; }
.s { font-size: 12px; fill: #33475b; }
.l { font-size: 12px; font-weight: 600; fill: #52677c; }
</style>
<rect width="%[1]d" height="%[2]d" fill="#ffffff"/>
%[3]s</svg>
`, drawWidth, y, b.String())
}

// drawPart draws rooms from y on, and returns where it ends: one below the other, the lowest at the
// bottom, with their files. A column for each room has a dot in the rows of those that may use it.
// No dot is above the squares, which are where a room's row meets its own column.
func drawPart(b *strings.Builder, y int, title string, rooms []Room) int {
	y += drawHead
	fmt.Fprintf(b, `<text x="%d" y="%d" class="h">%s</text>`+"\n", drawMargin, y-16, html.EscapeString(title))
	for i, r := range rooms {
		fmt.Fprintf(b, `<text transform="translate(%d %d) rotate(-40)" class="l">%s</text>`+"\n",
			drawColumns+i*drawColumn+drawColumn/2, y-10, html.EscapeString(r.Name))
	}
	for i, r := range slices.Backward(rooms) {
		lines := lines(r.Files)
		height := drawRow - 6 + (len(lines)-1)*drawLine
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#eef3f8" stroke="#b8c7d6"/>`+"\n", drawMargin,
			y, drawWidth-2*drawMargin, height)
		fmt.Fprintf(b, `<text x="%d" y="%d" class="t">%s</text>`+"\n", drawMargin+10, y+21, html.EscapeString(r.Name))
		for n, line := range lines {
			fmt.Fprintf(b, `<text x="%d" y="%d" class="s">%s</text>`+"\n", drawMargin+96, y+21+n*drawLine,
				html.EscapeString(line))
		}
		for j, other := range rooms {
			x, y := drawColumns+j*drawColumn+drawColumn/2, y+height/2
			switch {
			case j == i:
				fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="12" fill="#ffffff" stroke="#3b5b7a"/>`+"\n", x-6, y-6)
			case slices.Contains(r.Uses, other.Name):
				fmt.Fprintf(b, `<circle cx="%d" cy="%d" r="6" fill="#3b5b7a"/>`+"\n", x, y)
			}
		}
		y += height + 6
	}
	return y + drawMargin
}

// lines breaks the names of files into lines.
func lines(files []string) (all []string) {
	line := ""
	for _, file := range files {
		if line != "" && len(line)+2+len(file) > drawLetters {
			all, line = append(all, line), ""
		}
		if line != "" {
			line += "  "
		}
		line += file
	}
	return append(all, line)
}
