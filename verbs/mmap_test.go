package verbs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func (r *rig) mmap(ctx, addr, length, offset uint64) (*shm.Region, uint64, unix.Errno) {
	r.Helper()
	h, body, files := r.request(opMmap, ctx, u64s(addr, length, offset, 3))
	if h.error != 0 {
		require.Empty(r, files)
		return nil, 0, unix.Errno(h.error)
	}
	require.Len(r, files, 1)
	r.seal(files[0])
	m, err := shm.AttachReadOnly(files[0])
	require.NoError(r, err)
	r.Cleanup(func() { _ = m.Close() })
	return m, le.Uint64(body), 0
}

func TestMmap(t *testing.T) {
	p := newRig(t).program()
	for _, bad := range []struct{ length, offset uint64 }{
		{4096, 0}, {4096, 0x500000}, {8192, 0x700000}, {4096, uarOffset + 4096}, {8192, uarOffset}, {4096, uarOffset + uarPages*4096},
		{4096, ^uint64(0xfff)}, {100, 0x10c000}, {0, 0x10c000}, {1 << 40, 0x10c000}, {4096, 1},
	} {
		_, _, errno := p.mmap(p.ctx, 0x1000, bad.length, bad.offset)
		require.NotZero(t, errno, "%#x at %#x", bad.length, bad.offset)
	}
	h, body, files := p.request(opMmap, p.ctx, u64s(0x1000, pageSize, uarOffset, 3))
	require.Zero(t, h.error)
	require.Empty(t, files, "all of them are mapped")
	require.Equal(t, u64s(0, uarPages*pageSize, 0, 0), body)

	// A ring that is shared from the start is used without remapping, and freed with its queue.
	at := p.at
	m, _, errno := p.mmap(p.ctx, at, 1<<20, 0x114000)
	require.Zero(t, errno)
	require.Equal(t, 1<<20, m.Size())
	c := p.ok(p.createCQ(15, 0))
	require.Equal(t, 1, c.again, "for the doorbell record")
	require.Len(t, p.p.memory.extents, 2)
	require.Equal(t, 1, p.p.memory.extents[0].holders)
	p.ok(p.destroyCQ(c.value[0]))
	require.Empty(t, p.p.memory.extents)

	// A ring that never gets a queue is freed when another ring is mapped at its address. The
	// number of rings without a queue is limited.
	for range 3 {
		_, _, errno = p.mmap(p.ctx, 0x5000000, 4096, 0x10c000)
		require.Zero(t, errno)
		require.Len(t, p.p.memory.extents, 1)
	}
	for i := range uint64(maxWaiting + 10) {
		_, _, errno = p.mmap(p.ctx, 0x6000000+i*4096, 4096, 0x10c000)
		require.Zero(t, errno)
	}
	require.LessOrEqual(t, len(p.p.memory.extents), maxWaiting)
}

func TestAllocatedMemory(t *testing.T) {
	p := newRig(t).program()
	e := p.share(0x7000000, 0x2000)
	free := func(addr, n uint64) int32 {
		h, _, _ := p.request(opFree, 0, u64s(addr, n, 0, 0))
		return h.error
	}
	require.NotZero(t, free(0x7000000, 0x1000))
	key := p.ok(p.regMR(0x7000000, 0x2000, 0x7000000, p.pd, abi.AccessLocalWrite))
	require.Zero(t, free(0x7000000, 0x2000))
	require.NotZero(t, free(0x7000000, 0x2000), "only once")
	require.Contains(t, p.p.memory.extents, e, "a key is of it")
	p.ok(p.deregMR(uint64(le.Uint32(key.bytes[abi.AttrCoreOut]))))
	require.Empty(t, p.p.memory.extents)
}

// The clock page converts a time stamp to real time.
func TestClockInformation(t *testing.T) {
	p := newRig(t).program()
	m, _, errno := p.mmap(p.ctx, 0x1000, 4096, 0x700000)
	require.Zero(t, errno)
	b := m.Bytes()
	before := time.Now()
	stamp := clock.Now()
	after := time.Now()
	require.Zero(t, le.Uint32(b[abi.MLX5ClockInfoSign:])&1)
	nanos := le.Uint64(b[abi.MLX5ClockInfoNsec:]) + (stamp-le.Uint64(b[abi.MLX5ClockInfoCycles:]))*uint64(le.Uint32(b[abi.MLX5ClockInfoMult:]))>>le.Uint32(b[abi.MLX5ClockInfoShift:])
	const allowed = uint64(time.Millisecond)
	require.Greater(t, nanos, uint64(before.UnixNano())-allowed)
	require.Less(t, nanos, uint64(after.UnixNano())+allowed)
}

// If a program is asked again and again to remap memory and never does, only the memory for
// the last request is kept.
func TestMemoryAskedForTwice(t *testing.T) {
	p := newRig(t).program()
	lent := func() (n int) {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, f := range all {
			if name, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasPrefix(name, "/memfd:nicless:verbs-remap") {
				n++
			}
		}
		return n
	}
	args := createCQArgs(15, createCQDriver(0x5000000, 0x6000000, p.uar))
	body := append(u64s(0), u32s(1, uint32(abi.IoctlHdrSize+abi.AttrSize*len(args)))...)
	body = append(body, ioctlBytes(abi.ObjectCQ, abi.MethodCQCreate, args...)...)
	body = append(body, make([]byte, resultSize)...) // a result that belongs to no need
	for range 3 {
		h, _, give := p.request(opIoctl, p.ctx, body)
		require.Equal(t, uint16(flagAgain), h.flags&flagAgain)
		_ = closeFiles(give...)
		await.Until(t, "only the ring and the record are lent", func() bool { return lent() == 2 })
	}
}

// A CQ of a libmlx5 that sends no uar_page_index has the context's first page.
func TestCQWithoutUARPage(t *testing.T) {
	p := newRig(t).program()
	for _, size := range []int{createCQMin, abi.MLX5CreateCQSize} {
		d := createCQDriver(p.ring(1<<20), p.ring(pageSize), 0)
		le.PutUint16(d[abi.MLX5CreateCQFlags:], 0)
		p.ok(p.ioctl(p.ctx, abi.ObjectCQ, abi.MethodCQCreate, append(createCQArgs(15, d[:size]),
			arg{id: abi.AttrCreateCQEventFD, data: p.async, optional: true})...))
	}
}
