package shm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestForeignMemoryIsMappedInPart(t *testing.T) {
	f := memfd(t, 1<<40, unix.MFD_ALLOW_SEALING, fixedSize)
	defer f.Close()
	all, err := Inspect(int(f.Fd()))
	require.NoError(t, err)
	assert.Equal(t, 1<<40, all.Size())
	page := all.Span(1)
	assert.GreaterOrEqual(t, page, PageSize)
	for n, want := range map[int]int{1: page, page: page, page + 1: 2 * page, 1<<40 - 1: 1 << 40, 1 << 40: 1 << 40} {
		assert.Equal(t, want, all.Span(n), "%d bytes", n)
	}
	part, err := all.Map(page + 1)
	r := closing(t, part, err)
	assert.Equal(t, 2*page, r.Size())
	r.Bytes()[page] = 7
	var b [1]byte
	_, err = f.ReadAt(b[:], int64(page))
	require.NoError(t, err, "the descriptor stays open")
	assert.Equal(t, byte(7), b[0])
	for _, n := range []int{0, -1, 1<<40 + 1} {
		_, err = all.Map(n)
		assert.ErrorContains(t, err, "of a region of 1099511627776")
	}
}

// Memory of huge pages can be mapped, and unmapped, by those only.
func TestForeignMemoryOfHugePages(t *testing.T) {
	f := Foreign{size: 6 << 20, page: 2 << 20}
	for n, want := range map[int]int{1: 2 << 20, 2<<20 + 1: 4 << 20, 4<<20 + 1: 6 << 20, 6 << 20: 6 << 20} {
		assert.Equal(t, want, f.Span(n), "%d bytes", n)
	}
	odd := Foreign{size: 3 << 20, page: 2 << 20}
	assert.Equal(t, 3<<20, odd.Span(2<<20+1), "ordinary memory that prefers huge pages ends where it ends")
}
