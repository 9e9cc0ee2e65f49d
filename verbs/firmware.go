//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Firmware commands in contexts without DEVX. There the kernel allows some queries. The other
// commands that are served here are those that libmlx5 sends in such a context by itself, to do
// what a function of its interface promises. The kernel refuses them with EINVAL.
//
// A command is big-endian. It begins with its number, and its answer with a status, which is
// 0. The layouts are those of mlx5_ifc.h.

// withoutDEVX says why a context has no firmware commands.
const withoutDEVX = "the context was opened without firmware commands (DEVX); nicless run --devx allows them"

// devxOther answers firmware commands that make no object.
func devxOther(c *call) error {
	cmd := c.bytes(abi.MLX5AttrDEVXOtherCmdIn)
	if c.x.devx {
		return c.generalCommand(cmd)
	}
	switch op := binary.BigEndian.Uint16(cmd); op {
	case devx.OpQueryHCACap:
		return queryHCACap(c, cmd)
	case devx.OpQueryESWVportContext, devx.OpQueryHCAVportContext:
		return refuse(eOPNOTSUPP, "%s: there is no embedded switch", devx.Name(op))
	default:
		return refuse(eINVAL, "%s: %s", devx.Name(op), withoutDEVX)
	}
}

// createFirmwareObject serves MLX5_DEVX_OBJ.CREATE.
func createFirmwareObject(c *call) error {
	cmd := c.bytes(abi.MLX5AttrDEVXObjCreateCmdIn)
	op := binary.BigEndian.Uint16(cmd)
	if op != devx.OpCreateMkey && op != devx.OpCreateGeneralObject && !c.x.devx {
		return refuse(eINVAL, "%s: %s", devx.Name(op), withoutDEVX)
	}
	run := makers[op]
	if run == nil {
		return refuse(eINVAL, "%s makes no object that this device has", devx.Name(op))
	}
	if c.x.devx {
		if err := c.checkLengths(cmd, c.room(abi.MLX5AttrDEVXObjCreateCmdOut)); err != nil {
			return err
		}
	}
	err := run(c, cmd)
	if c.x.devx {
		err = asFirmware(cmd, err)
	}
	return err
}
