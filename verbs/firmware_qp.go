//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Firmware commands about queue pairs that libmlx5 sends by itself, in contexts without DEVX.

// modifyFirmwareObject serves MLX5_DEVX_OBJ.MODIFY. The object may be a queue pair that was made
// by ibv_create_qp. The kernel refuses a command for another queue pair than the handle's.
func modifyFirmwareObject(c *call) error {
	cmd := c.bytes(abi.MLX5AttrDEVXObjModifyCmdIn)
	op, q := binary.BigEndian.Uint16(cmd), objectOf[*qp](c, abi.MLX5AttrDEVXObjModifyHandle)
	least, number := devx.OptParamMaskMore.End(), uint32(devx.QPN.Get(cmd))
	mask, more := devx.OptParamMask.Get(cmd), devx.OptParamMaskMore.Get(cmd)
	switch {
	case c.x.devx && !ownRTS2RTS(cmd):
		return c.modifyByCommand(q, cmd)
	case op != devx.OpRTS2RTS:
		return refuse(eINVAL, "%s: %s", devx.Name(op), withoutDEVX)
	case len(cmd) < least:
		return refuse(eINVAL, "RTS2RTS_QP of %d bytes; at least %d are needed", len(cmd), least)
	case q == nil || number != q.number:
		return refuse(eINVAL, "RTS2RTS_QP of queue pair %#x: the handle is not that of this queue pair", number)
	case devx.QPExtension.On(cmd):
		return c.resetStream(q, cmd)
	case mask != 0 || more != devx.OptMoreUDPPort:
		return refuse(eINVAL, "RTS2RTS_QP: masks %#x and %#x; only the UDP source port can be set", mask, more)
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

// ownRTS2RTS reports whether a command is one that libmlx5 sends by itself: for the UDP source port or a
// stream.
func ownRTS2RTS(cmd []byte) bool {
	more := devx.OptParamMaskMore.Get(cmd)
	return binary.BigEndian.Uint16(cmd) == devx.OpRTS2RTS &&
		(more == devx.OptMoreUDPPort || more == devx.OptMoreStream)
}

// createGeneralObject serves CREATE_GENERAL_OBJECT as mlx5dv_reserved_qpn_alloc sends it: for a
// queue pair number that no queue pair gets. The engine has no such object. But the number of an
// XRC target belongs to it until it is destroyed, and in a domain of its own no queue pair can
// connect to it.
func createGeneralObject(c *call, cmd []byte) error {
	x := c.x
	kind, log := devx.ObjectType.Get(cmd), devx.ObjectRange.Get(cmd)
	switch {
	case kind == devx.ObjectMap:
		return c.mapAddress(cmd)
	case kind != devx.ObjectQPN || log != 0:
		return refuse(eINVAL, "CREATE_GENERAL_OBJECT of type %#x, 2^%d of them; single ones of types %#x and %#x are possible", kind, log, devx.ObjectQPN, devx.ObjectMap)
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
	c.putMade(o, devx.NewObjectID, number.qpn)
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
