package paste

import (
	"bytes"
	"encoding/hex"
)

// A row is one line of a dump.
type row struct {
	offset int64  // of its first byte, hexadecimal, or -1
	at     places // the same digits in each base, if the offset has the form that od has
	od     bool   // the offset has that form: its base must be found out
	width  int    // bytes of one group of digits
	b      []byte // in the order in which they are printed
	host   bool   // its program prints words as the host reads them
	rest   []byte // text after the row that does not belong to it
	start  int    // where it begins in its line
	torn   bool   // the line ends within a group
	alone  bool   // the line has nothing else, and too few bytes to be sure that it is a row
}

// maxRow is the most bytes of one row: a plain dump can have a whole object in one line.
const maxRow = maxLine / 2

// sure is the least number of bytes without an offset that make a row among other text.
const sure = 16

// maxStarts bounds at how many places of a line a row is looked for. Prefixes of log lines have
// few words; "Nov 26 10:00:00 host kernel: [12345.6] name: " has eight.
const maxStarts = 24

// findRow looks for a row in a line: at its start, or after the prefix of a log. buf is memory
// for the bytes of the row.
func findRow(line, buf []byte) (row, bool) {
	if hexDigits(line) < 2 {
		return row{}, false
	}
	starts := 0
	for i := 0; i < len(line) && starts < maxStarts; i++ {
		if !isHex(line[i]) || (i > 0 && !startsAfter(line[i-1])) {
			continue
		}
		starts++
		r, ok := parseRow(line[i:], buf)
		if ok && r.alone && i > 0 {
			ok = false
		}
		if ok {
			r.start = i
			return r, true
		}
	}
	return row{}, false
}

func startsAfter(c byte) bool { return bytes.IndexByte([]byte(" \t]:>|),={\""), c) >= 0 }

// hexDigits counts the digits of a line, up to 2.
func hexDigits(line []byte) (n int) {
	for _, c := range line {
		if isHex(c) {
			n++
			if n == 2 {
				break
			}
		}
	}
	return n
}

// parseRow reads a row that begins at the start of s.
func parseRow(s, buf []byte) (r row, ok bool) {
	r = row{offset: -1, b: buf[:0]}
	rest, address := r.cutOffset(s)
	gap, first, x := 0, 0, false
	for len(r.b) < maxRow {
		var n int
		for n < len(rest) && bytes.IndexByte([]byte(" \t,{}\""), rest[n]) >= 0 {
			n++
		}
		gap = n
		// 00:11:22 separates bytes, not words.
		if n == 0 && len(r.b) > 0 && r.width == 1 && len(rest) > 2 && rest[0] == ':' && isHex(rest[1]) {
			n, gap = 1, 1
		}
		if n == 0 && len(r.b) > 0 {
			break // the end, or something else without a space
		}
		token := rest[n:]
		if r.gutter(gap, first, token) {
			break
		}
		digits, prefix := group(token)
		width := len(digits) / 2
		plain := len(digits) >= 2*sure // digits without any spaces
		if len(digits) == 0 || len(digits)%2 != 0 || (!plain && !groupWidth(width)) {
			r.torn = len(digits) > 0 && len(token) == prefix+len(digits)
			break
		}
		if len(r.b) == 0 {
			r.width, first, x = width, gap, prefix > 0
		} else if (width != r.width && !plain && groupWidth(r.width)) || (prefix > 0) != x {
			r.torn = width < r.width && len(token) == prefix+len(digits)
			break
		}
		at := len(r.b)
		if at+width > maxRow {
			return row{}, false
		}
		r.b = append(r.b, make([]byte, width)...)
		_, _ = hex.Decode(r.b[at:], digits)
		rest = token[prefix+len(digits):]
	}
	r.rest = bytes.TrimLeft(rest, " \t,}")
	if !groupWidth(r.width) {
		r.width = 0 // plain digits
	}
	// gdb prints 0x addresses and 0x words; hexdump and od print 7 digits of offset and words.
	r.host = r.width > 1 && (address == oddOffset || address == shortOffset || (address == plainOffset && x))
	return r, r.accept(address, gap)
}

