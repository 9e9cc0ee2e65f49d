//go:build linux && (amd64 || arm64)

package gpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory that is taken is nobody else's, and when all is given back the slab is whole again.
func TestSlab(t *testing.T) {
	s, err := newSlab(1 << 20)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	random := rand.New(rand.NewPCG(1, 2))
	taken := map[uint64]uint64{}
	for range 10_000 {
		n := 1 + random.Uint64N(20_000)
		if random.IntN(3) > 0 {
			offset, ok := s.take(n)
			if !ok {
				continue
			}
			require.Zero(t, offset%granule)
			require.LessOrEqual(t, offset+n, uint64(1<<20))
			for at, size := range taken {
				require.False(t, offset < at+size && at < offset+n, "%d bytes at %d, and %d at %d", n, offset, size, at)
			}
			taken[offset] = n
			continue
		}
		for at, size := range taken {
			s.give(at, size)
			delete(taken, at)
			break
		}
	}
	for at, size := range taken {
		s.give(at, size)
	}
	require.True(t, s.unused())
}
