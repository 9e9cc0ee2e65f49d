package verbs

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A ringUser is a program whose memory is that of this process, so that the server finds its mappings.
type ringUser struct {
	*program
}

func newRingUser(t *testing.T) ringUser {
	p := newRig(t).program()
	p.p.memory.maps = openMaps(int32(os.Getpid()))
	if !p.p.memory.maps.canSearch() {
		t.Skip("this kernel cannot be asked for the next mapping; Linux 6.11 can")
	}
	return ringUser{p}
}

// mapRings maps the memory of a ring of one page, as the shim does, with what it gets in advance. It returns
// how many bytes that is.
func (u ringUser) mapRings(room uint64) (addr, given uint64) {
	u.Helper()
	reserved, err := unix.Mmap(-1, 0, int(room), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(u, err)
	addr = procmem.VecOf(reserved).Addr
	h, body, files := u.request(opMmap, u.ctx, u64s(addr, pageSize, 0x10c000, 3, room))
	require.Zero(u, h.error)
	require.Len(u, files, 1)
	require.EqualValues(u, uint64(commandBits), le.Uint64(body[24:]))
	given = le.Uint64(body[16:])
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(given), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED, files[0].Fd(), 0)
	require.Zero(u, errno)
	u.seal(files[0])
	return addr, given
}

func (u ringUser) unmap(addr, n uint64) {
	u.Helper()
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(addr), uintptr(n), 0)
	require.Zero(u, errno)
}

// createCQ makes a CQ of 15 entries whose ring and record are in one page.
func (u ringUser) createCQ(page uint64) (handle uint64) {
	u.Helper()
	args := append(createCQArgs(15, createCQDriver(page, page+pageSize/2, u.uar)),
		arg{id: abi.AttrCreateCQEventFD, data: u.async, optional: true})
	a := u.ok(u.ioctl(u.ctx, abi.ObjectCQ, abi.MethodCQCreate, args...))
	require.Zero(u, a.again)
	return a.value[0]
}

// Small rings of a context are in one memory, which stays as long as the program has mapped some of it.
func TestRingsShareMemory(t *testing.T) {
	u := newRingUser(t)
	x := u.p.contexts[u.ctx]
	first, given := u.mapRings(sharedRings)
	require.EqualValues(t, sharedRings, given)
	require.Len(t, u.p.memory.extents, 1)
	extent := u.p.memory.extents[0]
	require.Empty(t, x.regions, "nothing that is not sealed may be a region")

	one, two := u.createCQ(first), u.createCQ(first+pageSize)
	require.Equal(t, 4+1, x.regions[extent].users, "two areas of each, and the context")
	u.ok(u.destroyCQ(one))
	u.unmap(first, pageSize)
	u.ok(u.destroyCQ(two))
	require.Equal(t, 1, x.regions[extent].users, "the next ring finds the region")

	// The shim has no rest left, and asks for more. One ring of the old memory is mapped, without a queue.
	u.unmap(first+2*pageSize, given-2*pageSize)
	second, _ := u.mapRings(sharedRings)
	require.Len(t, x.rings, 2)
	late := u.createCQ(first + pageSize)
	u.ok(u.destroyCQ(late))
	u.unmap(first+pageSize, pageSize)
	u.unmap(second+pageSize, sharedRings-pageSize)
	third, _ := u.mapRings(sharedRings)
	require.Len(t, x.rings, 2)
	require.NotContains(t, u.p.memory.extents, extent, "nothing of it is mapped")

	// The context ends with a queue in one memory and none in another.
	u.createCQ(third)
	u.unmap(second, pageSize)
	x.end()
	require.Empty(t, u.p.memory.extents)
	u.unmap(third, sharedRings)
}

// A large ring has its own memory, and so has one for which the shim has no room or the user no memory.
func TestRingsOfTheirOwn(t *testing.T) {
	u := newRingUser(t)
	for _, c := range []struct{ length, room uint64 }{{pageSize, pageSize}, {smallRing + pageSize, sharedRings}, {pageSize, sharedRings - pageSize}} {
		h, body, _ := u.request(opMmap, u.ctx, u64s(0x7000000, c.length, 0x10c000, 3, c.room))
		require.Zero(t, h.error)
		require.Equal(t, make([]byte, mappedSize), body)
		require.Len(t, u.p.memory.extents, 1)
		require.EqualValues(t, c.length, u.p.memory.extents[0].size)
	}
	require.Empty(t, u.p.contexts[u.ctx].rings)
}
