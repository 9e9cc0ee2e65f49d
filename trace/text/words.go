package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain returns a text with escapes such as \x1b for everything that a terminal would not show as a
// character: control characters, marks that change the direction, and bytes that are no UTF-8.
func Plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// mostWord is how many characters of a name a line repeats. The names of processes have at most 15.
const mostWord = 32

// word returns a name as it is within a line: the beginning of one that is long, and in quotes if it is not
// one word.
func word(name string) string {
	cut := false
	if r := []rune(name); len(r) > mostWord {
		name, cut = string(r[:mostWord]), true
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.+:/@", r))
	}) {
		name = strconv.Quote(name)
	}
	if cut {
		name += "…"
	}
	return name
}

// names are the names of bits, the lowest first.
type names []string

// of returns the names of the bits that are set, separated by commas.
func (n names) of(bits uint64) string {
	var list []string
	for i, name := range n {
		if bits>>i&1 != 0 && name != "" {
			list = append(list, name)
			bits &^= 1 << i
		}
	}
	if bits != 0 {
		list = append(list, fmt.Sprintf("bits 0x%x", bits))
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, ", ")
}

// access has the names of enum ibv_access_flags. Reading local memory needs no right.
var access = names{"local write", "remote write", "remote read", "remote atomic", "window bind", "zero based",
	"on demand", "huge pages", "flush global", "flush persistent"}

// Access returns the names of access rights, bits of ibv_access_flags.
func Access(rights uint64) string { return access.of(rights) }

// count returns a number and a noun, in the plural unless the number is 1.
func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
