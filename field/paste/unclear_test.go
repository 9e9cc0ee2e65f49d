package paste_test

import (
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/paste"
)

// why returns what is said about the only dump of a text, which is no object.
func why(t *testing.T, text string) string {
	t.Helper()
	in := paste.NewReader(strings.NewReader(text))
	_, err := in.Next()
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, in.Unclear(), 1)
	return strings.Join(in.Unclear()[0].Notes, "; ")
}

// A dump that is too short for a CQE says how long a CQE is, also if nothing says that it is one.
func TestTruncatedDigits(t *testing.T) {
	e := errorEntry(cqe.RemoteAccess, 0x88, 0x1234, 7)
	b := e[:]
	for _, n := range []int{56, 60, 62} {
		require.Contains(t, why(t, hex.EncodeToString(b[:n])), "; a CQE has 64 bytes", n)
	}
	require.Contains(t, why(t, hex.EncodeToString(b[4:])), "60 bytes that are no CQE, WQE or packet in any byte order; a CQE has 64 bytes")
}
