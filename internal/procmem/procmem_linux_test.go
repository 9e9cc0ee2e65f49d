package procmem

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test reads and writes its own process, which it may always trace.
func TestReadAndWrite(t *testing.T) {
	src, dst := []byte("written to another process"), make([]byte, 26)
	n, errno := Write(os.Getpid(), []Vec{VecOf(src)}, []Vec{VecOf(dst)})
	require.Zero(t, errno)
	require.Equal(t, len(src), n)
	require.Equal(t, src, dst)

	halves := make([]byte, 26)
	n, errno = Read(os.Getpid(), []Vec{VecOf(halves)}, []Vec{VecOf(src[13:]), VecOf(src[:13])})
	require.Zero(t, errno)
	require.Equal(t, len(src), n)
	require.Equal(t, string(src[13:])+string(src[:13]), string(halves))
}

// A goroutine's stack is moved when it grows. Each goroutine here calls Read with more of its
// stack used than the one before, so that for some the stack grows in Read itself.
func TestReadToAStackThatGrows(t *testing.T) {
	src := []byte("8 bytes.")
	for depth := range 400 {
		done := make(chan string)
		go func() { done <- readAtDepth(depth, src) }()
		require.Equal(t, "8 bytes.", <-done, "depth %d", depth)
	}
}

//go:noinline
func readAtDepth(depth int, src []byte) string {
	if depth > 0 {
		return readAtDepth(depth-1, src)
	}
	var dst [8]byte
	if n, errno := Read(os.Getpid(), []Vec{VecOf(dst[:])}, []Vec{VecOf(src)}); n != len(dst) {
		return errno.Error()
	}
	return string(dst[:])
}

func TestReadStopsAtMemoryThatIsNotThere(t *testing.T) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	require.NoError(t, unix.Mprotect(mem[page:], unix.PROT_NONE))

	to := make([]byte, 2*page)
	defer runtime.KeepAlive(to)
	n, errno := Read(os.Getpid(), []Vec{VecOf(to)}, []Vec{VecOf(mem)})
	require.Zero(t, errno)
	require.Equal(t, page, n)
	_, errno = Read(os.Getpid(), []Vec{VecOf(to[:8])}, []Vec{VecOf(mem[page:])})
	require.Equal(t, unix.EFAULT, errno)
}

func TestQueryVMA(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/mapped")
	require.NoError(t, err)
	defer f.Close()
	size := 3 * os.Getpagesize()
	require.NoError(t, f.Truncate(int64(size)))
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	maps, err := os.Open("/proc/self/maps")
	require.NoError(t, err)
	defer maps.Close()

	at := VecOf(mem).Addr
	v, err := QueryVMA(maps.Fd(), at+5, make([]byte, 4096))
	if err == unix.ENOTTY {
		t.Skip("Linux before 6.11")
	}
	require.NoError(t, err)
	require.Equal(t, at, v.Start)
	require.Equal(t, at+uint64(size), v.End)
	require.Equal(t, uint64(VMARead|VMAWrite|VMAShared), v.Flags&(VMARead|VMAWrite|VMAExec|VMAShared))
	require.Equal(t, f.Name(), string(v.Name))

	_, err = QueryVMA(maps.Fd(), at, make([]byte, 2))
	require.Equal(t, unix.ENAMETOOLONG, err)
	_, err = QueryVMA(maps.Fd(), ^uint64(0), nil)
	require.Equal(t, unix.ENOENT, err)

	next, err := NextVMA(maps.Fd(), at+5)
	require.NoError(t, err)
	v.Name = nil
	require.Equal(t, v, next)
	next, err = NextVMA(maps.Fd(), 0)
	require.NoError(t, err)
	require.NotZero(t, next.Start, "nothing is mapped at address 0")
	_, err = NextVMA(maps.Fd(), ^uint64(0))
	require.Equal(t, unix.ENOENT, err)
}
