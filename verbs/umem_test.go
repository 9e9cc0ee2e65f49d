package verbs

import (
	"os"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newDEVXProgram returns a program that has a context with firmware commands.
func newDEVXProgram(t testing.TB) *program {
	t.Helper()
	return newServingWith(t, Config{}).rig(t).program()
}

// allPageSizes is what mlx5dv_devx_umem_reg passes.
const allPageSizes = ^uint64(0xfff)

func (p *program) regUmem(addr, length uint64, access uint32, more ...arg) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.MLX5ObjectDEVXUmem, abi.MLX5MethodDEVXUmemReg, umemArgs(addr, length, access, more...)...)
}

// umemArgs are the attributes that every umem needs, and more.
func umemArgs(addr, length uint64, access uint32, more ...arg) []arg {
	return append([]arg{{id: abi.MLX5AttrDEVXUmemRegHandle},
		{id: abi.MLX5AttrDEVXUmemRegAddr, in: u64s(addr)}, {id: abi.MLX5AttrDEVXUmemRegLen, in: u64s(length)},
		word(abi.MLX5AttrDEVXUmemRegAccess, access), {id: abi.MLX5AttrDEVXUmemRegOutID, out: 4}}, more...)
}

func pageSizes(bitmap uint64) arg { return number(abi.MLX5AttrDEVXUmemRegPgszBitmap, bitmap) }

func (p *program) deregUmem(h uint64) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.MLX5ObjectDEVXUmem, abi.MLX5MethodDEVXUmemDereg, arg{id: abi.MLX5AttrDEVXUmemDeregHandle, data: h})
}

// umem returns the umem that an answer names.
func (p *program) umem(c answer) *umem {
	p.Helper()
	return p.context().umems[le.Uint32(p.ok(c).bytes[abi.MLX5AttrDEVXUmemRegOutID])]
}

// Umems are made and freed, and nothing is left of them.
func TestUmem(t *testing.T) {
	p := newDEVXProgram(t)
	x := p.context()
	free := x.cost
	a := p.regUmem(0x10000040, 100, 0, pageSizes(allPageSizes))
	require.Equal(t, 2, a.again+1, "its page is remapped once")
	b := p.regUmem(0x10000f00, 0x200, umemAccess)
	c := p.regUmem(0x10000000, 0x3000, 1)
	require.NotEqual(t, p.umem(a).id, p.umem(b).id)
	for _, m := range []struct {
		in      answer
		off, n  uint64
		align   uint64
		want    uint64
		refused string
	}{
		{a, 0, 100, 64, 0x10000040, ""},
		{a, 64, 36, 64, 0x10000080, ""},
		{a, 64, 37, 64, 0, "which has 100 bytes"},
		{a, 65, 1, 8, 0, "a multiple of 8"},
		{a, 101, 0, 1, 0, "which has 100 bytes"},
		{a, 100, 0, 1, 0, "which has 100 bytes"},
		{a, ^uint64(0), 1, 1, 0, "which has 100 bytes"},
		{a, 8, ^uint64(0), 1, 0, "which has 100 bytes"},
		{a, 0, 1, 128, 0, "a multiple of 128 is needed"},
		{b, 0, 0x100, 256, 0x10000f00, ""},
		{b, 0x100, 0x100, 256, 0x10001000, ""},
		{b, 0xc0, 0x80, 64, 0x10000fc0, ""},
		{c, 0, 0x1000, 4096, 0x10000000, ""},
		{c, 0x1000, 0x1000, 4096, 0x10001000, ""},
		{c, 0x2000, 0x1000, 4096, 0x10002000, ""},
	} {
		addr, err := p.umem(m.in).at(m.off, m.n, m.align, "ring")
		if m.refused != "" {
			require.ErrorContains(t, err, m.refused)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, m.want, addr)
	}
	require.Len(t, x.regions, 3)
	at := uint64(0x10001000)
	p.umem(b).extent.at(at, 1)[0] = 0x5a
	require.Equal(t, byte(0x5a), p.umem(c).extent.at(at, 1)[0], "pages that umems share are shared")
	for _, made := range []answer{b, a, c} {
		p.ok(p.deregUmem(made.value[abi.MLX5AttrDEVXUmemRegHandle]))
	}
	require.Equal(t, unix.ENOENT, p.deregUmem(a.value[abi.MLX5AttrDEVXUmemRegHandle]).errno, "twice")
	require.Empty(t, x.umems)
	require.Empty(t, x.regions)
	require.Empty(t, p.p.memory.extents)
	require.Equal(t, free, x.cost)
}

