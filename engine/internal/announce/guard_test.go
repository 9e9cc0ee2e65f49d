//go:build linux && (amd64 || arm64)

package announce

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// guarded returns a source with a guarded ring of so many blocks, and the memory in which the ring begins.
func guarded(blocks int) (s *Source, memory []byte) {
	memory = make([]byte, (blocks+1)*wqe.BlockSize)
	s = New(make([]byte, doorbell.UARPageSize), nil)
	s.Guard(memory[:blocks*wqe.BlockSize], wqe.RC)
	return s, memory
}

// Each word of a ring is marked, whatever its size, and nothing behind the ring.
func TestMark(t *testing.T) {
	for _, blocks := range []int{1, 32, 64, 128, 4096} {
		s, memory := guarded(blocks)
		size := blocks * wqe.BlockSize
		require.Equal(t, size, s.Mark(0x123456))
		for at := range uint64(size / 4) {
			require.Equal(t, markOf(0x123456), shm.BE32At(memory, at*4).Observe(), "word %d of %d blocks", at, blocks)
		}
		require.Equal(t, make([]byte, wqe.BlockSize), memory[size:])
	}
}

func BenchmarkMark(b *testing.B) {
	for _, blocks := range []int{64, 1 << 15} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			s, _ := guarded(blocks)
			b.SetBytes(int64(blocks) * wqe.BlockSize)
			for b.Loop() {
				s.Mark(9)
			}
		})
	}
}
