package verbs

import (
	"math"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Memory on demand can be registered before anything is mapped there, also as the whole address
// space. Advice about it is checked as the kernel does.
func TestMemoryOnDemand(t *testing.T) {
	p := newRig(t).program()
	const rights = abi.AccessLocalWrite | abi.AccessOnDemand
	reg := func(start, n, iova uint64, access uint32) (key uint32) {
		return le.Uint32(p.ok(p.regMR(start, n, iova, p.pd, access)).bytes[abi.AttrCoreOut][4:])
	}
	whole := reg(0, math.MaxUint64, 0, rights)
	part := reg(0x5000000, 0x2000, 0x5000000, rights)
	constant := reg(0x5000000, 0x2000, 0x5000000, abi.AccessOnDemand)
	require.Equal(t, unix.EINVAL, p.regMR(0, math.MaxUint64, 0, p.pd, abi.AccessLocalWrite).errno, "not on demand")
	require.Equal(t, unix.EINVAL, p.regMR(0, math.MaxUint64, 0x1000, p.pd, rights).errno, "another iova")

	advise := func(advice uint64, flags uint32, addr uint64, n, key uint32) unix.Errno {
		b := le.AppendUint32(le.AppendUint32(le.AppendUint64(nil, addr), n), key)
		return p.ioctl(p.ctx, abi.ObjectMR, abi.MethodAdviseMR,
			arg{id: abi.AttrAdviseMRPDHandle, data: uint64(p.pd)}, number(abi.AttrAdviseMRAdvice, advice),
			word(abi.AttrAdviseMRFlags, flags), arg{id: abi.AttrAdviseMRSGEList, in: b}).errno
	}
	require.Zero(t, advise(abi.AdvicePrefetch, 0, 0x5000000, 0x1000, whole))
	require.Zero(t, advise(abi.AdvicePrefetchWrite, abi.AdviceFlush, 0x5000000, 0x2000, part))
	require.Equal(t, unix.EPERM, advise(abi.AdvicePrefetchWrite, 0, 0x5000000, 1, constant))
	require.Equal(t, unix.EFAULT, advise(abi.AdvicePrefetch, 0, 0x5001000, 0x1001, part), "more than the region has")
	require.Equal(t, unix.EFAULT, advise(abi.AdvicePrefetch, 0, 0x4fff000, 1, part), "before the region")
	require.Equal(t, unix.ENOENT, advise(abi.AdvicePrefetch, 0, 0x5000000, 1, part+0x100000))
	require.Equal(t, unix.EOPNOTSUPP, advise(3, 0, 0x5000000, 1, part))
	require.Equal(t, unix.EINVAL, advise(abi.AdvicePrefetch, 2, 0x5000000, 1, part))
}
