package procmem

import (
	"os"
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

func TestReadStopsAtMemoryThatIsNotThere(t *testing.T) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	require.NoError(t, unix.Mprotect(mem[page:], unix.PROT_NONE))

	n, errno := Read(os.Getpid(), []Vec{VecOf(make([]byte, 2*page))}, []Vec{VecOf(mem)})
	require.Zero(t, errno)
	require.Equal(t, page, n)
	_, errno = Read(os.Getpid(), []Vec{VecOf(make([]byte, 8))}, []Vec{VecOf(mem[page:])})
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
}
