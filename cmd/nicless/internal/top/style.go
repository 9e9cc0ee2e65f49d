//go:build linux && (amd64 || arm64)

package top

import "charm.land/lipgloss/v2"

// styles are how parts of the screen look, and the signs that it is drawn with. Colours come beside words
// and signs, never in place of them, so a terminal without colours shows as much.
type styles struct {
	title  lipgloss.Style // of columns
	cursor lipgloss.Style // the row under the cursor
	tab    lipgloss.Style // the table that is shown
	key    lipgloss.Style
	bad    lipgloss.Style // failures, and an engine that does not answer
	busy   lipgloss.Style // of a bar

	full, empty string // parts of a bar
	up, down    string // the order of a column: ascending, descending
}

// newStyles returns the styles of a terminal. If ascii is set, all signs are ASCII.
func newStyles(ascii bool) *styles {
	plain := lipgloss.NewStyle()
	st := &styles{
		title:  plain.Reverse(true).Foreground(lipgloss.Green),
		cursor: plain.Reverse(true).Bold(true),
		tab:    plain.Reverse(true).Bold(true),
		key:    plain.Bold(true).Foreground(lipgloss.Cyan),
		bad:    plain.Bold(true).Foreground(lipgloss.Red),
		busy:   plain.Foreground(lipgloss.Green),
		full:   "█", empty: "·", up: "▲", down: "▼",
	}
	if ascii {
		st.full, st.empty, st.up, st.down = "#", ".", "^", "v"
	}
	return st
}
