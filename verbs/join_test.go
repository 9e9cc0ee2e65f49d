//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"os"
	"testing"

	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// packedCQ makes a CQ of 2048 entries, 32 pages, of which every second of the first n pages is a umem
// already.
func packedCQ(m *maker, n int) answer {
	m.Helper()
	const at = 0x40000000
	for i := 0; i < n; i += 2 {
		m.ok(m.regUmem(at+uint64(i)*pageSize, pageSize, 1))
	}
	return m.ioctl(m.ctx, abi.ObjectCQ, abi.MethodCQCreate, append(createCQArgs(2047, createCQDriver(at, 0x50000000, m.uar)),
		arg{id: abi.AttrCreateCQEventFD, data: m.async, optional: true})...)
}

// A ring lies in as many extents as its neighbours make of it. The shim gets no more descriptors at once
// than it has room for (rig.request), also with those of other areas.
func TestRingInManyExtents(t *testing.T) {
	m := newMaker(t)
	x := m.context()
	regions, charged := len(x.regions), len(m.p.memory.extents)
	a := m.ok(packedCQ(m, 17))
	require.Greater(t, a.again, 1, "9 descriptors are too many for one answer")
	q := x.objects[uint32(a.value[abi.AttrCreateCQHandle])].self.(*cq)
	require.Len(t, q.extents[0].parts, 18)
	q.extents[0].at(0x40000000+3*pageSize, 1)[0] = 0x5a
	in, _ := q.extents[0].source(0x40000000 + 3*pageSize)
	require.Equal(t, byte(0x5a), in.at(0x40000000+3*pageSize, 1)[0])
	m.ok(m.destroyCQ(a.value[abi.AttrCreateCQHandle]))
	require.Len(t, x.regions, regions+9)
	require.Len(t, m.p.memory.extents, charged+9, "the umems")
}

func TestRingInTooManyExtents(t *testing.T) {
	m := newMaker(t)
	before := m.context().cost
	const at = 0x40000000
	for i := range uint64(maxParts + 1) {
		m.ok(m.regUmem(at+i*pageSize, pageSize, 1))
	}
	a := m.regUmem(at, (maxParts+1)*pageSize, 1)
	require.Equal(t, unix.ENOMEM, a.errno)
	m.ok(m.regUmem(at, maxParts*pageSize, 1))
	require.NotEqual(t, before, m.context().cost)
}

// A program has enlarged a mapping of memory that was moved (mremap, realloc). The engine has not the
// pages behind the old end.
func TestRingInEnlargedMapping(t *testing.T) {
	m := newMaker(t)
	p := m.p.memory
	e, err := p.make(movedName, 0x1000, pageSize)
	require.NoError(t, err)
	mapped, err := unix.Mmap(int(e.mem.File().Fd()), 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(mapped)
	e.addr = procmem.VecOf(mapped).Addr
	require.NoError(t, e.mem.Seal())
	require.NoError(t, p.add(e))
	p.maps = openMaps(int32(os.Getpid()))
	held, err := p.find(e.addr, pageSize)
	require.NoError(t, err)
	require.Same(t, e, held)

	list, err := p.parts(e.addr, pageSize)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = p.parts(e.addr, 2*pageSize)
	require.ErrorContains(t, err, fmt.Sprintf("the 4096 bytes up to %#x are shared memory", e.addr+pageSize))
	require.Equal(t, unix.EFAULT, m.regUmem(e.addr, 2*pageSize, 1).errno)
}

// Of the extents of which a process had mapped something, those count that it has mapped still.
func TestTaken(t *testing.T) {
	m := newMaker(t)
	p := m.p.memory
	p.maps = openMaps(int32(os.Getpid()))
	var extents []*extent
	for range 2 {
		e, err := p.make(movedName, 0x1000, pageSize)
		require.NoError(t, err)
		mapped, err := unix.Mmap(int(e.mem.File().Fd()), 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.NoError(t, err)
		defer unix.Munmap(mapped)
		e.addr = procmem.VecOf(mapped).Addr
		require.NoError(t, e.mem.Seal())
		require.NoError(t, p.add(e))
		extents = append(extents, e)
	}
	at := extents[0].addr
	require.Nil(t, p.taken(at, pageSize), "nobody holds it")
	_, err := p.find(at, pageSize)
	require.NoError(t, err)
	require.Same(t, extents[0], p.taken(at, pageSize))
	extents[1].addr = at // as if the process had mapped the first one over it
	extents[1].holders++
	require.Same(t, extents[0], p.taken(at, pageSize))
	extents[0].holders--
	require.Nil(t, p.taken(at, pageSize))
	extents[1].holders--
}
