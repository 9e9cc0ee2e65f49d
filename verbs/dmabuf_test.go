package verbs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// memfd gives the program a memfd, and returns its number there.
func (p *program) memfd(size int64, seals int) uint64 {
	p.Helper()
	fd, err := unix.MemfdCreate("dma-buf", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(p, err)
	require.NoError(p, unix.Ftruncate(fd, size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(p, err)
	return p.give(os.NewFile(uintptr(fd), "memfd"))
}

// give makes a file a descriptor of the program's.
func (r *rig) give(f *os.File) uint64 {
	r.next++
	r.files[r.next] = f
	return r.next
}

func (p *program) regDMABuf(fd, offset, length, iova uint64, access uint32) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectMR, abi.MethodRegDMABufMR, arg{id: abi.AttrRegDMABufMRHandle}, arg{id: abi.AttrRegDMABufMRPDHandle, data: uint64(p.pd)},
		arg{id: abi.AttrRegDMABufMROffset, in: u64s(offset)}, arg{id: abi.AttrRegDMABufMRLength, in: u64s(length)},
		arg{id: abi.AttrRegDMABufMRIOVA, in: u64s(iova)}, word(abi.AttrRegDMABufMRFD, uint32(fd)), word(abi.AttrRegDMABufMRAccessFlags, access),
		arg{id: abi.AttrRegDMABufMRRespLKey, out: 4}, arg{id: abi.AttrRegDMABufMRRespRKey, out: 4})
}

// Regions of memory that stands for a dma-buf are made and freed, and nothing is left.
func TestDMABuf(t *testing.T) {
	r := newRig(t)
	p := r.program()
	x := p.context()
	free, mapped := x.cost, mappings(t)
	const rights = abi.AccessLocalWrite | abi.AccessRemoteWrite
	fd := p.memfd(8*pageSize, unix.F_SEAL_SHRINK)
	var made []uint64
	for _, m := range [][3]uint64{{0, 8 * pageSize, 0}, {100, 5000, 100}, {8*pageSize - 1, 1, 0x7000fff}, {0, 8 * pageSize, ^uint64(0) &^ (1<<20 - 1)}} {
		c := p.ok(p.regDMABuf(fd, m[0], m[1], m[2], rights|abi.AccessOptionalRange))
		require.Equal(t, c.bytes[abi.AttrRegDMABufMRRespLKey], c.bytes[abi.AttrRegDMABufMRRespRKey])
		made = append(made, c.value[abi.AttrRegDMABufMRHandle])
	}
	require.Len(t, x.regions, 4)
	require.Greater(t, mappings(t), mapped)
	p.ok(p.deregMR(made[1]))
	made[1] = p.ok(p.regDMABuf(fd, 0, 1, 0, 0)).value[abi.AttrRegDMABufMRHandle]
	for _, h := range made {
		p.ok(p.deregMR(h))
	}
	require.Empty(t, x.regions)
	require.Empty(t, x.dmabufs)
	require.Equal(t, free, x.cost)
	require.Equal(t, mapped, mappings(t))
	p.ok(p.regDMABuf(fd, 0, pageSize, 0, rights))
	x.end() // frees the region
	require.Equal(t, mapped, mappings(t))
}

// mappings returns how many mappings of the memfds of this test the server has.
func mappings(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(b), "/memfd:dma-buf (deleted)")
}

// Of a memfd in huge pages any part can be registered, and nothing is left of it afterwards.
func TestDMABufInHugePages(t *testing.T) {
	const file, huge = "/proc/sys/vm/nr_hugepages", 2 << 20
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	if n, err := strconv.Atoi(strings.TrimSpace(string(before))); err != nil || n < 2 {
		if os.WriteFile(file, []byte("2"), 0) != nil {
			t.Skip("no huge pages, and only root can have the kernel make some")
		}
		t.Cleanup(func() { _ = os.WriteFile(file, before, 0) })
	}
	r := newRig(t)
	p := r.program()
	fd, err := unix.MemfdCreate("dma-buf", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, 2*huge))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	require.NoError(t, err)
	memfd := p.give(os.NewFile(uintptr(fd), "memfd"))
	mapped := mappings(t)
	for _, m := range [][3]uint64{{0, 2 * huge, 2 * huge}, {0, 4096, huge}, {4096, 5000, huge}, {huge - 8, 16, 2 * huge}, {2*huge - 8, 8, huge}} {
		h := p.ok(p.regDMABuf(memfd, m[0], m[1], m[0], abi.AccessLocalWrite)).value[abi.AttrRegDMABufMRHandle]
		o := p.context().objects[uint32(h)].self.(*mr)
		require.Equal(t, m[2], o.extents[0].size)
		require.Equal(t, m[0]%huge, o.addr-o.extents[0].addr)
		require.Equal(t, mapped+1, mappings(t))
		p.ok(p.deregMR(h))
		require.Equal(t, mapped, mappings(t))
	}
}

