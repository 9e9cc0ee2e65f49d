package known

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostNear is how many names Near returns: as many as fit in one line of a terminal.
const mostNear = 3

// Near returns the names of [Names] that differ from a word in few letters, or that have it as
// a part, the nearest first.
func Near(word string) []string {
	type candidate struct {
		name string
		n    int
	}
	word = strings.ToLower(word)
	if len(word) < 2 || len(word) > 40 { // no name has more than 24 letters
		return nil
	}
	var list []candidate
	for _, name := range Names() {
		lower := strings.ToLower(name)
		n := distance(word, lower)
		if len(word) >= 3 && (strings.Contains(lower, word) || strings.Contains(word, lower)) {
			n = min(n, 2)
		}
		if n <= max(2, len(word)/3) {
			list = append(list, candidate{name, n})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return a.n - b.n })
	var names []string
	for _, c := range list[:min(mostNear, len(list))] {
		names = append(names, c.name)
	}
	return names
}

// distance is the number of bytes to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// maxQuoted is how much of a text Quote shows, in bytes.
const maxQuoted = 40

// Quote returns a text of others in quotation marks, for a terminal: escapes and line breaks
// are visible, and a long text is cut.
func Quote(text string) string {
	if len(text) > maxQuoted {
		cut := maxQuoted
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strconv.Quote(text)
}
