// Package nearest finds the word that somebody has probably meant.
package nearest

import "strings"

// mostWord is the longest word that is looked up. Longer ones are no mistyped names.
const mostWord = 64

// Hint returns `: did you mean "opcode"?` if one of a list of words is much like a word, otherwise "". The
// case of letters, and hyphens in place of underscores, do not count.
func Hint(word string, list []string) string {
	if len(word) > mostWord {
		return ""
	}
	best, least := "", len(word)/3+2
	for _, w := range list {
		if d := distance(plain(word), plain(w)); d < least && d < len(w) {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return `: did you mean "` + best + `"?`
}

func plain(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// distance returns how many bytes must be inserted, removed, replaced or swapped with the next one to make b
// of a.
func distance(a, b string) int {
	var rows [3][]int // before last, last and present
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		rows[0], rows[1], rows[2] = last, row, older
	}
	return rows[1][len(b)]
}