// accept decides whether what was read is a row. gap is how many spaces were before the rest.
func (r *row) accept(address offsetForm, gap int) bool {
	n := len(r.b)
	if n == 0 {
		return false
	}
	if r.torn {
		r.rest = nil
	}
	if len(r.rest) > 0 {
		column := r.rest[0] == '|' || r.rest[0] == '>' || gap >= 2
		words := n == 16 && r.width == 4 && address == noOffset // two writers mixed their lines
		if !column && !words {
			return false
		}
		if column {
			r.rest = nil
		}
		return address != noOffset || n >= sure
	}
	r.alone = (address == noOffset || address == shortOffset) && n < sure
	return true
}

// gutter reports whether the column of characters begins here: after a row of 16 bytes or a wide
// gap. hexdump -C has a gap of two spaces after 8 bytes, too, and hexdump -x gaps of four between all groups,
// as wide as the first.
func (r *row) gutter(gap, first int, token []byte) bool {
	if len(r.b) == 0 || r.offset < 0 {
		return false
	}
	return (len(r.b) == 16 && gap >= 2) || (gap >= 3 && gap > first && len(token) > 0)
}

type offsetForm uint8

const (
	noOffset    offsetForm = iota
	plainOffset            // 00000010: or 0x7f6a7d20c000: or 0x7f6a7d20c000 <symbol+8>:
	oddOffset              // 0000020, as hexdump and od print it
	shortOffset            // 000010, as od -A x prints it
)

// cutOffset reads the offset at the start of a row, if there is one, and returns what follows.
func (r *row) cutOffset(s []byte) ([]byte, offsetForm) {
	digits, prefix := group(s)
	n := len(digits)
	if n < 4 || n > 16 {
		return s, noOffset
	}
	after := s[prefix+n:]
	if prefix > 0 && bytes.HasPrefix(after, []byte(" <")) { // gdb names the symbol
		if end := bytes.IndexByte(after, '>'); end >= 0 {
			after = after[end+1:]
		}
	}
	if len(after) > 1 && after[0] == ':' && (after[1] == ' ' || after[1] == '\t') {
		r.offset = offset(digits)
		return after[1:], plainOffset
	}
	if prefix > 0 || len(after) < 3 || after[0] != ' ' {
		return s, noOffset
	}
	next, x := group(bytes.TrimLeft(after, " "))
	switch {
	case n == 7 && x == 0 && len(next) > 0 && len(next)%2 == 0:
		r.offset, r.at, r.od = offset(digits), readPlaces(digits), true
		return after, oddOffset
	case n == 6 && x == 0 && len(next) > 0 && len(next)%2 == 0:
		r.offset = offset(digits)
		return after, shortOffset
	case n == 8 && len(next) == 2:
		r.offset, r.at = offset(digits), readPlaces(digits) // hexdump -C, or od of more than 2 MiB
		return after, plainOffset
	}
	return s, noOffset
}

func offset(digits []byte) (v int64) {
	for _, c := range digits {
		v = v<<4 | int64(nibble(c))
	}
	return v & (1<<62 - 1)
}

// group returns the digits at the start of s, and the length of the 0x before them.
func group(s []byte) (digits []byte, prefix int) {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		prefix = 2
	}
	n := prefix
	for n < len(s) && isHex(s[n]) {
		n++
	}
	// A group ends where a word would go on: "dead-beef" and "10.5" are no groups.
	if n < len(s) && bytes.IndexByte([]byte(" \t,:|}>[\"<"), s[n]) < 0 {
		return nil, 0
	}
	return s[prefix:n], prefix
}

func groupWidth(n int) bool { return n == 1 || n == 2 || n == 4 || n == 8 }

func isHex(c byte) bool {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')
}

func nibble(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
