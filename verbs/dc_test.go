package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func (p *program) createSRQ() uint64 {
	p.Helper()
	d := make([]byte, abi.MLX5CreateSRQSize)
	le.PutUint64(d[abi.MLX5CreateSRQBufAddr:], p.ring(1<<20))
	le.PutUint64(d[abi.MLX5CreateSRQDBAddr:], p.ring(pageSize))
	args := append(createSRQArgs(uint64(p.pd), d), arg{id: abi.AttrCreateSRQEventFD, data: p.async, optional: true})
	return p.ok(p.ioctl(p.ctx, abi.ObjectSRQ, abi.MethodSRQCreate, args...)).value[abi.AttrCreateSRQHandle]
}

const testKey = 0x1122334455667788

// createDCT makes a DCT as libmlx5 does (create_dct in verbs.c). Without an SRQ, srq is 0.
func (p *program) createDCT(cq, srq uint64, flags uint32) answer {
	p.Helper()
	d := createQPDriver(0, 0, 0, 0, 0, flags, 0)
	le.PutUint64(d[abi.MLX5CreateQPAccessKey:], testKey)
	le.PutUint32(d[abi.MLX5CreateQPUIDX:], 5)
	more := []arg{{id: abi.AttrCreateQPEventFD, data: p.async, optional: true}, {id: abi.AttrUHWOut, out: abi.MLX5CreateQPRespSize}}
	if srq != 0 {
		more = append(more, arg{id: abi.AttrCreateQPSRQHandle, data: srq})
	}
	return p.createQPWith(abi.QPTDriver, cq, []uint32{0, 0, 0, 0, 0}, d, more...)
}

// createDCI makes a DCI; errored is the logarithm of how many of 2^3 streams may fail, or -1 without
// streams.
func (p *program) createDCI(cq uint64, errored int, more ...arg) answer {
	p.Helper()
	d := createQPDriver(p.ring(1<<20), p.ring(pageSize), 16, 0, 0, abi.MLX5QPFlagUARPageIndex|abi.MLX5QPFlagTypeDCI, p.uar)
	if errored >= 0 {
		le.PutUint32(d[abi.MLX5CreateQPFlags:], abi.MLX5QPFlagUARPageIndex|abi.MLX5QPFlagTypeDCI|abi.MLX5QPFlagDCIStream)
		d[abi.MLX5CreateQPStreams], d[abi.MLX5CreateQPErrored] = 3, byte(errored)
	}
	more = append([]arg{{id: abi.AttrCreateQPEventFD, data: p.async, optional: true}, {id: abi.AttrUHWOut, out: abi.MLX5CreateQPRespSize}}, more...)
	return p.createQPWith(abi.QPTDriver, cq, []uint32{4, 0, 1, 0, 0}, d, more...)
}

// A change is a request to modify a queue pair: a state, a mask, and the values that libmlx5 sends
// with every transition.
func change(qp uint64, state uint8, mask uint32) []byte {
	b := make([]byte, abi.ExModifyQPSize)
	le.PutUint32(b[abi.ModifyQPQPHandle:], uint32(qp))
	le.PutUint32(b[abi.ModifyQPAttrMask:], mask)
	le.PutUint32(b[abi.ModifyQPQPAccessFlags:], abi.AccessRemoteWrite)
	b[abi.ModifyQPQPState], b[abi.ModifyQPPathMTU], b[abi.ModifyQPMinRNRTimer], b[abi.ModifyQPPortNum] = state, abi.MTU4096, 12, 1
	b[abi.ModifyQPTimeout], b[abi.ModifyQPRetryCnt], b[abi.ModifyQPRNRRetry], b[abi.ModifyQPMaxRdAtomic] = 14, 7, 7, 1
	b[abi.ModifyQPDest+abi.QPDestIsGlobal], b[abi.ModifyQPDest+abi.QPDestPortNum] = 1, 1
	return b
}

func (p *program) exModify(req []byte, room int) answer {
	p.Helper()
	return p.write(p.ctx, extended|abi.ExCmdModifyQP, req, abi.ExModifyQPRespSize, arg{id: abi.AttrUHWOut, out: room})
}

