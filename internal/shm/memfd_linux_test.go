package shm

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// dup returns a descriptor as the other side receives it with a message.
func dup(t *testing.T, r *Region) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(r.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return os.NewFile(uintptr(fd), "dup")
}

// closing closes r when the test ends.
func closing(t *testing.T, r *Region, err error) *Region {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

// twoViews returns the same memory twice, as two mappings of a memfd. Under the race detector,
// which does not see mapped memory, both results are the same heap memory.
func twoViews(t *testing.T, size int) (a, b []byte) {
	t.Helper()
	if RaceEnabled {
		r := heap(t, size)
		return r.Bytes(), r.Bytes()
	}
	made, err := Create("test", size)
	one := closing(t, made, err)
	attached, err := Attach(dup(t, one), false)
	return one.Bytes(), closing(t, attached, err).Bytes()
}

func TestTwoMappingsAreOneMemory(t *testing.T) {
	made, err := Create("test", 2*PageSize)
	one := closing(t, made, err)
	attached, err := Attach(dup(t, one), false)
	two := closing(t, attached, err)
	assert.Equal(t, one.Size(), two.Size())
	assert.NotEqual(t, one.Addr(), two.Addr())

	one.Bytes()[5000] = 1
	two.Bytes()[5001] = 2
	assert.Equal(t, []byte{1, 2}, one.Bytes()[5000:5002])
	assert.Equal(t, []byte{1, 2}, two.Bytes()[5000:5002])

	require.NoError(t, one.Close())
	assert.Equal(t, []byte{1, 2}, two.Bytes()[5000:5002], "one side's end takes nothing from the other")
}

func TestMapsShowTheName(t *testing.T) {
	made, err := Create("bar", PageSize)
	r := closing(t, made, err)
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", r.File().Fd()))
	require.NoError(t, err)
	assert.Equal(t, "/memfd:nicless:bar (deleted)", link)
}

// memfd makes a descriptor of any size, with any seals, as another program might.
func memfd(t *testing.T, size int64, flags, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("refused", unix.MFD_CLOEXEC|flags)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, size))
	if seals != 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
	}
	return os.NewFile(uintptr(fd), "memfd")
}

func TestDescriptorsThatAreRefused(t *testing.T) {
	const sealing = unix.MFD_ALLOW_SEALING
	open := func(path string) func(t *testing.T) *os.File {
		return func(t *testing.T) *os.File {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			return f
		}
	}
	sealed := func(size int64, seals int) func(t *testing.T) *os.File {
		return func(t *testing.T) *os.File { return memfd(t, size, sealing, seals) }
	}
	plain := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(plain, make([]byte, PageSize), 0o600))
	refused := "not a memfd"
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(plain, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		refused = "not sealed" // files on a tmpfs have seals, but no seals can be added
	}

	for _, c := range []struct {
		name string
		open func(t *testing.T) *os.File
		says string
	}{
		{"no seals", sealed(PageSize, 0), "not sealed"},
		{"seals not supported", func(t *testing.T) *os.File { return memfd(t, PageSize, 0, 0) }, "not sealed"},
		{"may grow", sealed(PageSize, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL), "not sealed"},
		{"may shrink", sealed(PageSize, unix.F_SEAL_GROW|unix.F_SEAL_SEAL), "not sealed"},
		{"not whole pages", sealed(5000, fixedSize), "region of 5000 bytes; a multiple of 4096"},
		{"empty", sealed(0, fixedSize), "region of 0 bytes"},
		{"too large", sealed(MaxRegion+PageSize, fixedSize), "up to 1099511627776"},
		{"regular file", open(plain), refused},
		{"null device", open("/dev/null"), "not a memfd"},
		{"zero device", open("/dev/zero"), "not a memfd"},
		{"directory", func(t *testing.T) *os.File {
			f, err := os.Open(t.TempDir())
			require.NoError(t, err)
			return f
		}, "not a memfd"},
		{"pipe", func(t *testing.T) *os.File {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			t.Cleanup(func() { _ = w.Close() })
			return r
		}, "not a memfd"},
		{"socket", func(t *testing.T) *os.File {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = unix.Close(fds[1]) })
			return os.NewFile(uintptr(fds[0]), "socket")
		}, "not a memfd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.open(t)
			_, err := Attach(f, false)
			assert.ErrorContains(t, err, c.says)
			assert.ErrorIs(t, f.Close(), os.ErrClosed, "Attach must have closed it")

			f = c.open(t)
			_, err = AttachReadOnly(f)
			assert.ErrorContains(t, err, c.says)
			assert.ErrorIs(t, f.Close(), os.ErrClosed, "AttachReadOnly must have closed it")
		})
	}
}

func TestClosedDescriptorIsRefused(t *testing.T) {
	f := memfd(t, PageSize, unix.MFD_ALLOW_SEALING, fixedSize)
	require.NoError(t, f.Close())
	_, err := Attach(f, false)
	assert.ErrorIs(t, err, unix.EBADF)
}

func TestTrustedFileNeedsNoSealsButWholePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	open := func(size int) *os.File {
		require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		return f
	}
	attached, err := Attach(open(PageSize), true)
	r := closing(t, attached, err)
	r.Bytes()[3] = 3
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, byte(3), b[3])

	_, err = Attach(open(PageSize+1), true)
	assert.ErrorContains(t, err, "region of 4097 bytes")
}

