// Package paragraph breaks text into lines.
package paragraph

import (
	"strings"
	"unicode/utf8"
)

// Fold returns the words of text, with single spaces between them, in lines of at most width columns. The
// first word is at the given column, which the caller has reached; further lines begin with indent. A word
// that is longer than a line is not broken.
func Fold(text string, column, width int, indent string) string {
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
