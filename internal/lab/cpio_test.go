package lab

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bytes of an archive, by the kernel's description of the format.
func TestArchive(t *testing.T) {
	var out bytes.Buffer
	n, err := Files{"/bin/hello": {Mode: 0o755, Data: []byte("hello")}, "/a": {Mode: 0o600}}.WriteTo(&out)
	require.NoError(t, err)
	require.EqualValues(t, out.Len(), n)
	entry := func(number, mode, links, size, name string) string {
		zero := "00000000"
		return "070701" + number + mode + zero + zero + links + zero + size + zero + zero + zero + zero + name + zero
	}
	require.Equal(t, strings.Join([]string{
		entry("00000001", "00008180", "00000001", "00000000", "00000002") + "a\x00",
		entry("00000002", "000041ed", "00000001", "00000000", "00000004") + "bin\x00\x00\x00",
		entry("00000003", "000081ed", "00000001", "00000005", "0000000a") + "bin/hello\x00" + "hello\x00\x00\x00",
		entry("00000004", "00000000", "00000001", "00000000", "0000000b") + "TRAILER!!!\x00\x00\x00\x00",
	}, ""), out.String())
}