// Memory that cannot be registered is refused with the kernel's errno.
func TestDMABufMistakes(t *testing.T) {
	r := newRig(t)
	p := r.program()
	x := p.context()
	free := x.cost
	const rights = abi.AccessLocalWrite
	good := p.memfd(2*pageSize, unix.F_SEAL_SHRINK)
	null, err := os.Open("/dev/null")
	require.NoError(t, err)
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = writer.Close() })
	readOnly, err := os.Open(filepath.Join("/proc/self/fd", itoa(int(p.files[good].Fd()))))
	require.NoError(t, err)
	for _, m := range []struct {
		why                      string
		fd, offset, length, iova uint64
		access                   uint32
		errno                    unix.Errno
	}{
		{"a probe for GPUs", ^uint64(0), 0, 0, 0, 0, unix.EOPNOTSUPP},
		{"no descriptor", 99, 0, pageSize, 0, rights, unix.EBADF},
		{"another negative number", ^uint64(1), 0, pageSize, 0, rights, unix.EBADF},
		{"not the same offset in the page", good, 0, pageSize, 8, rights, unix.EINVAL},
		{"0 bytes", good, 0, 0, 0, rights, unix.EINVAL},
		{"behind the end", good, 0, 2*pageSize + 1, 0, rights, unix.EINVAL},
		{"an offset behind the end", good, 3 * pageSize, 1, 0, rights, unix.EINVAL},
		{"2^64 - 1 bytes", good, 1, ^uint64(0), 1, rights, unix.EINVAL},
		{"an offset of 2^64 - 1", good, ^uint64(0), 1, ^uint64(0), rights, unix.EINVAL},
		{"an iova that wraps", good, 0, 2 * pageSize, ^uint64(0) &^ (pageSize - 1), rights, unix.EINVAL},
		{"unknown rights", good, 0, pageSize, 0, 1 << 15, unix.EINVAL},
		{"paged on demand", good, 0, pageSize, 0, abi.AccessOnDemand, unix.EINVAL},
		{"zero-based", good, 0, pageSize, 0, rights | abi.AccessZeroBased, unix.EINVAL},
		{"remote write without local write", good, 0, pageSize, 0, abi.AccessRemoteWrite, unix.EINVAL},
		{"a memfd that can shrink", p.memfd(2*pageSize, 0), 0, pageSize, 0, rights, unix.EINVAL},
		{"a memfd sealed against writing", p.memfd(2*pageSize, unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE), 0, pageSize, 0, rights, unix.EINVAL},
		{"a memfd sealed against writing from now on", p.memfd(2*pageSize, unix.F_SEAL_SHRINK|unix.F_SEAL_FUTURE_WRITE), 0, pageSize, 0, rights, unix.EINVAL},
		{"half a page", p.memfd(pageSize/2, unix.F_SEAL_SHRINK), 0, 1, 0, rights, unix.EINVAL},
		{"opened for reading", p.give(readOnly), 0, pageSize, 0, rights, unix.EOPNOTSUPP},
		{"a device", p.give(null), 0, pageSize, 0, rights, unix.EINVAL},
		{"a file", p.give(file), 0, pageSize, 0, rights, unix.EINVAL},
		{"a pipe", p.give(reader), 0, pageSize, 0, rights, unix.EINVAL},
		{"the context", p.give(x.socket), 0, pageSize, 0, rights, unix.EINVAL},
	} {
		require.Equal(t, m.errno, p.regDMABuf(m.fd, m.offset, m.length, m.iova, m.access).errno, m.why)
	}
	delete(p.files, p.next) // it is the server's
	require.Empty(t, x.regions)
	require.Empty(t, x.dmabufs)
	require.Equal(t, free, x.cost)
}

// The device maps no memory of other users' programs: they could remove pages under its hands.
func TestDMABufOfAnotherUser(t *testing.T) {
	s := newServing(t)
	f := os.NewFile(0, "not used")
	_, err := s.engine.MapMemory(uint32(os.Getuid())+1, f, 0, pageSize)
	require.ErrorContains(t, err, "maps only memory of that user")
	require.Equal(t, unix.EOPNOTSUPP, refusalOf(err).errno)

	// Nor when such a program has been given a context of another user.
	a, b := s.rig(t), s.rig(t)
	b.p.uid++
	b.p.memory.uid++
	p := a.program()
	h, _, _ := b.request(opAdopt, 0, nil, duplicated(a, []*os.File{p.socket})...)
	require.Zero(t, h.error)
	p.rig = b
	require.Equal(t, unix.EOPNOTSUPP, p.regDMABuf(p.memfd(pageSize, unix.F_SEAL_SHRINK), 0, pageSize, 0, 0).errno)
}

// A program learns by descriptor -1 whether memory of its GPU can be registered: if the GPU is emulated.
func TestDMABufOfEmulatedGPU(t *testing.T) {
	r := newRig(t)
	p := r.program()
	r.p.memory.maps = openMaps(int32(os.Getpid()))
	require.Equal(t, unix.EOPNOTSUPP, p.regDMABuf(noFile, 0, pageSize, 0, 0).errno)
	f, err := os.Create(filepath.Join(t.TempDir(), emulatedGPU))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, f.Truncate(pageSize))
	b, err := unix.Mmap(int(f.Fd()), 0, pageSize, unix.PROT_READ, unix.MAP_PRIVATE)
	require.NoError(t, err)
	require.Equal(t, unix.EBADF, p.regDMABuf(noFile, 0, pageSize, 0, 0).errno)
	require.NoError(t, unix.Munmap(b))
	require.Equal(t, unix.EOPNOTSUPP, p.regDMABuf(noFile, 0, pageSize, 0, 0).errno)
}