// A umem that an object uses cannot be deregistered, and its memory stays until the object is gone.
func TestUmemInUse(t *testing.T) {
	p := newDEVXProgram(t)
	x := p.context()
	made := p.regUmem(0x10000000, 0x2000, 1)
	u := p.umem(made)
	user := x.add(kindDEVX, u, func() error { return nil }, u.hold(), u.object)
	require.NoError(t, x.chargeObject())
	h := made.value[abi.MLX5AttrDEVXUmemRegHandle]
	require.Equal(t, unix.EBUSY, p.deregUmem(h).errno)
	require.Equal(t, unix.EINVAL, p.destroyFirmwareObject(h).errno, "another kind of object")
	require.Equal(t, unix.EINVAL, p.deregUmem(uint64(p.pd)).errno)
	require.Equal(t, 2, u.extent.holders)
	require.NoError(t, x.remove(user))
	p.ok(p.deregUmem(h))
	require.Empty(t, x.regions)
	require.Empty(t, p.p.memory.extents)
}

// Umems share memory in any way: a queue of one lies in the region of another where that is newer, so the
// other's region stays until the queue is gone.
func TestUmemsInOneAnother(t *testing.T) {
	m := newMaker(t)
	regions := len(m.context().regions)
	of := func(addr, n uint64) (id uint32, handle uint64) {
		a := m.ok(m.regUmem(addr, n, 1))
		return le.Uint32(a.bytes[abi.MLX5AttrDEVXUmemRegOutID]), a.value[abi.MLX5AttrDEVXUmemRegHandle]
	}
	first, firstHandle := of(0x30000000, 0x2000)
	_, joinedHandle := of(0x30001000, 0x2000)
	cq, _ := m.made(m.cqCommand(devx.CQUmem, first, devx.CQUmemOffset, 0x1000), devx.NewCQN)
	require.Zero(t, m.deregister(joinedHandle))
	require.Len(t, m.context().busy, 1, "the queue is in its region")
	require.Equal(t, unix.EBUSY, m.deregister(firstHandle))
	require.Zero(t, m.destroy(cq))
	require.Empty(t, m.context().busy)
	require.Zero(t, m.deregister(firstHandle))
	require.Len(t, m.context().regions, regions)
	for _, e := range m.p.memory.extents {
		require.False(t, e.overlaps(0x30000000, 0x4000), "%#x", e.addr)
	}
}

// A umem of a dma-buf is where the engine has mapped it.
func TestUmemOfDMABuf(t *testing.T) {
	p := newDEVXProgram(t)
	x := p.context()
	free, mapped := x.cost, mappings(t)
	fd := arg{id: abi.MLX5AttrDEVXUmemRegDMABufFD, data: p.memfd(4*pageSize, unix.F_SEAL_SHRINK)}
	first := p.regUmem(0, 4*pageSize, 1, fd, pageSizes(allPageSizes))
	second := p.regUmem(pageSize+64, 256, 1, fd)
	require.NotEqual(t, p.umem(first).addr, p.umem(second).addr)
	addr, err := p.umem(second).at(64, 192, 64, "record")
	require.NoError(t, err)
	p.umem(second).extent.at(addr, 1)[0] = 0x5a
	e := p.umem(first).extent
	require.EqualValues(t, 0x5a, e.at(e.addr+pageSize+128, 1)[0], "both are the same memory")
	require.Len(t, x.regions, 2)
	require.Equal(t, unix.EINVAL, p.regUmem(0, 4*pageSize+1, 1, fd).errno, "behind the end")
	require.Equal(t, unix.EOPNOTSUPP, p.regUmem(0, pageSize, 1, arg{id: fd.id, data: 1<<32 - 1}).errno, "a probe for GPUs")
	require.Equal(t, unix.EBADF, p.regUmem(0, pageSize, 1, arg{id: fd.id, data: 999}).errno, "no descriptor")
	for _, made := range []answer{first, second} {
		p.ok(p.deregUmem(made.value[abi.MLX5AttrDEVXUmemRegHandle]))
	}
	require.Empty(t, x.regions)
	require.Empty(t, x.dmabufs)
	require.Equal(t, free, x.cost)
	require.Equal(t, mapped, mappings(t))
	p.ok(p.regUmem(0, 4*pageSize, 1, fd))
	x.end()
	require.Equal(t, mapped, mappings(t), "the context's end frees it")
}

