package crc

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The CRC is that of hash/crc32 for all lengths and places, from any state, without allocation.
func TestUpdate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	memory := make([]byte, 5000)
	for i := range memory {
		memory[i] = byte(rng.Uint32())
	}
	for n := range 4500 {
		b := memory[rng.IntN(64):][:n]
		state := rng.Uint32()
		require.Equal(t, crc32.Update(state, crc32.IEEETable, b), Update(state, b), "%d bytes", n)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { Update(0, memory) }))
}

// BenchmarkUpdate compares the CRC with that of hash/crc32.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{256, 512, 1024, 4096} {
		memory := make([]byte, n)
		ways := map[string]func() uint32{
			"hash/crc32": func() uint32 { return crc32.ChecksumIEEE(memory) },
			"here":       func() uint32 { return Update(0, memory) },
		}
		for name, sum := range ways {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					sum()
				}
			})
		}
	}
}
