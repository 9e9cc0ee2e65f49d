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

// allocAt gives the process shared memory of a page at an address where a ring was.
func (u ringUser) allocAt(addr uint64) *extent {
	u.Helper()
	h, _, files := u.request(opAlloc, 0, u64s(addr, pageSize, 0, 0))
	require.Zero(u, h.error)
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), pageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED, files[0].Fd(), 0)
	require.Zero(u, errno)
	u.seal(files[0])
	return u.p.memory.allocated(addr, pageSize)
}

// A ring's queue could not be made, and the program has other memory there, before the first queue with a
// ring in the same memory: the other memory's region is the newer one, so the engine finds the record in it.
func TestMemoryWhereARingWas(t *testing.T) {
	u := newRingUser(t)
	x := u.p.contexts[u.ctx]
	of, _ := u.mapRings(sharedRings)
	cq := u.createCQ(of)
	at, given := u.mapRings(sharedRings)
	u.unmap(at, pageSize)
	other := u.allocAt(at)
	d := createQPDriver(at+pageSize, at+64, 16, 8, 4, abi.MLX5QPFlagUARPageIndex, u.uar)
	u.ok(u.createQPWith(abi.QPTRC, cq, []uint32{4, 4, 1, 1, 0}, d,
		arg{id: abi.AttrCreateQPEventFD, data: u.async, optional: true},
		arg{id: abi.AttrUHWOut, out: abi.MLX5CreateQPRespSize}))
	require.False(t, x.dropRegion(x.regions[other].id), "the queue pair's record is in it")
	u.ok(u.regMR(at, 64, at, u.pd, abi.AccessLocalWrite))
	x.end()
	u.unmap(at, given)
	u.unmap(of, sharedRings)
}

// Memory of which the program has unmapped everything ends with the next objects that are destroyed.
func TestRingsThatAreUnmapped(t *testing.T) {
	u := newRingUser(t)
	x := u.p.contexts[u.ctx]
	const n = 20
	var at, cqs [n]uint64
	for i := range n {
		at[i], _ = u.mapRings(sharedRings)
		cqs[i] = u.createCQ(at[i])
	}
	require.Len(t, x.rings, n)
	for i := range n {
		u.ok(u.destroyCQ(cqs[i]))
		u.unmap(at[i], sharedRings)
	}
	require.LessOrEqual(t, len(x.rings), 2)
	require.Len(t, u.p.memory.extents, len(x.rings))
}

// A large ring has its own memory, and so has one for which the shim has no room.
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
