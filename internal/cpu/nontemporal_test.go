package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// CopyNonTemporal copies every length at every offset, and does not change the bytes around the
// destination.
func TestCopyNonTemporal(t *testing.T) {
	const most, room = 700, 1024
	src, dst := make([]byte, room), make([]byte, room)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(src)
	for n := range most {
		for at := range 70 {
			from := at * 7 % 64
			for i := range dst {
				dst[i] = 0xee
			}
			require.Equal(t, n, cpu.CopyNonTemporal(dst[at:at+n], src[from:from+n]))
			require.Equal(t, src[from:from+n], dst[at:at+n])
			for i, b := range dst {
				if (i < at || i >= at+n) && b != 0xee {
					t.Fatalf("%d bytes to %d: byte %d was touched", n, at, i)
				}
			}
		}
	}
	require.Equal(t, 5, cpu.CopyNonTemporal(dst, src[:5]))
	require.Equal(t, 300, cpu.CopyNonTemporal(dst[:300], src))
}

// If the source or the destination has lost its pages, the fault can be recovered, as with copy.
func TestCopyNonTemporalFaults(t *testing.T) {
	const size = 64 << 10
	path := filepath.Join(t.TempDir(), "pool")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	r, err := shm.Attach(f, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.NoError(t, os.Truncate(path, shm.PageSize))
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	mem := make([]byte, size)
	for name, f := range map[string]func(){
		"source":      func() { cpu.CopyNonTemporal(mem, r.Bytes()) },
		"destination": func() { cpu.CopyNonTemporal(r.Bytes(), mem) },
	} {
		for range 3 {
			func() {
				defer func() {
					fault, ok := recover().(runtime.Error)
					require.True(t, ok, name)
					where, ok := fault.(interface{ Addr() uintptr })
					require.True(t, ok, name)
					off := uint64(where.Addr()) - r.Addr()
					require.GreaterOrEqual(t, off, uint64(shm.PageSize), name)
					require.Less(t, off, uint64(size), name)
				}()
				f()
			}()
		}
	}
	require.Equal(t, shm.PageSize, cpu.CopyNonTemporal(r.Bytes()[:shm.PageSize], mem), "the page that is left can be used")
}

// BenchmarkCopy compares the two ways of copying, for several sizes. It copies in pieces, as the
// device does.
func BenchmarkCopy(b *testing.B) {
	const piece, most = 64 << 10, 64 << 20
	r, err := shm.Create("copy", 2*most)
	require.NoError(b, err)
	defer func() { _ = r.Close() }()
	mem := r.Bytes()
	for i := 0; i < len(mem); i += shm.PageSize {
		mem[i] = 1
	}
	for size := 64 << 10; size <= most; size *= 4 {
		for _, way := range []struct {
			name string
			copy func(dst, src []byte) int
		}{
			{"through the caches", func(dst, src []byte) int { return copy(dst, src) }},
			{"around them", cpu.CopyNonTemporal},
		} {
			b.Run(fmt.Sprintf("%dK %s", size>>10, way.name), func(b *testing.B) {
				b.SetBytes(int64(size))
				for range b.N {
					for at := 0; at < size; at += piece {
						way.copy(mem[at:at+piece], mem[most+at:][:piece])
					}
				}
			})
		}
	}
}
