package paste_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field/paste"
)

// starDump prints bytes as od and hexdump do: with "*" for rows that are like the one before. last is whether
// the last line is the offset of the end.
func starDump(b []byte, offset string, last bool) string {
	var s strings.Builder
	before, star := "", false
	for at := 0; at < len(b); at += 16 {
		row := fmt.Sprintf(" % x", b[at:at+16])
		switch {
		case row != before:
			fmt.Fprintf(&s, offset+"%s\n", at, row)
			star = false
		case !star:
			s.WriteString("*\n")
			star = true
		}
		before = row
	}
	if last {
		fmt.Fprintf(&s, offset+"\n", len(b))
	}
	return s.String()
}

// A CQ of 1 MiB, of which most was never written, has its two CQEs whatever the base of the offsets is.
func TestBasesOfOffsets(t *testing.T) {
	entry := append(make([]byte, 48), 0, 0, 0, 0, 0xb1, 0, 0x88, 0x13, 8, 0, 0x12, 0x34, 0, 7, 0x3c, 0xd2)
	for _, size := range []int{64, 128, 192, 1 << 10, 1 << 20, 4 << 20} {
		for _, slot := range []int{0, size/128 - 1, size/64 - 1} {
			if slot < 0 {
				continue
			}
			for _, offset := range []string{"%07o", "%07d", "%07x", "%06x", "%08x "} {
				b := make([]byte, size)
				copy(b[64*slot:], entry)
				binary.BigEndian.PutUint16(b[64*slot+60:], uint16(slot))
				list, err := paste.All(strings.NewReader(starDump(b, offset, true)))
				require.NoError(t, err)
				require.Len(t, list, 1, "%d bytes, slot %d, offsets %s", size, slot, offset)
				if size != 128 { // else a CQE of 128 bytes, perhaps
					require.Equal(t, paste.CQE, list[0].Kind)
					require.Equal(t, b[64*slot:64*slot+64], list[0].Bytes, offset)
				}
			}
		}
	}
}

// Rows at the end of a WQE that are like the one before are not missing.
func TestStarAtTheEnd(t *testing.T) {
	send := make([]byte, 64)
	copy(send, []byte{0, 0, 7, 0x0a, 0, 0x12, 0x34, 4})
	for _, offset := range []string{"%07o", "%07d", "%07x", "%06x", "%08x "} {
		in := paste.NewReader(strings.NewReader("WQE DUMP:\n" + starDump(send, offset, true)))
		it, err := in.Next()
		require.NoError(t, err)
		assert.Equal(t, send, it.Bytes, offset)
	}
}

// Without offsets, "*" stands for nobody knows how many rows.
func TestStarWithoutOffsets(t *testing.T) {
	for _, text := range []string{rowOfZeros + "\n*\n" + rowOfError, rowOfError + "\n*\n"} {
		in := paste.NewReader(strings.NewReader(text))
		_, err := in.Next()
		require.Error(t, err)
		require.Len(t, in.Unclear(), 1)
		require.Contains(t, in.Unclear()[0].Notes[0], `the "*" in line 2 stands for rows`)
		require.Contains(t, in.Unclear()[0].Notes[0], "use od -v")
	}
}
