package pool

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The parts of a Map follow each other from the header to the end, so no part of a pool is missing.
func TestMap(t *testing.T) {
	mem := make([]byte, 16<<20)
	h, err := plan(&Config{Nodes: 3, Data: 64 << 10}, uint64(len(mem)))
	require.NoError(t, err)
	_, err = ReadMap(mem)
	require.ErrorIs(t, err, errBlank)
	h.put((*[headerSize]byte)(mem))
	m, err := ReadMap(mem)
	require.NoError(t, err)
	require.Equal(t, 3, m.Nodes())

	parts := []Part{{0, headerSize}, m.Gap()}
	for n := range m.Nodes() {
		parts = append(parts, m.Part(n))
		end := m.Part(n).Offset
		for _, p := range []Part{m.Life(n), m.Description(n), m.Board(n), m.Names(n), m.Table(n), m.Rings(n)} {
			require.GreaterOrEqual(t, p.Offset, end)
			end = p.Offset + p.Size
		}
		require.Equal(t, m.Part(n).Offset+m.Part(n).Size, end)
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Offset, b.Offset) })
	end := uint64(0)
	for _, p := range parts {
		require.Equal(t, end, p.Offset, "%+v", p)
		end += p.Size
	}
	require.Equal(t, m.Size(), end)
	_, err = ReadMap(mem[:headerSize-1])
	require.ErrorContains(t, err, "63 bytes")
}
