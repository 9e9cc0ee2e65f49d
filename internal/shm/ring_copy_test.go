package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each block gets its own index in the other ring, wherever either ring wraps.
func TestRingCopy(t *testing.T) {
	for _, sizes := range [][2]int{{16, 64}, {64, 16}, {64, 64}, {128, 64}} {
		a, b := newRing(sizes[0]), newRing(sizes[1])
		least := uint64(min(sizes[0], sizes[1]))
		for index := range uint64(200) {
			for _, n := range []uint64{0, 1, least - 1, least} {
				for i := range n {
					a.At(index + i)[0], b.At(index + i)[0] = byte(index+i+1), 0
				}
				a.Copy(b, index, n)
				for i := range n {
					require.Equal(t, byte(index+i+1), b.At(index + i)[0], "%d blocks from %d on, rings of %v", n, index, sizes)
				}
			}
		}
	}
}

func newRing(blocks int) Ring {
	r, err := Heap(blocks * blockSize)
	if err != nil {
		panic(err)
	}
	return RingOf(r.Bytes()[:blocks*blockSize])
}
