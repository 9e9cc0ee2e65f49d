//go:build linux && (amd64 || arm64)

package record_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const kindPost = 8

// without returns a raw file without the record at i.
func without(b []byte, i int) []byte {
	n := int(binary.LittleEndian.Uint32(b[i:]))
	return slices.Concat(b[:i], b[i+n:])
}

// Each record of posted WQEs may be missing, because the disk was full. The trace ends there, and what
// follows is not taken for something else.
func TestMissingPosts(t *testing.T) {
	for _, name := range programs {
		files := rawFiles(t, name)
		whole, s, err := write(files...)
		require.NoError(t, err)
		require.Zero(t, s.Gaps)
		all := replayed(t, whole).WQEs
		posts := at(files[1], kindPost)
		for k, i := range posts {
			again := slices.ContainsFunc(posts[k+1:], func(j int) bool { // of the same queue pair
				return bytes.Equal(files[1][j+16:j+24], files[1][i+16:i+24])
			})
			b, s, err := write(files[0], without(files[1], i))
			require.NoError(t, err)
			if again {
				require.Equal(t, 1, s.Gaps, "%s post %d", name, k)
				require.Contains(t, s.Notes(),
					"1 queue pairs end where WQEs are missing: the library could not write them")
			}
			r := replayed(t, b)
			require.Empty(t, r.Differences, "%s post %d", name, k)
			require.Less(t, r.WQEs, all)
		}
	}
}
