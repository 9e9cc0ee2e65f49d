package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

//go:embed parts/search.js
var searchScript string

//go:embed parts/search.html
var searchText string

// An index finds the sections that have words.
type index struct {
	Pages    [][2]string `json:"pages"`    // address in the site and title
	Sections [][3]any    `json:"sections"` // number of the page, anchor and heading
	// Sections that have a word: numbers of base 36, each the distance to the one before.
	Words map[string]string `json:"words"`
}

// Words of other lengths are left out: short ones are everywhere, and long ones are dumps.
const shortest, longest = 2, 32

// search returns the inside of the page that searches the others, and its script. The index is data inside
// the page: a browser loads no file from file://.
func (s *site) search() (body, script string, err error) {
	b, err := json.Marshal(s.index()) // it escapes <, so the data cannot end its element
	if err != nil {
		return "", "", err
	}
	body = fmt.Sprintf("%s<script type=\"application/json\" id=\"index\">%s</script>\n<script>%s</script>\n",
		searchText, b, searchScript)
	return body, searchScript, nil
}

func (s *site) index() index {
	x := index{Words: map[string]string{}}
	last := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		if !isPage(name) {
			continue // sources and folders
		}
		for i := range p.sections {
			words := wordsOf(p.sections[i].heading + " " + p.sections[i].text.String())
			if len(words) == 0 {
				continue
			}
			number := len(x.Sections)
			at := [3]any{len(x.Pages), p.sections[i].anchor, p.sections[i].heading}
			x.Sections = append(x.Sections, at)
			for _, w := range words {
				distance := strconv.FormatInt(int64(number-last[w]), 36)
				x.Words[w] = strings.TrimLeft(x.Words[w]+" "+distance, " ")
				last[w] = number
			}
		}
		x.Pages = append(x.Pages, [2]string{address(s.tree, name), p.title})
	}
	return x
}

// wordsOf returns the words of a text in lower case, each once. Parts of names that _ joins are words as
// well, and so are the names.
func wordsOf(text string) []string {
	set := map[string]bool{}
	add := func(w string) {
		isNumber := strings.IndexFunc(w, unicode.IsLetter) < 0
		if len(w) >= shortest && len(w) <= longest && !isNumber && !isDigits(w) {
			set[w] = true
		}
	}
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }
	for _, w := range strings.FieldsFunc(strings.ToLower(text), between) {
		add(strings.Trim(w, "_"))
		if strings.Contains(w, "_") {
			for part := range strings.SplitSeq(w, "_") {
				add(part)
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// isDigits reports whether a word is hexadecimal digits of a dump: 0x and digits, or digits with a number in
// them.
func isDigits(w string) bool {
	digits, prefixed := strings.CutPrefix(w, "0x")
	isHex := strings.Trim(digits, "0123456789abcdef") == ""
	return isHex && (prefixed || strings.ContainsAny(w, "0123456789"))
}
