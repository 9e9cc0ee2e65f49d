package pool

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is neither a pool nor blank stays as it is.
func TestForeignFilesAreKept(t *testing.T) {
	zero := func(n int) []byte { return make([]byte, n) }
	var numbers []byte // as programs write an array
	for i := range uint64(worldSize / 8) {
		numbers = binary.LittleEndian.AppendUint64(numbers, 256*i)
	}
	var header [headerSize]byte
	h, err := plan(&Config{Nodes: 2}, worldSize)
	require.NoError(t, err)
	h.put(&header)
	unfinished := header
	clear(unfinished[:8])
	for _, row := range []struct {
		name  string
		bytes []byte
		err   string // "": it can be a pool
	}{
		{"empty", nil, ""},
		{"blank", zero(worldSize), ""},
		{"a pool", append(header[:], zero(worldSize)...), ""},
		{"a header that was not finished", append(unfinished[:], zero(worldSize)...), ""},
		{"text", []byte("dear diary, today"), `it begins with "dear diary, toda"`},
		{"short text", []byte("hello"), `it begins with "hello"`},
		{"a file system", append(zero(1080), append([]byte{0x53, 0xef}, zero(worldSize)...)...), `it begins with "` + strings.Repeat(`\x00`, 16) + `"`},
		{"a file system of Btrfs", append(zero(64<<10+64), append([]byte("_BHRfS_M"), zero(worldSize)...)...), `it begins with "` + strings.Repeat(`\x00`, 16) + `"`},
		{"numbers from 0 on", numbers, `it begins with "` + strings.Repeat(`\x00`, 9) + `\x01` + strings.Repeat(`\x00`, 6) + `"`},
		{"a large file", bytes.Repeat([]byte("x"), worldSize), `it begins with "xxxxxxxxxxxxxxxx"`},
	} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, row.bytes, 0o600))
		for _, number := range []int{0, AnyNode} {
			_, err := attachTest(t, Config{Path: path, Node: number})
			if row.err == "" {
				require.NoError(t, err, row.name)
				break // it has a byte at its end now
			}
			require.ErrorIs(t, err, errForeign, row.name)
			require.ErrorContains(t, err, row.err+". Name another file, or remove this one", row.name)
			kept, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(kept, row.bytes), row.name)
		}
	}
	// Behind the offset is what counts.
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, append([]byte("header"), zero(worldSize)...), 0o600))
	_, err = attachTest(t, Config{Path: path, Offset: 4096})
	require.NoError(t, err)
}
