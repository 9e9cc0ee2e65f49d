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