// reopened opens f again through /proc. The new descriptor has its own access mode.
func reopened(t *testing.T, f *os.File, flag int) *os.File {
	t.Helper()
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flag, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func TestNobodyCanTakeTheMemoryAway(t *testing.T) {
	for kind, create := range makers {
		if kind == "heap" {
			continue
		}
		made, err := create(2 * PageSize)
		r := closing(t, made, err)
		for how, f := range map[string]*os.File{"descriptor": r.File(), "reopened": reopened(t, r.File(), os.O_RDWR)} {
			fd := int(f.Fd())
			assert.Equal(t, unix.EPERM, unix.Ftruncate(fd, PageSize), "%s %s: shrink", kind, how)
			assert.Equal(t, unix.EPERM, unix.Ftruncate(fd, 3*PageSize), "%s %s: grow", kind, how)
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
			assert.Contains(t, []error{unix.EPERM, unix.EBUSY}, err, "%s %s: forbid writing", kind, how)
		}
	}
}

// No process can punch holes into sealed memory. A thread that touches a page while a hole is
// punched there would have to wait; see Seal.
func TestNobodyCanPunchHolesOnceSealed(t *testing.T) {
	made, err := Create("holes", 2*PageSize)
	device := closing(t, made, err)
	mapped, err := Attach(dup(t, device), false)
	client := closing(t, mapped, err)
	punch := func() error {
		return unix.Fallocate(int(client.File().Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, PageSize)
	}
	require.False(t, device.Sealed())
	require.NoError(t, punch(), "nobody has sealed it yet")

	require.NoError(t, client.Seal())
	require.NoError(t, client.Seal(), "once more")
	require.True(t, device.Sealed())
	require.True(t, client.Sealed())
	client.Bytes()[0] = 7
	assert.Equal(t, unix.EPERM, punch())
	assert.Equal(t, unix.EPERM, unix.Madvise(client.Bytes()[:PageSize], unix.MADV_REMOVE))
	for how, f := range map[string]*os.File{"again": dup(t, device), "reopened": reopened(t, device.File(), os.O_RDWR)} {
		_, err = Attach(f, false)
		assert.ErrorIs(t, err, unix.EPERM, "%s: a later mapping for writing", how)
	}
	assert.Equal(t, byte(7), device.Bytes()[0], "mappings that exist stay")
	device.Bytes()[PageSize] = 8
	assert.Equal(t, byte(8), client.Bytes()[PageSize])

	require.NoError(t, device.CloseFile())
	assert.True(t, device.Sealed(), "also without the descriptor")
}

func TestSealedOnlyAfterSeal(t *testing.T) {
	made, err := Create("open", PageSize)
	r := closing(t, made, err)
	require.NoError(t, r.CloseFile())
	assert.False(t, r.Sealed())
	heap, err := Heap(PageSize)
	assert.True(t, closing(t, heap, err).Sealed(), "nobody else has it")
}

func TestReceiverCannotWriteAReadOnlyRegion(t *testing.T) {
	made, err := CreateSealed("status", PageSize)
	owner := closing(t, made, err)
	owner.Bytes()[0] = 1

	_, err = Attach(dup(t, owner), false)
	assert.ErrorIs(t, err, unix.EPERM)

	received := dup(t, owner)
	defer received.Close()
	for how, f := range map[string]*os.File{"received": received, "reopened": reopened(t, received, os.O_RDWR)} {
		fd := int(f.Fd())
		_, err = unix.Mmap(fd, 0, PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		assert.Equal(t, unix.EPERM, err, "%s: map for writing", how)

		m, err := unix.Mmap(fd, 0, PageSize, unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(t, err, how)
		assert.Equal(t, unix.EACCES, unix.Mprotect(m, unix.PROT_READ|unix.PROT_WRITE), "%s: mprotect", how)
		assert.NoError(t, unix.Munmap(m))

		_, err = unix.Pwrite(fd, []byte{9}, 0)
		assert.Equal(t, unix.EPERM, err, "%s: write", how)
		err = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, PageSize)
		assert.Equal(t, unix.EPERM, err, "%s: punch a hole", how)
	}

	attached, err := AttachReadOnly(dup(t, owner))
	view := closing(t, attached, err)
	assert.Equal(t, byte(1), view.Bytes()[0])
	owner.Bytes()[0] = 2
	assert.Equal(t, byte(2), view.Bytes()[0], "what the owner writes is seen")

	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	assert.Panics(t, func() { view.Bytes()[0] = 3 }, "a store must fault")
	assert.Equal(t, byte(2), owner.Bytes()[0])
}

func TestRegionThatForbidsWritingIsRefusedForWriting(t *testing.T) {
	f := memfd(t, PageSize, unix.MFD_ALLOW_SEALING, fixedSize|unix.F_SEAL_WRITE)
	_, err := Attach(f, false)
	assert.ErrorIs(t, err, unix.EPERM)

	made, err := Create("test", PageSize)
	r := closing(t, made, err)
	_, err = Attach(reopened(t, r.File(), os.O_RDONLY), false)
	assert.ErrorIs(t, err, unix.EACCES, "a descriptor for reading only")
}
