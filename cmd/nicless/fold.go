package main

import (
	"strings"
	"unicode/utf8"

	"github.com/nicless/nicless/internal/paragraph"
)

// columns is the most columns that output for people uses.
const columns = 80

// fold breaks a line that has more characters than the constant columns says. It breaks the line
// at spaces. The new lines are indented to where the line's last part begins; the last part
// begins after the last run of two or more spaces. fold does not break a word that is too long
// for a line.
func fold(line string) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	head, text := "", strings.TrimLeft(line, " ")
	if at := strings.LastIndex(line, "  "); at >= 0 {
		head, text = line[:at+2], strings.TrimLeft(line[at+2:], " ")
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(head))
	return head + paragraph.Fold(text, len(indent), columns, indent)
}
