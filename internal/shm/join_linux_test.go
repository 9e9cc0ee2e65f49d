//go:build linux

package shm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A joined region has the bytes of its parts, in both directions, and keeps them when the parts are closed.
func TestJoin(t *testing.T) {
	a, err := Create("a", 3*PageSize)
	require.NoError(t, err)
	b, err := Create("b", 2*PageSize)
	require.NoError(t, err)
	j, err := Join(a.Bytes()[2*PageSize:], b.Bytes()[PageSize:], a.Bytes()[:PageSize])
	require.NoError(t, err)
	require.Equal(t, 3*PageSize, j.Size())
	require.Equal(t, 3, j.Mappings())
	require.Equal(t, 1, a.Mappings())
	require.Nil(t, j.File())
	require.True(t, j.Sealed())
	for i, part := range [][]byte{a.Bytes()[2*PageSize:], b.Bytes()[PageSize:], a.Bytes()[:PageSize]} {
		page := j.Bytes()[i*PageSize : (i+1)*PageSize]
		page[i] = byte(1 + i)
		require.Equal(t, byte(1+i), part[i])
		part[100] = byte(7 + i)
		require.Equal(t, byte(7+i), page[100])
	}
	before := bytes.Clone(j.Bytes())
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Equal(t, before, j.Bytes())
	require.NoError(t, j.Close())
	require.Nil(t, j.Bytes())
}

func TestJoinRefuses(t *testing.T) {
	a, err := Create("a", 2*PageSize)
	require.NoError(t, err)
	defer a.Close()
	heap, err := Heap(PageSize)
	require.NoError(t, err)
	for want, parts := range map[string][][]byte{
		"region of 0 bytes":       nil,
		"whole pages of 4096":     {a.Bytes()[:100]},
		"join 0 bytes":            {a.Bytes(), nil},
		"whole pages of 4096 are": {a.Bytes()[64 : 64+PageSize]},
		"invalid argument":        {a.Bytes(), heap.Bytes()},
	} {
		_, err := Join(parts...)
		require.ErrorContains(t, err, want)
	}
	require.NotPanics(t, func() { a.Bytes()[2*PageSize-1] = 1 }) // it is still there
}
