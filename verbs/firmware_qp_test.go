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

func (p *program) modifyFirmwareObject(h uint64, cmd []byte) unix.Errno {
	p.Helper()
	return p.ioctl(p.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjModify, arg{id: abi.MLX5AttrDEVXObjModifyHandle, data: h},
		arg{id: abi.MLX5AttrDEVXObjModifyCmdIn, in: cmd}, arg{id: abi.MLX5AttrDEVXObjModifyCmdOut, out: devx.HeadSize}).errno
}

// portCommand is RTS2RTS_QP as mlx5dv_modify_qp_udp_sport sends it.
func portCommand(qpn uint32) []byte {
	cmd := make([]byte, 464)
	binary.BigEndian.PutUint16(cmd, devx.OpRTS2RTS)
	binary.BigEndian.PutUint32(cmd[8:], qpn)
	binary.BigEndian.PutUint32(cmd[0x50:], 55555)
	binary.BigEndian.PutUint64(cmd[0x108:], 4)
	return cmd
}

// The UDP source port of a queue pair can be set when the queue pair is ready to send.
func TestUDPSourcePort(t *testing.T) {
	p := newRig(t).program()
	cq := p.ok(p.createCQ(16, 0)).value[abi.AttrCreateCQHandle]
	make := func(qpType uint64) (uint64, uint32) {
		a := p.ok(p.createQP(qpType, cq))
		return a.value[abi.AttrCreateQPHandle], le.Uint32(a.bytes[abi.AttrCreateQPRespQPNum])
	}
	h, qpn := make(abi.QPTUC)
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, portCommand(qpn)), "in RESET")
	x := p.context()
	for _, a := range []*control.QPAttr{
		{State: control.StateINIT, Mask: control.AttrState | control.AttrPKeyIndex | control.AttrPort | control.AttrAccess, Port: 1},
		{State: control.StateRTR, Mask: control.AttrState | control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN, PathMTU: 3, DestQPN: qpn, GUID: p.s.engine.GUID()},
		{State: control.StateRTS, Mask: control.AttrState | control.AttrSQPSN},
	} {
		a.QPN = qpn
		x.mu.Lock()
		err := x.command(control.OpModifyQP, a)
		x.mu.Unlock()
		require.NoError(t, err)
	}
	require.Zero(t, p.modifyFirmwareObject(h, portCommand(qpn)))
	require.Zero(t, p.modifyFirmwareObject(h, portCommand(qpn)[:0x110]))
	set := func(at int, v byte) []byte {
		cmd := portCommand(qpn)
		cmd[at] = v
		return cmd
	}
	datagram, datagramQPN := make(abi.QPTUD)
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(datagram, portCommand(datagramQPN)), "UD")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(datagram, portCommand(qpn)), "the number of another queue pair")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(cq, portCommand(qpn)), "a CQ")
	require.Equal(t, unix.ENOENT, p.modifyFirmwareObject(0xffff, portCommand(qpn)), "nothing")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, portCommand(qpn)[:0x10f]), "too short")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, set(1, 0x03)), "another command")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, set(0x13, 1)), "another attribute")
	require.Equal(t, unix.EINVAL, p.modifyFirmwareObject(h, set(0x10f, 6)), "one more attribute")
}

// reserveCommand is CREATE_GENERAL_OBJECT as mlx5dv_reserved_qpn_alloc sends it.
func reserveCommand(kind uint16, log byte) []byte {
	cmd := make([]byte, 32)
	binary.BigEndian.PutUint16(cmd, devx.OpCreateGeneralObject)
	binary.BigEndian.PutUint16(cmd[6:], kind)
	cmd[12] = log // the header's log_obj_range: bits 0x63 to 0x67
	return cmd
}

// A reserved number is no other queue pair's, until it is given back. Everything about it is
// charged, and ends with the context.
func TestReservedNumbers(t *testing.T) {
	p := newRig(t).program()
	x := p.context()
	before := x.cost
	seen := map[uint32]bool{}
	var last uint64
	for range 8 {
		a := p.ok(p.createMkey(reserveCommand(devx.ObjectQPN, 0)))
		qpn := binary.BigEndian.Uint32(a.bytes[abi.MLX5AttrDEVXObjCreateCmdOut][8:])
		require.False(t, seen[qpn])
		require.True(t, qpn >= 16 && qpn < 1<<24)
		seen[qpn], last = true, a.value[abi.MLX5AttrDEVXObjCreateHandle]
	}
	require.Greater(t, x.cost.Memory, before.Memory)
	p.ok(p.destroyFirmwareObject(last))
	require.Equal(t, unix.ENOENT, p.destroyFirmwareObject(last).errno)
	require.Equal(t, unix.EINVAL, p.createMkey(reserveCommand(devx.ObjectQPN, 1)).errno, "two at once")
	require.Equal(t, unix.EINVAL, p.createMkey(reserveCommand(0x13, 0)).errno, "another object")
	refused := 0
	for range 4 * int(x.limits.MaxQPs) {
		if a := p.createMkey(reserveCommand(devx.ObjectQPN, 0)); a.errno != 0 {
			require.Equal(t, unix.ENOMEM, a.errno)
			refused++
			break
		}
	}
	require.NotZero(t, refused, "there is a limit")
	p.ok(p.queryPort(p.ctx))
}