// A DCT gets its number when it goes to RTR, which is its last state. Calls that the kernel's driver refuses
// before, at that point and after are refused.
func TestDCT(t *testing.T) {
	p := newRig(t).program()
	cq, srq := p.ok(p.createCQ(16, 0)).value[abi.AttrCreateCQHandle], p.createSRQ()
	require.Equal(t, unix.EINVAL, p.createDCT(cq, 0, abi.MLX5QPFlagTypeDCT).errno, "without an SRQ")
	require.Equal(t, unix.EINVAL, p.createDCT(cq, srq, abi.MLX5QPFlagTypeDCT|abi.MLX5QPFlagTypeDCI).errno, "of both types")
	require.Equal(t, unix.EINVAL, p.createDCT(cq, srq, 0).errno, "of neither type")
	require.Equal(t, unix.EINVAL, p.createDCT(cq, srq, abi.MLX5QPFlagTypeDCT|abi.MLX5QPFlagSignature).errno, "with a flag that it does not have")
	a := p.ok(p.createDCT(cq, srq, abi.MLX5QPFlagTypeDCT))
	h := a.value[abi.AttrCreateQPHandle]
	require.Zero(t, le.Uint32(a.bytes[abi.AttrCreateQPRespQPNum]), "there is no number yet")
	require.Equal(t, unix.EBUSY, p.destroyCQ(cq).errno)

	query := func(mask uint32) answer {
		req := queryQPRequest(uint32(h))
		le.PutUint32(req[abi.QueryQPAttrMask:], mask)
		return p.write(p.ctx, abi.CmdQueryQP, req, abi.QueryQPRespSize)
	}
	refused := func(why string, state uint8, mask uint32) {
		t.Helper()
		require.Equal(t, unix.EINVAL, p.exModify(change(h, state, mask), abi.MLX5ModifyQPRespSize).errno, why)
	}
	require.Equal(t, unix.EINVAL, query(control.AttrState).errno, "before RTR")
	refused("to RTR at once", abi.QPSRTR, dctRTR)
	refused("without access flags", abi.QPSInit, dctInit&^control.AttrAccess)
	refused("with a Q_Key", abi.QPSInit, dctInit|control.AttrQKey)
	refused("no state", abi.QPSInit, dctInit&^control.AttrState)
	init := p.ok(p.exModify(change(h, abi.QPSInit, dctInit), abi.MLX5ModifyQPRespSize))
	require.Equal(t, u32s(abi.MLX5ModifyQPRespSize, 0), init.bytes[abi.AttrUHWOut][:8])
	refused("to INIT again", abi.QPSInit, dctInit)
	refused("to RTR without an address", abi.QPSRTR, dctRTR&^control.AttrAV)
	require.Equal(t, unix.EINVAL, p.exModify(change(h, abi.QPSRTR, dctRTR), 4).errno, "no room for the number")
	require.Equal(t, unix.EINVAL, p.write(p.ctx, abi.CmdModifyQP, change(h, abi.QPSRTR, dctRTR)[:abi.ModifyQPSize], 0).errno, "no answer")
	nowhere := change(h, abi.QPSRTR, dctRTR)
	nowhere[abi.ModifyQPDest+abi.QPDestSGIDIndex] = 200
	require.Equal(t, unix.EINVAL, p.exModify(nowhere, abi.MLX5ModifyQPRespSize).errno, "an empty entry of the GID table")
	up := p.ok(p.exModify(change(h, abi.QPSRTR, dctRTR), abi.MLX5ModifyQPRespSize))
	number := le.Uint32(up.bytes[abi.AttrUHWOut][abi.MLX5ModifyQPRespDCTN:])
	require.True(t, number > 0 && number < 1<<24, "%#x", number)
	for _, state := range []uint8{abi.QPSReset, abi.QPSRTS, abi.QPSErr, abi.QPSSQD} {
		refused("on from RTR", state, control.AttrState)
	}
	got := p.ok(query(control.AttrState | control.AttrMinRNRTimer)).bytes[abi.AttrCoreOut]
	require.Equal(t, byte(abi.QPSRTR), got[abi.QueryQPRespQPState])
	require.Equal(t, byte(12), got[abi.QueryQPRespMinRNRTimer])
	require.Equal(t, unix.EINVAL, query(control.AttrState|control.AttrQKey).errno, "what a DCT does not have")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, streamCommand(number, 1)), "it has no streams")
	p.ok(p.destroyQP(h))
	p.ok(p.destroyCQ(cq))
}

