package verbs

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A region keeps its memory when only its rights or its PD change, although the program has
// meanwhile mapped and registered other memory at the same address.
func TestReregistrationKeepsMemory(t *testing.T) {
	r := newRig(t)
	p := r.program()
	rereg := func(h uint64, what, access uint32, start, length uint64) answer {
		req := make([]byte, abi.ReregMRSize)
		le.PutUint32(req[abi.ReregMRMRHandle:], uint32(h))
		le.PutUint32(req[abi.ReregMRFlags:], what)
		le.PutUint32(req[abi.ReregMRAccessFlags:], access)
		le.PutUint64(req[abi.ReregMRStart:], start)
		le.PutUint64(req[abi.ReregMRLength:], length)
		le.PutUint64(req[abi.ReregMRHCAVA:], start)
		return p.write(p.ctx, abi.CmdReregMR, req, abi.ReregMRRespSize)
	}
	const addr = 0x20000
	older := p.share(addr, 4*pageSize)
	c := p.ok(p.regMR(addr, pageSize, addr, p.pd, abi.AccessLocalWrite)).bytes[abi.AttrCoreOut]
	h, key := uint64(le.Uint32(c)), le.Uint32(c[4:])
	newer := p.share(addr, 4*pageSize)
	p.ok(p.regMR(addr, pageSize, addr, p.pd, abi.AccessLocalWrite))
	x := p.context()
	m := x.objects[uint32(h)].self.(*mr)
	require.Equal(t, []*extent{older}, m.extents)
	c = p.ok(rereg(h, 4, abi.AccessLocalWrite|abi.AccessRemoteRead, 0, 0)).bytes[abi.AttrCoreOut]
	require.Equal(t, key, le.Uint32(c))
	require.Equal(t, []*extent{older}, m.extents)
	require.Equal(t, 1, x.regions[older].users)
	require.EqualValues(t, abi.AccessLocalWrite|abi.AccessRemoteRead, m.access)
	require.Equal(t, unix.EINVAL, rereg(h, 4, abi.AccessRemoteWrite, 0, 0).errno, "without local write")
	p.ok(rereg(h, 1, 0, addr, pageSize)) // with a range, it is that of the newer memory
	require.Equal(t, []*extent{newer}, m.extents)
	require.NotContains(t, x.regions, older)
	// Memory that stands for a dma-buf is kept too, and goes when a range of the program's takes its place.
	b := p.ok(p.regDMABuf(p.memfd(2*pageSize, unix.F_SEAL_SHRINK), 0, pageSize, 0, abi.AccessLocalWrite)).value[abi.AttrRegDMABufMRHandle]
	mapped := mappings(t)
	p.ok(rereg(b, 4, abi.AccessLocalWrite|abi.AccessRemoteRead, 0, 0))
	require.Equal(t, mapped, mappings(t))
	p.ok(rereg(b, 1, 0, addr, pageSize))
	require.Less(t, mappings(t), mapped)
	p.ok(p.deregMR(b))
	require.Empty(t, x.dmabufs)
	p.ok(p.deregMR(h))
	require.Equal(t, 1, x.regions[newer].users)
}

// Memory of 0 bytes can be registered in the middle of a page, as with the kernel, if the page is there and
// may be accessed so.
func TestRegionOfNoBytes(t *testing.T) {
	p := newRig(t).program()
	mem, err := unix.Mmap(-1, 0, 3*pageSize, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	require.NoError(t, unix.Mprotect(mem[:pageSize], unix.PROT_READ|unix.PROT_WRITE))
	require.NoError(t, unix.Mprotect(mem[2*pageSize:], unix.PROT_NONE))
	at := procmem.VecOf(mem).Addr
	p.p.memory.maps = openMaps(int32(os.Getpid()))
	for _, row := range []struct {
		why    string
		offset uint64
		access uint32
		want   unix.Errno
	}{
		{"the beginning of a page", 0, abi.AccessLocalWrite, unix.EINVAL},
		{"the middle of a page", 16, abi.AccessLocalWrite, 0},
		{"the last byte of a page", pageSize - 1, abi.AccessLocalWrite, 0},
		{"a page that cannot be written", pageSize + 16, abi.AccessLocalWrite, unix.EFAULT},
		{"a page that can be read", pageSize + 16, abi.AccessRemoteRead, 0},
		{"a page that cannot be accessed", 2*pageSize + 16, 0, unix.EFAULT},
	} {
		a := p.regMR(at+row.offset, 0, at+row.offset, p.pd, row.access)
		require.Equal(t, row.want, a.errno, row.why)
		if a.errno == 0 {
			p.ok(p.deregMR(uint64(le.Uint32(a.bytes[abi.AttrCoreOut]))))
		}
	}
}

// Such a region takes no hold of memory of the engine's in which its address is.
func TestRegionOfNoBytesInARing(t *testing.T) {
	p := newRig(t).program()
	p.ok(p.createCQ(7, 0))
	ring := p.at - 2*0x100000 // of that CQ
	e, err := p.p.memory.find(ring, 64)
	require.NoError(t, err)
	require.NotNil(t, e)
	before := e.holders
	p.regMR(ring+16, 0, ring+16, p.pd, 0) // which the engine refuses: this test has no such address
	require.Equal(t, before, e.holders)
}
