package cpu_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// Writing back and invalidating change no byte, at all offsets and lengths. Their other effects
// cannot be seen on one machine, whose caches are coherent.
func TestLines(t *testing.T) {
	require.True(t, cpu.CanFlushLines())
	r, err := shm.Create("lines", shm.PageSize)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	mem := r.Bytes()
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	want := bytes.Clone(mem)
	for at := range 130 {
		for _, n := range []int{0, 1, 8, 63, 64, 65, 128, 1000} {
			mem[at] = byte(n) // a line that has to be written back
			want[at] = byte(n)
			cpu.WriteBackLines(mem[at:][:n])
			cpu.InvalidateLines(mem[at:][:n])
			require.Equal(t, want, mem)
		}
	}
	cpu.WriteBackLines(mem[len(mem)-1:]) // touches nothing behind the last line
	cpu.InvalidateLines(mem[len(mem)-1:])
}

func BenchmarkLines(b *testing.B) {
	r, err := shm.Create("lines", 64<<10)
	require.NoError(b, err)
	defer func() { _ = r.Close() }()
	for _, n := range []int{64, 4096, 64 << 10} {
		mem := r.Bytes()[:n]
		b.Run(fmt.Sprintf("write back %d", n), func(b *testing.B) {
			for b.Loop() {
				mem[0]++
				cpu.WriteBackLines(mem)
			}
		})
		b.Run(fmt.Sprintf("invalidate %d", n), func(b *testing.B) {
			for b.Loop() {
				cpu.InvalidateLines(mem)
			}
		})
	}
}
