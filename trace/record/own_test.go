//go:build linux && (amd64 || arm64)

package record_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	kindCQ  = 2
	kindSRQ = 3
)

// own returns a raw file whose program has asked for the ring of the object that is made at i.
func own(b []byte, i int) []byte {
	r := make([]byte, 32)
	binary.LittleEndian.PutUint32(r, 32)
	r[4] = 12                                  // NR_LOST
	copy(r[8:24], b[i+8:i+24])                 // time and id
	binary.LittleEndian.PutUint64(r[24:32], 7) // NR_LOST_OWN
	end := i + int(binary.LittleEndian.Uint32(b[i:]))
	return slices.Concat(b[:end], r, r, b[end:])
}

// Queue pairs are left out if the program may read or write a ring of theirs by itself, and a note says so.
func TestOwnRings(t *testing.T) {
	for _, name := range programs {
		files := rawFiles(t, name)
		for _, kind := range []byte{kindCQ, kindSRQ, kindQP} {
			for _, i := range at(files[0], kind) {
				b, s, err := write(own(files[0], i), files[1])
				require.NoError(t, err)
				require.Positive(t, s.Own, "%s kind %d", name, kind)
				require.Contains(t, s.Notes(),
					"1 times not recorded: queues of which the program has asked where their rings are (mlx5dv_init_obj)")
				require.Zero(t, s.Taken)
				r := replayed(t, b)
				require.Empty(t, r.Differences, "%s kind %d", name, kind)
			}
		}
	}
}
