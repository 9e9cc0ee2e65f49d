package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// maxInput is the most bytes that are read from standard input. An object has 1 KiB at most,
// but its dump has spaces too.
const maxInput = 64 << 10

// parseHex parses hexadecimal digits, as parseDigits does, or a dump of xxd or hexdump -C.
func parseHex(text string) ([]byte, error) {
	b, err := parseDigits(withoutOffsets(text))
	if err != nil && isOctal(text) {
		return nil, hintf(octalHint, "%w", err)
	}
	return b, err
}

// parseDigits parses hexadecimal digits, two for each byte. White space, colons and commas may
// separate bytes or groups of bytes. Each byte or group may begin with 0x.
func parseDigits(text string) ([]byte, error) {
	var b []byte
	for _, group := range strings.FieldsFunc(text, isSeparator) {
		digits := group
		if strings.HasPrefix(group, "0x") || strings.HasPrefix(group, "0X") {
			digits = group[2:]
		}
		if i := strings.IndexFunc(digits, notHex); i >= 0 {
			return nil, hintf(hexHint, "hex: %q holds %q, which is not a hexadecimal digit", shorten(group), []rune(digits[i:])[0])
		}
		if len(digits)%2 != 0 {
			return nil, hintf(hexHint, "hex: %q has %d digits; a byte takes two", shorten(group), len(digits))
		}
		more, err := hex.DecodeString(digits)
		if err != nil {
			return nil, hintf(hexHint, "hex: %w", err)
		}
		b = append(b, more...)
	}
	if len(b) == 0 {
		return nil, hintf(hexHint, "hex: there are no bytes")
	}
	return b, nil
}

const hexHint = "two digits for each byte, in memory order; spaces, newlines, colons, commas and 0x are allowed"

func isSeparator(r rune) bool { return strings.ContainsRune(" \t\r\n:,", r) }

func notHex(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF", r) }

// shorten cuts s so that a message that contains it fits on one line.
func shorten(s string) string {
	const most = 24
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// readInput reads standard input to its end, up to maxInput bytes. hint says what to do with more.
func readInput(r io.Reader, hint string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if len(b) > maxInput {
		return "", hintf(hint, "standard input: more than %d bytes", maxInput)
	}
	return string(b), nil
}
