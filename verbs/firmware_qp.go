//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Firmware commands about queue pairs that libmlx5 sends by itself, in contexts without DEVX.

// RTS2RTS_QP as mlx5dv_modify_qp_udp_sport and mlx5dv_dci_stream_id_reset send it: offsets in the
// command.
const (
	rtsQPN       = 0x08
	rtsMask      = 0x10  // opt_param_mask
	rtsMore      = 0x108 // opt_param_mask_95_32
	rtsSize      = 0x110 // up to the end of that mask
	rtsStreamID  = 0x112 // qpc_data_ext.dci_stream_channel_id
	rtsExtSize   = rtsStreamID + 2
	rtsExtension = 1 << 31 // in the word of the number: qpc_ext
	rtsStream    = 1 << 0
	rtsUDPPort   = 1 << 2
)

// CREATE_GENERAL_OBJECT: offsets in the command, and the types of object that are possible.
const (
	generalType     = 0x06
	generalLogRange = 0x0f
	generalID       = 0x08 // in the answer
	reservedQPN     = 0x2c
	addressMapping  = 0x3a
	mappingQPN      = 0x1c
	mappingSize     = 0x20 // up to the end of the number; the address follows
)

// modifyFirmwareObject serves MLX5_DEVX_OBJ.MODIFY. The object may be a queue pair that was made
// by ibv_create_qp. The kernel refuses a command for another queue pair than the handle's.
func modifyFirmwareObject(c *call) error {
	cmd := c.bytes(abi.MLX5AttrDEVXObjModifyCmdIn)
	be := binary.BigEndian
	if op := be.Uint16(cmd); op != cmdRTS2RTS {
		return refuse(eINVAL, "firmware command %#x: the context was opened without firmware commands (DEVX)", op)
	}
	q := objectOf[*qp](c, abi.MLX5AttrDEVXObjModifyHandle)
	switch {
	case len(cmd) < rtsSize:
		return refuse(eINVAL, "RTS2RTS_QP of %d bytes; at least %d are needed", len(cmd), rtsSize)
	case q != nil && len(cmd) >= rtsExtSize && be.Uint32(cmd[rtsQPN:]) == q.number|rtsExtension:
		return c.resetStream(q, cmd)
	case q == nil || be.Uint32(cmd[rtsQPN:]) != q.number:
		return refuse(eINVAL, "RTS2RTS_QP of queue pair %#x: the handle is not that of this queue pair", be.Uint32(cmd[rtsQPN:]))
	case be.Uint32(cmd[rtsMask:]) != 0 || be.Uint64(cmd[rtsMore:]) != rtsUDPPort:
		return refuse(eINVAL, "RTS2RTS_QP: masks %#x and %#x; only the UDP source port can be set", be.Uint32(cmd[rtsMask:]), be.Uint64(cmd[rtsMore:]))
	case q.transport != control.QPTypeRC && q.transport != control.QPTypeUC:
		return refuse(eINVAL, "RTS2RTS_QP: a queue pair of transport %d has no UDP source port of its own", q.transport)
	}
	m, _, err := c.x.request(control.OpQueryQP, &control.QPN{QPN: q.number})
	if err != nil {
		return err
	}
	if state := m.(*control.QPAttr).State; state != control.StateRTS {
		return refuse(eINVAL, "RTS2RTS_QP: queue pair %#x is in state %d, not RTS", q.number, state)
	}
	// The port would choose a path through switches. There are none, so nothing follows from it.
	c.put(abi.MLX5AttrDEVXObjModifyCmdOut, nil)
	return nil
}

// createGeneralObject serves CREATE_GENERAL_OBJECT as mlx5dv_reserved_qpn_alloc sends it: for a
// queue pair number that no queue pair gets. The engine has no such object. But the number of an
// XRC target belongs to it until it is destroyed, and in a domain of its own no queue pair can
// connect to it.
func createGeneralObject(c *call, cmd []byte) error {
	x := c.x
	kind, log := binary.BigEndian.Uint16(cmd[generalType:]), cmd[generalLogRange]&31
	switch {
	case kind == addressMapping:
		return c.mapAddress(cmd)
	case kind != reservedQPN || log != 0:
		return refuse(eINVAL, "CREATE_GENERAL_OBJECT of type %#x, 2^%d of them; single ones of types %#x and %#x are possible", kind, log, reservedQPN, addressMapping)
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	number, err := x.reserveQPN()
	if err != nil {
		x.refundObject()
		return err
	}
	o := x.add(kindDEVX, number, func() error { return x.freeQPN(number) }, nil)
	out := make([]byte, cmdOutSize)
	binary.BigEndian.PutUint32(out[generalID:], number.qpn)
	c.putHandle(abi.MLX5AttrDEVXObjCreateHandle, o)
	c.put(abi.MLX5AttrDEVXObjCreateCmdOut, out)
	return nil
}

// A reserved is a number of a queue pair, and the domain of the target that has the number.
type reserved struct{ qpn, domain uint32 }

func (x *uctx) reserveQPN() (r reserved, err error) {
	d, _, err := x.request(control.OpOpenXRCD, &control.Empty{})
	if err != nil {
		return r, err
	}
	r.domain = d.(*control.XRCD).XRCDN
	q, _, err := x.request(control.OpCreateTarget, &control.XRCD{XRCDN: r.domain})
	if err != nil {
		_ = x.command(control.OpCloseXRCD, &control.XRCD{XRCDN: r.domain})
		return r, err
	}
	r.qpn = q.(*control.QPN).QPN
	return r, nil
}

func (x *uctx) freeQPN(r reserved) error {
	if err := x.command(control.OpDestroyQP, &control.QPN{QPN: r.qpn}); err != nil {
		return err
	}
	return x.command(control.OpCloseXRCD, &control.XRCD{XRCDN: r.domain})
}
