package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain returns a text that others have a part in, for a terminal: a question mark stands for what cannot
// be printed, such as escapes, line breaks, marks that change the direction, and bytes that are no UTF-8.
// The processes that write these texts clean them, too; but a pool, a peer or another version of the
// engine may not have.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// plainLines is plain for a text of several lines.
func plainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}
