package shm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every length and every place, with bytes around that nobody may touch.
func TestCopyPast(t *testing.T) {
	const most, room = 700, 1024
	src, dst := make([]byte, room), make([]byte, room)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(src)
	for n := range most {
		for at := range 70 {
			from := at * 7 % 64
			for i := range dst {
				dst[i] = 0xee
			}
			require.Equal(t, n, CopyPast(dst[at:at+n], src[from:from+n]))
			require.Equal(t, src[from:from+n], dst[at:at+n])
			for i, b := range dst {
				if (i < at || i >= at+n) && b != 0xee {
					t.Fatalf("%d bytes to %d: byte %d was touched", n, at, i)
				}
			}
		}
	}
	require.Equal(t, 5, CopyPast(dst, src[:5]))
	require.Equal(t, 300, CopyPast(dst[:300], src))
}

// Memory that loses its pages is a fault that can be recovered, whichever side
// it is on, as with copy.
func TestCopyPastFaults(t *testing.T) {
	const size = 64 << 10
	path := filepath.Join(t.TempDir(), "pool")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	r, err := Attach(f, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.NoError(t, os.Truncate(path, PageSize))
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	mem := make([]byte, size)
	for name, f := range map[string]func(){
		"source":      func() { CopyPast(mem, r.Bytes()) },
		"destination": func() { CopyPast(r.Bytes(), mem) },
	} {
		for range 3 {
			func() {
				defer func() {
					fault, ok := recover().(runtime.Error)
					require.True(t, ok, name)
					where, ok := fault.(interface{ Addr() uintptr })
					require.True(t, ok, name)
					off := uint64(where.Addr()) - r.Addr()
					require.GreaterOrEqual(t, off, uint64(PageSize), name)
					require.Less(t, off, uint64(size), name)
				}()
				f()
			}()
		}
	}
	require.Equal(t, PageSize, CopyPast(r.Bytes()[:PageSize], mem), "what is left of it can be used")
}

func TestCacheSize(t *testing.T) { require.GreaterOrEqual(t, CacheSize(), 64<<10) }

// BenchmarkCopy is both ways, by size, in pieces as the device makes them.
func BenchmarkCopy(b *testing.B) {
	const piece, most = 64 << 10, 64 << 20
	r, err := Create("copy", 2*most)
	require.NoError(b, err)
	defer func() { _ = r.Close() }()
	mem := r.Bytes()
	for i := 0; i < len(mem); i += PageSize {
		mem[i] = 1
	}
	for size := 64 << 10; size <= most; size *= 4 {
		for _, way := range []struct {
			name string
			copy func(dst, src []byte) int
		}{
			{"through the caches", func(dst, src []byte) int { return copy(dst, src) }},
			{"past them", CopyPast},
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
