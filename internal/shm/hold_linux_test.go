package shm

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestHoldCost(t *testing.T) {
	for _, c := range []struct{ size, fds, pages int }{
		{1, 0, 0}, {hugePage - 1, 0, 0}, {hugePage, 1, 16}, {17 * hugePage, 1, 32},
		{256 * hugePage, 1, 256}, {257 * hugePage, 2, 272}, {512*hugePage + 5, 2, 512},
	} {
		fds, pages := HoldCost(c.size)
		assert.Equal(t, [2]int{c.fds, c.pages}, [2]int{fds, pages}, "%d bytes", c.size)
	}
}

// Memory that was not touched takes what HoldBytes says.
func TestHoldBytes(t *testing.T) {
	if !collapses() {
		t.Skip("this kernel makes no huge pages of shared memory, or denies it: nothing is held")
	}
	const size = 8 << 30
	r, err := Create("sparse", size)
	require.NoError(t, err)
	defer r.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(r.File().Fd()), &st))
	assert.EqualValues(t, HoldBytes(size)/2, st.Blocks*512, "the other half is page tables")
}

// While the kernel makes a huge page of shared memory for one process, all others that touch
// the memory wait.
func TestNobodyMakesHugePages(t *testing.T) {
	if !collapses() {
		t.Skip("this kernel makes no huge pages of shared memory, or denies it")
	}
	fds := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(list)
	}
	size := 4 * hugePage
	// Pieces are aligned in the file and must be aligned in memory too. So the mapping begins at
	// an offset of the file that has the same alignment as the mapping's address.
	collapse := func(fd int) error {
		for off := 0; ; {
			m, err := unix.Mmap(fd, int64(off), size-hugePage, unix.PROT_READ, unix.MAP_SHARED)
			require.NoError(t, err)
			if wanted := int(address(m) & uint64(hugePage-1)); wanted != off {
				require.NoError(t, unix.Munmap(m))
				off = wanted
				continue
			}
			defer func() { _ = unix.Munmap(m) }()
			return unix.Madvise(m, unix.MADV_COLLAPSE)
		}
	}
	for kind, create := range map[string]func(string, int) (*Region, error){
		"region": Create, "sealed": CreateSealed, "for readers": CreateForReaders,
	} {
		before := fds()
		device, err := create("collapse", size)
		require.NoError(t, err)
		want, _ := HoldCost(size)
		require.Equal(t, before+1+want, fds(), kind)
		if kind == "region" {
			require.NoError(t, device.Seal())
		}
		for i := 0; i < size; i += PageSize {
			device.Bytes()[i] = 1
		}
		f, err := device.OpenReadOnly()
		require.NoError(t, err)
		assert.Error(t, collapse(int(f.Fd())), kind)
		require.NoError(t, f.Close())
		require.NoError(t, device.Close())
		require.Equal(t, before, fds(), kind)
	}

	// The same memory without a hold, to show that the kernel would collapse it.
	fd, err := unix.MemfdCreate("free", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, int64(size)))
	_, err = unix.Pwrite(fd, make([]byte, size), 0)
	require.NoError(t, err)
	if err := collapse(fd); err != nil {
		t.Skipf("no huge page can be had here: %v", err)
	}
}
