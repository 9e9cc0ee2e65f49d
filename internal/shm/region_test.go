package shm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// makers are the kinds of region that a process can make for itself.
var makers = map[string]func(size int) (*Region, error){
	"heap":      Heap,
	"memfd":     func(size int) (*Region, error) { return Create("test", size) },
	"read-only": func(size int) (*Region, error) { return CreateSealed("test", size) },
}

func heap(t *testing.T, size int) *Region {
	t.Helper()
	r, err := Heap(size)
	require.NoError(t, err)
	return r
}

func TestSizesAreRoundedUpToPages(t *testing.T) {
	for kind, create := range makers {
		for size, want := range map[int]int{1: 4096, 4095: 4096, 4096: 4096, 4097: 8192} {
			r, err := create(size)
			require.NoError(t, err, kind)
			assert.Equal(t, want, r.Size(), "%s of %d", kind, size)
			assert.Len(t, r.Bytes(), want)
			assert.Equal(t, want, cap(r.Bytes()), "nothing behind the region can be reached")
			assert.NoError(t, r.Close())
		}
	}
}

func TestSizesOutOfRange(t *testing.T) {
	for kind, create := range makers {
		for _, size := range []int{-1, 0, MaxRegion + 1} {
			_, err := create(size)
			assert.ErrorContains(t, err, "1 to 1099511627776 are possible", "%s of %d", kind, size)
		}
	}
}

func TestRegionsBeginZeroedOnAPage(t *testing.T) {
	for kind, create := range makers {
		r, err := create(3 * PageSize)
		require.NoError(t, err)
		assert.Zero(t, r.Addr()%PageSize, kind)
		assert.Equal(t, make([]byte, 3*PageSize), r.Bytes(), kind)
		assert.NoError(t, r.Close())
	}
}

func TestOffset(t *testing.T) {
	// Two neighbours in one array, so that bytes just outside of one are still memory of this
	// test.
	both := heap(t, 3*PageSize).Bytes()
	r := &Region{mem: both[PageSize : 2*PageSize]}
	for _, c := range []struct {
		name     string
		from, to int // offsets in both
		ok       bool
		off      uint64
	}{
		{"whole", PageSize, 2 * PageSize, true, 0},
		{"first byte", PageSize, PageSize + 1, true, 0},
		{"last byte", 2*PageSize - 1, 2 * PageSize, true, PageSize - 1},
		{"middle", PageSize + 100, PageSize + 200, true, 100},
		{"byte before", PageSize - 1, PageSize, false, 0},
		{"begins before", PageSize - 1, PageSize + 1, false, 0},
		{"byte after", 2 * PageSize, 2*PageSize + 1, false, 0},
		{"ends after", 2*PageSize - 1, 2*PageSize + 1, false, 0},
		{"around", 0, 3 * PageSize, false, 0},
	} {
		off, ok := r.Offset(both[c.from:c.to])
		assert.Equal(t, c.ok, ok, c.name)
		if c.ok {
			assert.Equal(t, c.off, off, c.name)
		}
	}
	_, ok := r.Offset(nil)
	assert.False(t, ok, "nil")
	_, ok = r.Offset(both[PageSize:PageSize])
	assert.False(t, ok, "no bytes")
}

func TestCloseTwice(t *testing.T) {
	for kind, create := range makers {
		r, err := create(PageSize)
		require.NoError(t, err)
		b := r.Bytes()
		require.NoError(t, r.Close(), kind)
		require.NoError(t, r.Close(), kind)
		assert.Empty(t, r.Bytes(), kind)
		assert.Zero(t, r.Size(), kind)
		assert.Nil(t, r.File(), kind)
		_, ok := r.Offset(b)
		assert.False(t, ok, kind)
		assert.NoError(t, r.CloseFile(), kind)
	}
}

func TestForgetKeepsTheMemory(t *testing.T) {
	r, err := Create("test", PageSize)
	require.NoError(t, err)
	require.NotNil(t, r.File())
	require.NoError(t, r.CloseFile())
	require.NoError(t, r.CloseFile())
	assert.Nil(t, r.File())
	r.Bytes()[7] = 7
	assert.Equal(t, byte(7), r.Bytes()[7])
	assert.NoError(t, r.Close())

	h := heap(t, PageSize)
	assert.Nil(t, h.File())
	assert.NoError(t, h.CloseFile())
	assert.Len(t, h.Bytes(), PageSize)
}