// streamCommand is RTS2RTS_QP as mlx5dv_dci_stream_id_reset sends it.
func streamCommand(qpn uint32, stream uint16) []byte {
	cmd := make([]byte, 464)
	binary.BigEndian.PutUint16(cmd, devx.OpRTS2RTS)
	binary.BigEndian.PutUint32(cmd[8:], 1<<31|qpn)
	binary.BigEndian.PutUint64(cmd[0x108:], 1)
	binary.BigEndian.PutUint16(cmd[0x112:], stream)
	return cmd
}

// A DCI has the transitions of the kernel's driver, and streams that can be reset when they have
// failed.
func TestDCI(t *testing.T) {
	r := newRig(t)
	p, other := r.program(), r.program()
	cq, srq := p.ok(p.createCQ(16, 0)).value[abi.AttrCreateCQHandle], p.createSRQ()
	require.Equal(t, unix.EINVAL, p.createDCI(cq, control.MaxLogErrored+1).errno, "too many streams")
	a := p.ok(p.createDCI(cq, 2, arg{id: abi.AttrCreateQPSRQHandle, data: srq})) // as pyverbs does
	h, number := a.value[abi.AttrCreateQPHandle], le.Uint32(a.bytes[abi.AttrCreateQPRespQPNum])
	require.Equal(t, unix.EBUSY, p.ioctl(p.ctx, abi.ObjectSRQ, abi.MethodSRQDestroy, arg{id: abi.AttrDestroySRQHandle, data: srq},
		arg{id: abi.AttrDestroySRQResp, out: abi.DestroySRQRespSize}).errno)
	modify := func(state uint8, mask uint32) unix.Errno {
		t.Helper()
		return p.exModify(change(h, state, mask|control.AttrState), abi.MLX5ModifyQPRespSize).errno
	}
	const rts = control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry | control.AttrMaxRdAtomic | control.AttrSQPSN
	require.Equal(t, unix.EINVAL, modify(abi.QPSInit, dctInit), "a DCI grants no access")
	require.Equal(t, unix.EINVAL, modify(abi.QPSInit, control.AttrPKeyIndex|control.AttrPort|control.AttrAV), "with an address")
	require.Zero(t, modify(abi.QPSInit, control.AttrPKeyIndex|control.AttrPort))
	require.Equal(t, unix.EINVAL, modify(abi.QPSRTR, 0), "without an MTU")
	require.Zero(t, modify(abi.QPSRTR, control.AttrPathMTU|control.AttrAV|control.AttrPKeyIndex))
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, streamCommand(number, 1)), "not in RTS")
	require.Equal(t, unix.EINVAL, modify(abi.QPSRTS, rts&^control.AttrSQPSN))
	require.Zero(t, modify(abi.QPSRTS, rts))
	require.Zero(t, modify(abi.QPSRTS, control.AttrMinRNRTimer))
	require.Equal(t, unix.EINVAL, modify(abi.QPSSQD, 0))

	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, streamCommand(number, 1)), "no stream has failed")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, streamCommand(number, 1)[:devx.QPErroredStream.End()-1]), "too short")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, streamCommand(number+1, 1)), "the number of another queue pair")
	more := streamCommand(number, 1)
	more[0x10f] = 3
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, more), "one more attribute")
	require.Equal(t, unix.ENOENT, other.modifyFirmwareObject(h, streamCommand(number, 1)), "of another context")
	require.Zero(t, modify(abi.QPSErr, 0))
	require.Zero(t, modify(abi.QPSReset, 0))
	p.ok(p.destroyQP(h))
}

// An address can be mapped to a queue pair, which is charged and ends with the context.
func TestMappedAddress(t *testing.T) {
	p := newRig(t).program()
	x := p.context()
	before := x.cost
	cmd := make([]byte, 96)
	binary.BigEndian.PutUint16(cmd, devx.OpCreateGeneralObject)
	binary.BigEndian.PutUint16(cmd[6:], 0x3a)
	binary.BigEndian.PutUint32(cmd[0x1c:], 0x123456)
	a := p.ok(p.createMkey(cmd))
	require.Greater(t, x.cost.Memory, before.Memory)
	require.Equal(t, unix.EINVAL, p.createMkey(cmd[:0x1f]).errno, "too short")
	cmd[0x1c] = 1
	require.Equal(t, unix.EINVAL, p.createMkey(cmd).errno, "a number of 25 bits")
	p.ok(p.destroyFirmwareObject(a.value[abi.MLX5AttrDEVXObjCreateHandle]))
	require.Equal(t, before, x.cost)
}
