//go:build linux && (amd64 || arm64)

package top

import (
	"slices"
	"strings"
)

// marker is the columns before a row: ">" under the cursor.
const marker = 2

// fit returns the indices of the columns that a screen has room for. The last one, if it is among them, takes
// what is left over.
func (t *table[R]) fit(width int) (list []int) {
	order := make([]int, len(t.columns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return t.columns[i].rank - t.columns[j].rank })
	room := width - marker
	for _, i := range order {
		room -= t.columns[i].width + 1
		if room < -1 { // no space after the last one
			break
		}
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

// cells joins the cells of a line. The last column has the rest of the width.
func (t *table[R]) cells(columns []int, width int, cell func(c *column[R], i int) string) string {
	var b strings.Builder
	room := width - marker
	for n, i := range columns {
		c := &t.columns[i]
		w := c.width
		if i == len(t.columns)-1 {
			w = room
		}
		if n > 0 {
			b.WriteByte(' ')
		}
		if c.text {
			b.WriteString(left(cell(c, i), w))
		} else {
			b.WriteString(right(cell(c, i), w))
		}
		room -= w + 1
	}
	return b.String()
}

// lines returns the titles and the rows of a screen: at most height lines of width columns.
func (t *table[R]) lines(width, height int, st *styles) []string {
	columns := t.fit(width)
	title := t.cells(columns, width, func(c *column[R], i int) string {
		switch {
		case i != t.by:
			return c.title
		case c.rise == t.invert: // the greatest first
			return c.title + st.down
		}
		return c.title + st.up
	})
	all := []string{st.title.Render(left("  "+title, width))}
	t.scroll(height - 1)
	for at := t.first; at < min(t.first+height-1, len(t.shown)); at++ {
		r := t.row(at)
		line := t.cells(columns, width, func(c *column[R], _ int) string { return c.show(r) })
		if at == t.at {
			all = append(all, st.cursor.Render(left("> "+line, width)))
		} else {
			all = append(all, cut("  "+line, width))
		}
	}
	return all
}
