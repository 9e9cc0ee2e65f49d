package shm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bothWays calls f with the stores of this processor, and with those of any processor.
func bothWays(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	was := wideStores
	defer func() { wideStores = was }()
	for _, wide := range []bool{false, was} {
		wideStores = wide
		t.Run(fmt.Sprintf("wide stores %t", wideStores), f)
	}
}

// PublishBlocks writes all bytes of its blocks, and no others. It stops at the end of the slice and
// at the end of the page.
func TestPublishBlocks(t *testing.T) {
	const w3, w4, w5, w6, tail, step = 0x0102030405060708, 0x1112131415161718, 0x2122232425262728, 0x3132333435363738, 0x414243440fff4748, 1 << 16
	bothWays(t, func(t *testing.T) {
		for _, c := range []struct{ off, size, n, want int }{
			{0, PageSize, 1, 1}, {64, 192, 3, 3}, {64, 192, 16, 3}, {PageSize - 128, 2 * PageSize, 5, 2},
			{PageSize, 2 * PageSize, 64, 64}, {0, 3 * PageSize, 100, 64}, {0, 64, 0, 0}, {0, 100, 2, 1},
		} {
			mem := heap(t, 3*PageSize).Bytes()
			want := make([]byte, len(mem))
			for i := range mem {
				mem[i], want[i] = 0xa5, 0xa5
			}
			for i := range c.want {
				b := want[c.off+64*i:][:64]
				clear(b)
				for k, v := range []uint64{w3, w4, w5, w6, tail + uint64(i)*step} {
					for j := range 8 {
						b[24+8*k+j] = byte(v >> (56 - 8*j))
					}
				}
			}
			end := min(c.off+c.size, len(mem))
			require.Equal(t, c.want, PublishBlocks(mem[c.off:end:end], c.n, w3, w4, w5, w6, tail, step), "%+v", c)
			require.Equal(t, want, mem, "%+v", c)
		}
		mem := heap(t, PageSize).Bytes()
		assert.Panics(t, func() { PublishBlocks(mem[8:], 1, 0, 0, 0, 0, 0, 0) }, "not aligned")
		assert.Panics(t, func() { PublishBlocks(mem[:63], 1, 0, 0, 0, 0, 0, 0) }, "too short")
		assert.Zero(t, testing.AllocsPerRun(100, func() { PublishBlocks(mem, 16, 1, 2, 3, 4, 5, 6) }))
	})
}

func TestRing(t *testing.T) {
	mem := heap(t, PageSize).Bytes()
	for i := range mem {
		mem[i] = byte(i / 64)
	}
	for log := range 7 {
		n := 1 << log
		s := RingOf(mem[:64*n])
		for _, i := range []uint64{0, 1, uint64(n) - 1, uint64(n), 1<<16 - 1, 1<<64 - 1} {
			require.Equal(t, byte(i%uint64(n)), s.At(i)[0], "block %d of %d", i, n)
		}
	}
	for _, b := range [][]byte{nil, mem[:0], mem[:63], mem[:65], mem[:192], mem[1:65]} {
		assert.Panics(t, func() { RingOf(b) }, "%d bytes", len(b))
	}
}