// Wrong arguments are refused as by the kernel, and change nothing.
func TestUmemMistakes(t *testing.T) {
	p := newDEVXProgram(t)
	x := p.context()
	free := x.cost
	const at = 0x10000000
	for _, m := range []struct {
		why          string
		addr, length uint64
		access       uint32
		sizes        uint64
	}{
		{"0 bytes", at, 0, 1, allPageSizes},
		{"more than an extent", 0, maxExtent + 1, 1, allPageSizes},
		{"2^64 - 1 bytes", at, ^uint64(0), 1, allPageSizes},
		{"past the end", ^uint64(0) - 8, 10, 1, allPageSizes},
		{"rights of atomics", at, 64, 1 << 3, allPageSizes},
		{"remote write alone", at, 64, abi.AccessRemoteWrite, allPageSizes},
		{"no page size", at, 4096, 1, 0},
		{"small pages", at, 4096, 1, 1<<11 | 1},
		{"huge pages", at, 1 << 20, 1, 1 << 21},
		{"huge pages from the middle", at + 4096, 1 << 21, 1, 1 << 21},
	} {
		require.Equal(t, unix.EINVAL, p.regUmem(m.addr, m.length, m.access, pageSizes(m.sizes)).errno, m.why)
	}
	require.Equal(t, free, x.cost)
	require.Empty(t, p.p.memory.extents)
	p.ok(p.regUmem(at, 1<<21, 1, pageSizes(1<<21)))

	p.refit = true
	require.Equal(t, unix.EFAULT, p.regUmem(0x20000000, 64, 1).errno, "memory that cannot be remapped")
	p.refit = false
	plain := newServingWith(t, Config{NoDEVX: true}).rig(t).program()
	require.Equal(t, unix.EPROTONOSUPPORT, plain.regUmem(at, 64, 1).errno, "a context without firmware commands")
}

// Another process of a context has UAR pages of its own, and umems of its own memory. At an address at which
// the first process has a umem it can have none, because the context has one address space.
func TestUmemOfAnotherProcess(t *testing.T) {
	p := newDEVXProgram(t)
	other := *p
	other.rig = p.s.rig(t)
	h, _, _ := other.request(opAdopt, 0, nil, duplicated(p.rig, []*os.File{p.socket})...)
	require.Zero(t, h.error)
	for range 2 * morePages {
		require.GreaterOrEqual(t, le.Uint32(other.ok(other.allocUAR(p.ctx)).bytes[abi.MLX5AttrUARObjAllocPageID]), uint32(uarPages))
	}

	first := p.regUmem(0x10000000, 0x2000, 1)
	second := other.regUmem(0x20000000, 0x2000, 1)
	require.NotSame(t, p.umem(first).extent, p.umem(second).extent)
	require.Equal(t, unix.EINVAL, other.regUmem(0x10001000, 0x2000, 1).errno)
	_, err := p.umem(first).at(0x1000, 0x1000, 4096, "ring")
	require.NoError(t, err)
	other.ok(other.deregUmem(first.value[abi.MLX5AttrDEVXUmemRegHandle]))
	other.ok(other.regUmem(0x10001000, 0x2000, 1))
}

// Memory that the program has mapped in place of a umem's hides the umem from then on.
func TestUmemHidden(t *testing.T) {
	p := newDEVXProgram(t)
	first := p.umem(p.regUmem(0x10000000, 0x4000, 1))
	p.p.memory.extents = nil // as if the program had unmapped it, and mapped something else there
	second := p.umem(p.regUmem(0x10000000, 0x4000, 1))
	require.NotSame(t, first.extent, second.extent)
	_, err := second.at(0, 64, 64, "ring")
	require.NoError(t, err)
	_, err = first.at(0, 64, 64, "ring")
	require.ErrorContains(t, err, "other memory there")
}
