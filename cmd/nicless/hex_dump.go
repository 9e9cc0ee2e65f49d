package main

import (
	"regexp"
	"strconv"
	"strings"
)

// Rows of xxd, and of hexdump -C: an offset, bytes, and perhaps the bytes as characters. A row of xxd reads
// like any other digits, so its offset must not be taken for bytes.
var (
	xxdRow     = regexp.MustCompile(`^\s*([0-9a-fA-F]{7,16}):\s(.*)$`)
	hexdumpRow = regexp.MustCompile(`^\s*([0-9a-fA-F]{7,8})(?:\s\s(.*?))?(?:\s*\|.*\|)?\s*$`)
)

// A row of od without flags, or of od -b: an offset, then groups of octal digits.
var octalRow = regexp.MustCompile(`^[0-7]{7}(?:(?:\s+[0-7]{6})+|(?:\s+[0-7]{3})+)\s*$`)

const octalHint = "these digits are octal, as od prints them: od -t x1 FILE | nicless decode"

// isOctal reports whether a text begins with a row of octal digits.
func isOctal(text string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(text, "\r\n"), "\n")
	return octalRow.MatchString(strings.TrimRight(first, "\r"))
}

// withoutOffsets returns the bytes of a dump of rows: the text without offsets and characters. If the text is
// no such dump, it is returned unchanged: a row begins where the row before it has ended, and the first
// row at a multiple of 16.
func withoutOffsets(text string) string {
	var rows []string
	next := uint64(0)
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		m := xxdRow.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m != nil {
			m[2], _, _ = strings.Cut(m[2], "  ") // what follows are characters
		} else if m = hexdumpRow.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m == nil {
			return text
		}
		at, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil || (len(rows) == 0 && at%16 != 0) || (len(rows) > 0 && at != next) {
			return text
		}
		if m[2] == "" { // the last line of hexdump is an offset only
			continue
		}
		b, err := parseDigits(m[2])
		if err != nil {
			return text
		}
		rows, next = append(rows, m[2]), at+uint64(len(b))
	}
	if len(rows) == 0 {
		return text
	}
	return strings.Join(rows, "\n")
}
