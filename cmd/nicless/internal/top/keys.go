//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// press takes a key.
func (m *Model) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	if key == "ctrl+c" || key == "f10" {
		return tea.Quit
	}
	switch m.layer {
	case helpLayer:
		m.pressHelp(key)
		return nil
	case filterLayer:
		m.pressFilter(k)
		return nil
	case sortLayer:
		m.pressSort(key)
		return nil
	}
	switch key {
	case "f1", "?":
		m.layer, m.scroll = helpLayer, 0
		return nil
	case "Z", "space":
		return m.togglePause()
	}
	if m.page != nil {
		return m.pressPage(key)
	}
	return m.pressTable(key)
}

// togglePause stops the refreshes, or goes on with one.
func (m *Model) togglePause() tea.Cmd {
	m.paused = !m.paused
	if m.paused {
		return nil
	}
	return m.query()
}

// steps are how far a key moves a cursor on a screen of this many rows.
func steps(key string, height int) (by int, ok bool) {
	const far = 1 << 30
	switch key {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup":
		return -height, true
	case "pgdown":
		return height, true
	case "home", "g":
		return -far, true
	case "end", "G":
		return far, true
	}
	return 0, false
}

func (m *Model) pressTable(key string) tea.Cmd {
	g := m.grid()
	if by, ok := steps(key, m.rowsHeight()); ok {
		g.move(by, m.rowsHeight())
		return nil
	}
	by, invert := g.sorted()
	switch key {
	case "q":
		return tea.Quit
	case "tab", "shift+tab":
		m.table = (m.table + map[string]int{"tab": 1, "shift+tab": tables - 1}[key]) % tables
		m.grid().renew()
		return m.query()
	case "enter":
		return m.enter()
	case "esc":
		g.setFilter("")
	case "f4", "/", "\\":
		m.layer = filterLayer
	case "f6":
		m.layer, m.choice = sortLayer, by
	case "<", ",":
		g.sortBy(by-1, false)
	case ">", ".":
		g.sortBy(by+1, false)
	case "I":
		g.sortBy(by, !invert)
	case "P", "M", "T", "N", "O":
		m.sortByKey(key)
	}
	return nil
}

// sortKeys have the columns of a key: the first that a table has.
var sortKeys = map[string][]string{
	"P": {"WQE/s", "CQE/s"},
	"M": {"B/s", "WRITTEN"},
	"T": {"P99"},
	"N": {"QUEUE", "PID", "CQ"},
	"O": {"OUT", "QPS", "UNPOLLED"},
}

func (m *Model) sortByKey(key string) {
	for _, title := range sortKeys[key] {
		for i, t := range m.grid().titles() {
			if t == title {
				m.grid().sortBy(i, false)
				return
			}
		}
	}
}

// enter opens what is under the cursor: the page of a queue or CQ, or the queues of a client.
func (m *Model) enter() tea.Cmd {
	number, ok := m.grid().selected()
	if !ok {
		return nil
	}
	if m.table == clientsTable {
		m.table = queuesTable
		m.grid().setFilter(fmt.Sprintf("client=%d,", number))
		return m.query()
	}
	m.page = newPage(m, number, m.table == cqsTable)
	return m.query()
}

func (m *Model) pressHelp(key string) {
	if by, ok := steps(key, m.height); ok {
		m.scroll = max(min(m.scroll+by, len(m.helpLines())-(m.height-1)), 0)
		return
	}
	m.layer = noLayer
}

// mostFilter bounds the filter.
const mostFilter = 100

func (m *Model) pressFilter(k tea.KeyPressMsg) {
	text := []rune(m.grid().filtered())
	switch key := k.String(); key {
	case "enter", "f4":
		m.layer = noLayer
	case "esc":
		m.layer = noLayer
		m.grid().setFilter("")
	case "backspace", "ctrl+h":
		m.grid().setFilter(string(text[:max(len(text)-1, 0)]))
	case "ctrl+u":
		m.grid().setFilter("")
	default:
		m.typed(k.Text)
	}
}

// typed adds text to the filter.
func (m *Model) typed(text string) {
	text = strings.ReplaceAll(clean(m.grid().filtered()+text), "?", "")
	if r := []rune(text); len(r) > mostFilter {
		text = string(r[:mostFilter])
	}
	m.grid().setFilter(text)
}

func (m *Model) pressSort(key string) {
	n := len(m.grid().titles())
	if by, ok := steps(key, n); ok {
		m.choice = max(min(m.choice+by, n-1), 0)
		return
	}
	by, invert := m.grid().sorted()
	switch key {
	case "enter", "f6":
		m.grid().sortBy(m.choice, by == m.choice && !invert)
		m.layer = noLayer
	case "esc", "q":
		m.layer = noLayer
	}
}
