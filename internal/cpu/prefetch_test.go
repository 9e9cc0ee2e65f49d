package cpu_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// PrefetchWrite changes no byte, and does not fault on memory that is gone.
func TestPrefetchWrite(t *testing.T) {
	r, err := shm.Create("prefetch", shm.PageSize)
	require.NoError(t, err)
	mem := r.Bytes()
	for i := range mem {
		mem[i] = byte(i)
	}
	want := bytes.Clone(mem)
	for at := 0; at+256 <= len(mem); at++ {
		cpu.PrefetchWrite((*[256]byte)(mem[at:]))
	}
	require.Equal(t, want, mem)
	last := (*[256]byte)(mem[len(mem)-256:])
	require.NoError(t, r.Close())
	cpu.PrefetchWrite(last)
}

// PrefetchLines changes no byte, and does not fault on memory that is gone, nor where there is none.
func TestPrefetchLines(t *testing.T) {
	r, err := shm.Create("prefetch", shm.PageSize)
	require.NoError(t, err)
	mem := r.Bytes()
	for i := range mem {
		mem[i] = byte(i)
	}
	want := bytes.Clone(mem)
	for n := range uint64(100) {
		cpu.PrefetchLines(&mem[len(mem)-1], n+1)
	}
	require.Equal(t, want, mem)
	last := &mem[len(mem)-1]
	require.NoError(t, r.Close())
	cpu.PrefetchLines(last, 3)
	cpu.PrefetchLines(nil, 3)
}
