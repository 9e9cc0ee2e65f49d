package verbs

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// regAny makes the ioctl of ibv_reg_mr_ex, with more attributes.
func (p *program) regAny(length, iova uint64, access uint32, more ...arg) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectMR, abi.MethodRegMR, append([]arg{{id: abi.AttrRegMRHandle},
		{id: abi.AttrRegMRPDHandle, data: uint64(p.pd)}, {id: abi.AttrRegMRIOVA, in: u64s(iova)},
		{id: abi.AttrRegMRLength, in: u64s(length)}, word(abi.AttrRegMRAccessFlags, access),
		{id: abi.AttrRegMRRespLKey, out: 4}, {id: abi.AttrRegMRRespRKey, out: 4}}, more...)...)
}

// The method of newer libraries registers memory at an address, or of a dma-buf, like the two older ones.
func TestAnyRegion(t *testing.T) {
	r := newRig(t)
	p := r.program()
	x := p.context()
	const addr = 0x20000
	p.share(addr, 4*pageSize)
	free := x.cost
	at := func(a uint64) arg { return arg{id: abi.AttrRegMRAddr, in: u64s(a)} }
	fd := arg{id: abi.AttrRegMRFD, data: p.memfd(2*pageSize, unix.F_SEAL_SHRINK)}
	offset := arg{id: abi.AttrRegMRFDOffset, in: u64s(100)}

	a := p.ok(p.regAny(pageSize, 0x7f000, abi.AccessLocalWrite, at(addr)))
	require.NotZero(t, le.Uint32(a.bytes[abi.AttrRegMRRespLKey]))
	require.Equal(t, a.bytes[abi.AttrRegMRRespLKey], a.bytes[abi.AttrRegMRRespRKey])
	m := x.objects[uint32(a.value[abi.AttrRegMRHandle])].self.(*mr)
	require.Equal(t, [3]uint64{addr, pageSize, 0x7f000}, [3]uint64{m.addr, m.length, m.iova})
	b := p.ok(p.regAny(5000, 100, abi.AccessLocalWrite, fd, offset))
	require.Len(t, x.dmabufs, 1)
	for _, made := range []answer{a, b} {
		p.ok(p.deregMR(made.value[abi.AttrRegMRHandle]))
	}
	require.Equal(t, free, x.cost)

	for what, more := range map[string][]arg{
		"neither": {}, "both": {at(addr), fd, offset}, "a descriptor without an offset": {fd},
		"an offset without a descriptor": {offset}, "an address with an offset": {at(addr), offset},
	} {
		require.Equal(t, unix.EINVAL, p.regAny(pageSize, addr, 0, more...).errno, what)
	}
	require.Equal(t, unix.EINVAL, p.regAny(pageSize, addr, 1<<15, at(addr)).errno)
	require.Equal(t, unix.EINVAL, p.regAny(pageSize, addr+8, 0, at(addr)).errno, "iova in another place of its page")
	require.Equal(t, unix.EINVAL, p.regAny(5000, 100, abi.AccessOnDemand, fd, offset).errno, "a dma-buf has its pages")
	require.Equal(t, unix.EOPNOTSUPP, p.regAny(pageSize, addr, abi.AccessFlushGlobal, at(addr)).errno)
	require.Equal(t, free, x.cost)
}

// Queue pairs take every flag, and memory none that only other devices have.
func TestFlagsOfFlush(t *testing.T) {
	r := newRig(t)
	p := r.program()
	const addr = 0x20000
	p.share(addr, pageSize)
	for flag, errno := range map[uint32]unix.Errno{
		abi.AccessFlushGlobal: unix.EOPNOTSUPP, abi.AccessFlushPersistent: unix.EOPNOTSUPP, 1 << 10: unix.EINVAL,
	} {
		require.Equal(t, errno, p.regMR(addr, pageSize, addr, p.pd, abi.AccessLocalWrite|flag).errno, "%#x", flag)
	}
	known := uint32(abi.AccessLocalWrite | abi.AccessRemoteRead)
	require.Equal(t, known, grantedAccess(known|abi.AccessFlushGlobal|abi.AccessFlushPersistent|1<<15))
}

func TestPortSpeed(t *testing.T) {
	p := newRig(t).program()
	speed := func(port uint64) answer {
		return p.ioctl(p.ctx, abi.ObjectDevice, abi.MethodQueryPortSpeed, arg{id: abi.AttrQueryPortSpeedPortNum, in: u64s(port)},
			arg{id: abi.AttrQueryPortSpeedResp, out: 8})
	}
	require.EqualValues(t, 1000, le.Uint64(p.ok(speed(1)).bytes[abi.AttrQueryPortSpeedResp]), "100 Gb/s")
	require.Equal(t, unix.EINVAL, speed(2).errno)
}
