package verbs

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func (p *program) allocDM(length uint64, align uint32) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectDM, abi.MethodDMAlloc, arg{id: abi.AttrAllocDMHandle}, arg{id: abi.AttrAllocDMLength, in: u64s(length)},
		word(abi.AttrAllocDMAlignment, align), arg{id: abi.MLX5AttrAllocDMRespStartOffset, out: 8}, arg{id: abi.MLX5AttrAllocDMRespPageIndex, out: 2})
}

func (p *program) freeDM(h uint64) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectDM, abi.MethodDMFree, arg{id: abi.AttrFreeDMHandle, data: h})
}

func (p *program) regDM(h, offset, length uint64, access uint32) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectMR, abi.MethodDMMRReg, arg{id: abi.AttrRegDMMRHandle}, arg{id: abi.AttrRegDMMROffset, in: u64s(offset)},
		arg{id: abi.AttrRegDMMRLength, in: u64s(length)}, arg{id: abi.AttrRegDMMRPDHandle, data: uint64(p.pd)},
		word(abi.AttrRegDMMRAccessFlags, access), arg{id: abi.AttrRegDMMRDMHandle, data: h},
		arg{id: abi.AttrRegDMMRRespLKey, out: 4}, arg{id: abi.AttrRegDMMRRespRKey, out: 4})
}

// dmOffset is the offset at which libmlx5 maps device memory.
func dmOffset(index uint64) uint64 { return (abi.MLX5MmapDeviceMem<<8 | index) << pageShift }

// Device memory can be registered once the program has mapped and sealed it, and is freed with
// the last object that needs it, or with its context.
func TestDeviceMemory(t *testing.T) {
	r := newRig(t)
	p := r.program()
	free := p.context().cost
	const zeroBased = abi.AccessZeroBased | abi.AccessLocalWrite
	c := p.ok(p.allocDM(5000, 6))
	h := c.value[abi.AttrAllocDMHandle]
	require.Equal(t, []byte{0, 0}, c.bytes[abi.MLX5AttrAllocDMRespPageIndex])
	require.Equal(t, unix.EFAULT, p.regDM(h, 0, 64, zeroBased).errno, "not mapped")

	at := func(offset, length uint64) (uint64, unix.Errno, int) {
		m, body, files := r.request(opMmap, p.ctx, u64s(0x7000000, length, offset, 3))
		defer func() { _ = closeFiles(files...) }()
		for _, f := range files {
			r.seal(f)
		}
		if m.error != 0 {
			return 0, unix.Errno(m.error), 0
		}
		return le.Uint64(body), 0, len(files)
	}
	for why, m := range map[string][2]uint64{
		"too long": {dmOffset(0), 3 * pageSize}, "too short": {dmOffset(0), pageSize}, "another": {dmOffset(1), 2 * pageSize}, "the last": {dmOffset(255), 2 * pageSize},
	} {
		_, errno, _ := at(m[0], m[1])
		require.Equal(t, unix.EINVAL, errno, why)
	}
	offset, errno, files := at(dmOffset(0), 2*pageSize)
	require.Zero(t, errno)
	require.Equal(t, []any{uint64(0), 1}, []any{offset, files}, "the first mapping brings the memory")
	offset, errno, files = at(dmOffset(0), 2*pageSize)
	require.Zero(t, errno)
	require.Equal(t, []any{uint64(0x7000000), 0}, []any{offset, files}, "the second is a copy of the first")

	key := p.ok(p.regDM(h, 904, 4096, zeroBased))
	require.Equal(t, key.bytes[abi.AttrRegDMMRRespLKey], key.bytes[abi.AttrRegDMMRRespRKey])
	require.Equal(t, unix.EINVAL, p.regDM(h, 905, 4096, zeroBased).errno, "behind the end")
	require.Equal(t, unix.EINVAL, p.regDM(h, ^uint64(0), 2, zeroBased).errno)
	require.Equal(t, unix.EINVAL, p.regDM(h, 0, 64, abi.AccessLocalWrite).errno, "not zero-based")
	require.Equal(t, unix.EINVAL, p.regDM(h, 0, 64, abi.AccessZeroBased|abi.AccessRemoteWrite).errno, "without local write")
	require.Equal(t, unix.EINVAL, p.regDM(uint64(p.pd), 0, 64, zeroBased).errno, "a PD")
	require.Equal(t, unix.EBUSY, p.freeDM(h).errno)
	req := make([]byte, abi.ReregMRSize)
	le.PutUint32(req[abi.ReregMRMRHandle:], uint32(key.value[abi.AttrRegDMMRHandle]))
	le.PutUint32(req[abi.ReregMRFlags:], 4)
	require.Equal(t, unix.EINVAL, p.write(p.ctx, abi.CmdReregMR, req, abi.ReregMRRespSize).errno, "registered again")
	empty := p.ok(p.regDM(h, 5000, 0, zeroBased)).value[abi.AttrRegDMMRHandle]
	p.ok(p.deregMR(empty))
	p.ok(p.deregMR(key.value[abi.AttrRegDMMRHandle]))
	p.ok(p.freeDM(h))
	require.Equal(t, unix.ENOENT, p.freeDM(h).errno)
	require.Equal(t, free, p.context().cost)

	for why, c := range map[string]answer{
		"0 bytes": p.allocDM(0, 0), "too many": p.allocDM(maxDM+1, 0), "2^64-1": p.allocDM(^uint64(0), 0), "alignment": p.allocDM(64, 13), "alignment 2^31": p.allocDM(64, 31),
	} {
		require.Equal(t, unix.EINVAL, c.errno, why)
	}
	for range maxDMs {
		p.ok(p.allocDM(1, 0))
	}
	require.Equal(t, unix.ENOMEM, p.allocDM(1, 0).errno)
	p.context().end()
}
