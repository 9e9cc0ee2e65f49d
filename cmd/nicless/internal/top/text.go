//go:build linux && (amd64 || arm64)

package top

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// clean returns a text that others have a part in, for one line of a terminal. A question mark stands for
// everything that cannot be printed, such as escapes, line breaks, marks that change the direction, and bytes
// that are no UTF-8; and for marks that join the character before, because terminals do not agree on their
// widths.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || unicode.Is(unicode.M, r) {
			return '?'
		}
		return r
	}, s)
}

// cleanLines is clean for a text of several lines, each of which begins with no tab.
func cleanLines(s string) []string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return lines
}

// wide returns the columns that a text takes.
func wide(s string) int { return ansi.StringWidth(s) }

// cut shortens a text to a number of columns. A "~" says that something is missing, as in less(1).
func cut(s string, width int) string {
	if wide(s) <= width {
		return s
	}
	return ansi.Truncate(s, max(width, 0), "~")
}

// left puts a text at the left of a column of this width.
func left(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(width-wide(s), 0))
}

// right puts a text at the right of a column of this width.
func right(s string, width int) string {
	s = cut(s, width)
	return strings.Repeat(" ", max(width-wide(s), 0)) + s
}

// flow joins parts by two spaces in lines of at most this width. A part that is longer is cut.
func flow(parts []string, width int) (lines []string) {
	line := ""
	for _, p := range parts {
		switch {
		case p == "":
			continue
		case line != "" && wide(line)+2+wide(p) > width:
			lines, line = append(lines, line), cut(p, width)
		case line == "":
			line = cut(p, width)
		default:
			line += "  " + p
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
