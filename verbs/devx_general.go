//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"net/netip"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Firmware commands about no object (MLX5_DEVX.OTHER), in contexts with DEVX. The kernel passes a list of
// commands on to the firmware and refuses all others with EINVAL (devx_is_general_cmd). Of this list the
// device answers what clients use; the others fail as commands do that a NIC's firmware does not know.
// The layouts are those of mlx5_ifc.h.

// generalCommands has the commands on the kernel's list. Those without a function are not there.
var generalCommands map[uint16]func(c *call, cmd, answer []byte) error

func init() { // not a literal, because the commands refer to methods
	generalCommands = map[uint16]func(*call, []byte, []byte) error{
		devx.OpQueryHCACap:          fillCaps,
		devx.OpQueryAdapter:         queryAdapter,
		devx.OpQueryISSI:            queryISSI,
		devx.OpQueryVportState:      queryVportState,
		devx.OpQueryESWVportContext: nil, // there is no embedded switch
		devx.OpQueryNICVportContext: nil,
		devx.OpQueryRoCEAddress:     queryRoCEAddress,
		devx.OpQueryHCAVportContext: nil,
		devx.OpQueryVNICEnv:         nil,
		devx.OpQueryVportCounter:    nil,
		devx.OpGetDroppedPacketLog:  nil,
		devx.OpNop:                  zeros,
		devx.OpQueryCongStatus:      nil,
		devx.OpQueryCongParams:      nil,
		devx.OpQueryCongStatistics:  nil,
		devx.OpQueryLAG:             zeros, // the ports are not bonded
	}
}

// The kernel passes on all commands with these numbers, for objects to come (MLX5_CMD_OP_GENERAL_START to
// MLX5_CMD_OP_GENERAL_END).
const generalStart, generalEnd = 0xb00, 0xd00

// generalCommand runs a command about no object.
func (c *call) generalCommand(cmd []byte) error {
	op := binary.BigEndian.Uint16(cmd)
	run, known := generalCommands[op]
	switch {
	case !known && (op < generalStart || op >= generalEnd):
		return refuse(eINVAL, "%s: it is not among those that need no object", devx.Name(op))
	case run == nil:
		return firmwareError(devx.StatusBadOpcode, devx.SyndromeOf(op, nil), "%s: this device does not have it", devx.Name(op))
	}
	d := devx.Find(op)
	if room := c.room(abi.MLX5AttrDEVXOtherCmdOut); room < d.OutSize {
		return firmwareError(devx.StatusBadOutputLength, devx.SyndromeOf(op, nil), "%s: room for an answer of %d bytes; it has %d", d.Name, room, d.OutSize)
	}
	answer := make([]byte, maxAnswer) // put cuts it off
	if err := run(c, cmd, answer); err != nil {
		return err
	}
	c.put(abi.MLX5AttrDEVXOtherCmdOut, answer)
	return nil
}

// zeros is the answer of a command that succeeds and has nothing to say.
func zeros(*call, []byte, []byte) error { return nil }

// queryAdapter answers with the vendor and the board that sysfs shows too.
func queryAdapter(_ *call, _, answer []byte) error {
	devx.AdapterVendor.Put(answer, vendorID)
	copy(devx.AdapterPSID.Raw(answer), boardID)
	return nil
}

// queryISSI answers with the version of the interface between driver and firmware: 1, the only one that
// drivers speak.
func queryISSI(_ *call, _, answer []byte) error {
	devx.ISSI.Put(answer, 1)
	devx.ISSISupported.Put(answer, 1<<1)
	return nil
}

// queryVportState answers with what the port is to be and what it is.
func queryVportState(c *call, cmd, answer []byte) error {
	const vport, up = 0, 1
	if mod := devx.OpMod.Get(cmd); mod != vport || devx.VportOther.On(cmd) {
		return firmwareError(devx.StatusBadParameter, syndromeOf(cmd, devx.VportOther), "QUERY_VPORT_STATE: op_mod %d, other_vport %d; there is one port, without a switch",
			mod, devx.VportOther.Get(cmd))
	}
	devx.VportAdmin.Put(answer, up)
	if !c.x.device.state().Down {
		devx.VportState.Put(answer, up)
	}
	return nil
}

// queryRoCEAddress answers with an entry of the GID table. An empty entry is all zeros.
func queryRoCEAddress(c *call, cmd, answer []byte) error {
	d, index := c.x.device, int(devx.RoCEIndex.Get(cmd))
	switch {
	case d.lid != 0:
		return firmwareError(devx.StatusBadSystemState, syndromeOf(cmd, nil), "QUERY_ROCE_ADDRESS: the port is not of RoCE")
	case index >= d.gidEntries():
		return firmwareError(devx.StatusBadParameter, syndromeOf(cmd, devx.RoCEIndex),
			"QUERY_ROCE_ADDRESS: entry %d; there are %d", index, d.gidEntries())
	}
	e, ok := c.x.net.entry(d, index)
	if !ok {
		return nil
	}
	const version2, ipv6 = 2, 1
	if e.kind == abi.GIDTypeRoCEV2 {
		devx.RoCEVersion.Put(answer, version2)
	}
	if !netip.AddrFrom16(e.gid).Is4In6() {
		devx.RoCEL3.Put(answer, ipv6)
	}
	mac := d.mac()
	copy(devx.RoCEGID.Raw(answer), e.gid[:])
	devx.RoCEMACHigh.Put(answer, uint64(binary.BigEndian.Uint16(mac[:])))
	devx.RoCEMACLow.Put(answer, uint64(binary.BigEndian.Uint32(mac[2:])))
	return nil
}

// Numbers of event queues. Vector n has the queue firstEQN+n. Drivers keep the lower numbers to themselves.
const firstEQN = 4

// queryEQN serves MLX5_DEVX.QUERY_EQN: the number by which CREATE_CQ names a completion vector.
func queryEQN(c *call) error {
	vector := c.value32(abi.MLX5AttrDEVXQueryEQNUserVec)
	if vector >= completionVectors {
		return refuse(eNOENT, "query_eqn: completion vector %d; there are %d", vector, completionVectors)
	}
	c.put32(abi.MLX5AttrDEVXQueryEQNDevEQN, firstEQN+vector)
	return nil
}

// vectorOfEQN returns the completion vector of an event queue.
func vectorOfEQN(eqn uint32) (vector uint32, ok bool) {
	return eqn - firstEQN, eqn >= firstEQN && eqn < firstEQN+completionVectors
}
