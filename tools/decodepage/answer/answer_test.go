package answer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/tools/decodepage/answer"
)

const refused = "mlx5: cn10: got completion with error:\n00000000 00000000 00000000 00000000\n" +
	"00000000 00000000 00000000 00000000\n00000002 00000000 00000000 00000000\n" +
	"00000000 00008813 10012abe 0dd0c1d3\n"

func TestTo(t *testing.T) {
	for pasted, want := range map[string][]string{
		refused: {"lines 2-5: CQE, as libmlx5 prints it", "syndrome 0x13: remote access error",
			"vendor byte 0x88: NAK remote access error", "1. the rkey names no memory"},
		"IBV_WC_REM_ACCESS_ERR\n": {"syndrome 0x13: remote access error", "probable causes"},
		"key-acess":               {`nothing is known about "key-acess"; the nearest names are key-access`},
		"hello":                   {`nothing is known about "hello"`},
		"a\nb\n":                  {"no CQE, WQE, packet or error of a completion in 2 lines"},
		"00000000 00000007 00000000 00000007": {
			"no CQE, WQE, packet or error of a completion in 1 lines", "lines 1 to 1: 16 bytes that are no CQE"},
		" \n": {"Nothing was pasted."},
	} {
		for _, part := range want {
			require.Contains(t, answer.To(pasted), part, "%q", pasted)
		}
	}
}

// Pasted text comes back quoted or not at all, so an answer has no control bytes of a stranger.
func TestToQuotes(t *testing.T) {
	for _, pasted := range []string{"\x1b[31mred", "a\x00b", "\x1b]0;title\x07\n\x1b[2J"} {
		require.NotContains(t, answer.To(pasted), "\x1b")
		require.NotContains(t, answer.To(pasted), "\x00")
	}
}
