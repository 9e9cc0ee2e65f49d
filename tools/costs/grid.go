package costs

import (
	"strings"
	"unicode/utf8"
)

// A grid is a table of text: names on the left, and columns of numbers that end at the same place.
type grid struct {
	rows [][]string // a row of one cell is the title of a section
}

// head adds the first row. Names of presets such as "cxl1-fpga+ncp" take as many lines as they
// have parts.
func (g *grid) head(names []string) {
	lines := 1
	parts := make([][]string, len(names))
	for i, name := range names {
		if i == 0 {
			parts[i] = []string{name}
			continue
		}
		for j, part := range strings.Split(name, "+") {
			if j > 0 {
				part = "+" + part
			}
			parts[i] = append(parts[i], part)
		}
		lines = max(lines, len(parts[i]))
	}
	for l := range lines {
		row := make([]string, len(names))
		for i, p := range parts {
			if l < len(p) {
				row[i] = p[l]
			}
		}
		g.rows = append(g.rows, row)
	}
}

// row adds a row.
func (g *grid) row(name string, cells []string) {
	g.rows = append(g.rows, append([]string{name}, cells...))
}

// section adds the title of the rows that follow. A section without rows is not printed.
func (g *grid) section(title string) { g.rows = append(g.rows, []string{title}) }

// text returns the table.
func (g *grid) text() string {
	var widths []int
	for _, row := range g.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(row) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for r, row := range g.rows {
		if len(row) == 1 {
			if r+1 < len(g.rows) && len(g.rows[r+1]) > 1 {
				b.WriteString("\n" + row[0] + "\n")
			}
			continue
		}
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line += cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
