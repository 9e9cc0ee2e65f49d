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

// Bytes with the opcode of an error that are taken for none say why: each thing that is mended alone, or all
// together, makes a CQE of them.
func TestAlmostAnErrorCQE(t *testing.T) {
	e := errorEntry(cqe.RemoteAccess, 0x88, 0x1234, 7)
	b := e[:]
	b[2], b[10], b[12], b[40], b[45], b[55] = 0x45, 3, 4, 0xff, 1, 0x52
	text := why(t, dump(b))
	require.Equal(t, "as printed, byte 63 is 0xd2, as in an error CQE (REQ_ERR), but no public header names syndrome 0x52 (byte 55); "+
		"reserved bytes are not 0: byte 2 is 0x45, byte 10 is 0x03, byte 12 is 0x04, byte 40 is 0xff and 1 more", text)
	clean := append([]byte(nil), b...)
	clean[2], clean[10], clean[12], clean[40], clean[45] = 0, 0, 0, 0, 0
	require.Len(t, all(t, dump(clean)), 1)
	clean = append([]byte(nil), b...)
	clean[55] = 0x13
	require.Len(t, all(t, dump(clean)), 1)

	b[63] = 0xd6 // another format
	require.Contains(t, why(t, dump(b)), "its format is ")
	e = errorEntry(cqe.RemoteAccess, 0x88, 0x1234, 7)
	b[32], b[40], b[2], b[57], b[58], b[59] = 1, 1, 1, 0, 0, 0
	text = why(t, dump(b))
	require.Contains(t, text, "byte 32 is 0x01, above the 24 bits of the number of an SRQ")
	require.Contains(t, text, "the number of the queue pair is 0")
}
