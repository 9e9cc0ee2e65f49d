//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// View implements tea.Model.
func (m *Model) View() tea.View {
	begin := m.opt.Now()
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	m.drawn = m.opt.Now().Sub(begin)
	return v
}

// lines returns the screen: at most m.height lines of at most m.width columns.
func (m *Model) lines() []string {
	var all []string
	switch {
	case m.layer == helpLayer:
		all = m.helpLines()
		all = all[min(m.scroll, len(all)-1):]
	case m.page != nil:
		all = append([]string{m.engineLine()}, m.page.lines(m.height-2)...)
	default:
		all = append(m.head(), m.tabLine())
		if m.layer == sortLayer {
			all = append(all, m.sortLines(m.rowsHeight()+1)...)
		} else {
			all = append(all, m.grid().lines(m.width, m.rowsHeight()+1, m.st)...)
		}
	}
	for len(all) < m.height-1 {
		all = append(all, "")
	}
	all = append(all[:m.height-1], m.keyLine())
	for i := range all {
		all[i] = cut(all[i], m.width)
	}
	return all
}

// rowsHeight returns how many rows of a table the screen shows.
func (m *Model) rowsHeight() int { return max(m.height-len(m.head())-3, 1) }

// tabLine names the tables, says how many rows there are, and has the filter.
func (m *Model) tabLine() string {
	var parts []string
	for i, name := range tableNames {
		if i == m.table {
			parts = append(parts, m.st.tab.Render("["+name+"]"))
		} else {
			parts = append(parts, name)
		}
	}
	shown, all := m.grid().counts()
	parts = append(parts, fmt.Sprintf("%s of %s", grouped(shown), grouped(all)))
	if f := m.grid().filtered(); f != "" || m.layer == filterLayer {
		cursor := ""
		if m.layer == filterLayer {
			cursor = "_"
		}
		parts = append(parts, "filter: "+f+cursor)
	}
	return cut(strings.Join(parts, "  "), m.width)
}

// sortLines lists the columns, for the order.
func (m *Model) sortLines(rows int) []string {
	titles := m.grid().titles()
	first := max(min(m.choice-rows+2, len(titles)-rows+1), 0)
	all := []string{m.st.title.Render(left("  order by", m.width))}
	for i := first; i < min(first+rows-1, len(titles)); i++ {
		if i == m.choice {
			all = append(all, m.st.cursor.Render(left("> "+titles[i], m.width)))
		} else {
			all = append(all, "  "+titles[i])
		}
	}
	return all
}

// keyLine names the most important keys.
func (m *Model) keyLine() string {
	var keys []string
	switch {
	case m.layer == helpLayer:
		keys = []string{"arrows", "scroll", "other keys", "back"}
	case m.layer == filterLayer:
		keys = []string{"Enter", "keep", "Esc", "show all"}
	case m.layer == sortLayer:
		keys = []string{"arrows", "choose", "Enter", "order", "Esc", "back"}
	case m.page != nil && m.page.current().of != "":
		keys = []string{"F1", "help", "Tab", "next", "f", "follow", "[]", "fields", "Esc", "back"}
	case m.page != nil:
		keys = []string{"F1", "help", "Tab", "rings", "Esc", "back", "F10", "quit"}
	default:
		keys = []string{"F1", "help", "F4", "filter", "F6", "sort", "Tab", "table", "Enter", "open",
			"Z", "pause", "q", "quit"}
	}
	var parts []string
	room := m.width
	for i := 0; i < len(keys) && room >= len(keys[i])+len(keys[i+1])+1; i += 2 {
		parts = append(parts, m.st.key.Render(keys[i])+" "+keys[i+1])
		room -= len(keys[i]) + len(keys[i+1]) + 3
	}
	return strings.Join(parts, "  ")
}
