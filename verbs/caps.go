//go:build linux && (amd64 || arm64)

package verbs

import (
	"math/bits"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// The answers to the firmware command QUERY_HCA_CAP. A program may ask for a group's greatest values or for
// its present ones, which are the same here.

// A capability is one field of a group of capabilities, and its value.
type capability struct {
	*devx.Field
	value uint32
}

// capGroups is how many groups hardware may have. Those without capabilities here are all 0.
const capGroups = 0x40

// Values of capabilities that are not limits of the engine.
const (
	logMaxMRMem = 36 // logarithm of maxExtent
	logMMO      = 24 // a DMA copy may have more bytes, but programs allocate as many as this says
	logList     = 5  // logarithm of the entries of a list that a WQE always has room for
	atomicOps   = 0xf
	atomicSizes = 4 | 8
	// Two buffers of 256 bytes. NVSHMEM and UCX give so many bytes from a register on, or twice as many, to
	// CUDA; from the second register of a page (0xa00) on there are as many in the page.
	logBFReg = 9
)

// Operations that are possible with memory that is paged on demand, on a transport (struct
// mlx5_ifc_odp_per_transport_service_cap_bits): the upper six bits of a word.
const (
	onDemandSRQ = 1 << iota
	onDemandAtomic
	onDemandRead
	onDemandWrite
	onDemandReceive
	onDemandSend
)

// portType returns the port's value of port_type.
func (d *device) portType() uint32 {
	const infiniBand, ethernet = 0, 1
	if d.lid != 0 {
		return infiniBand
	}
	return ethernet
}

// log2 returns the logarithm of n, rounded down.
func log2(n uint32) uint32 { return uint32(bits.Len32(n|1) - 1) }

// capabilities returns the device's values of a group of capabilities. A field that is not in the list is 0:
// the device does not have that capability. TestCapabilitiesAreTrue has a proof of each.
func (x *uctx) capabilities(group uint16) []capability {
	l := x.limits
	switch group {
	case devx.CapsGeneral:
		list := []capability{
			{devx.CapHCACap2, 1},
			{devx.CapVHCAID, x.device.index + 1},
			{devx.CapLogDMAMMOMaxSize, logMMO},
			{devx.CapLogMaxSRQSize, uint32(l.MaxLogRQ)},
			{devx.CapLogMaxQPSize, uint32(l.MaxLogSQ)},
			{devx.CapLogMaxQP, log2(queues(l, l.MaxQPs))},
			{devx.CapLogMaxSRQ, log2(queues(l, l.MaxQPs))},
			{devx.CapLogMaxCQSize, uint32(l.MaxLogCQ)},
			{devx.CapLogMaxCQ, log2(queues(l, l.MaxCQs))},
			{devx.CapLogMaxMkey, log2(l.MaxMRs)},
			{devx.CapDumpFillMkey, 1},
			{devx.CapMaxIndirection, 1},
			{devx.CapLogMaxMRWSize, logMaxMRMem},
			{devx.CapLogMaxKLMListSize, logList},
			{devx.CapQPCExtension, 1},
			{devx.CapLogMaxRaReqDC, log2(uint32(l.MaxRdAtomic))},
			{devx.CapLogMaxRaResDC, log2(uint32(l.MaxRdAtomic))},
			{devx.CapRTS2RTSQPUDPSport, 1},
			{devx.CapCompactAddressVector, 1}, // by which UCX posts to UD and DC on InfiniBand
			{devx.CapLogMaxRaReqQP, log2(uint32(l.MaxRdAtomic))},
			{devx.CapDMAMMOSQ, 1},
			{devx.CapLogMaxRaResQP, log2(uint32(l.MaxRdAtomic))},
			{devx.CapGIDTableSize, log2(uint32(x.device.gidEntries()) / 8)},
			{devx.CapPKeyTableSize, log2(maxPKeys / 128)},
			{devx.CapLocalCAAckDelay, ackDelay},
			{devx.CapDeviceMemory, 1},
			{devx.CapPortType, x.device.portType()},
			{devx.CapNumPorts, 1},
			{devx.CapLogMaxMsg, uint32(l.MaxMessageLog)},
			{devx.CapCQEVersion, cqeVersion},
			{devx.CapUMRModifyAtomicDisabled, 1},
			{devx.CapWQSignature, 1},
			{devx.CapRoCE, 1},
			{devx.CapAtomic, 1},
			{devx.CapDCT, 1},
			{devx.CapCQOI, 1},
			{devx.CapCQResize, 1},
			{devx.CapUD, 1},
			{devx.CapUC, 1},
			{devx.CapRC, 1},
			{devx.CapUAR4K, 1},
			{devx.CapLogPageSize, logUARSize},
			{devx.CapBF, 1},
			{devx.CapLogBFRegSize, logBFReg},
			{devx.CapMaxWQESizeSQ, maxSendWQE},
			{devx.CapMaxWQESizeRQ, maxRecvWQE},
			{devx.CapLogMaxPD, log2(l.MaxPDs)},
			{devx.CapLogUARPageSize, logUARSize},
			{devx.CapDeviceFrequencyKHz, uint32(clock.Hz() / 1000)},
			// The upper half.
			{devx.CapGeneralObjTypes, 1<<(devx.ObjectQPN-32) | 1<<(devx.ObjectMap-32)},
			{devx.CapNumOfUARsPerPage, 1},
			{devx.CapLogMaxAtomicSizeQP, log2(8)},
			{devx.CapMiniCQERespStrideIndex, 1},
			{devx.CapCQECompression128, 1},
			{devx.CapCQECompression, 1},
			{devx.CapCQECompressionMaxNum, control.MaxMinis},
		}
		if x.devx { // objects that only firmware commands make
			list = append(list, capability{devx.CapLogMaxRMP, log2(queues(l, l.MaxQPs))},
				capability{devx.CapFixedBufferSize, 1}) // UCX needs them for its flush at the other end
		}
		return list
	case devx.CapsGeneral2:
		// Nothing. CREATE_QP takes send_dbr_mode, but DOCA and torchcomms would use it by themselves if
		// send_dbr_mode_no_dbr_ext were claimed, and libmlx5 gives them no page for each queue, where only
		// one can be without a record (registerLeft). Version 44 has one page of type NC for all, and
		// NC_DEDICATED of version 45 and newer has one for four, which DOCA rings in the same place.
	case devx.CapsODP:
		const messages = onDemandSend | onDemandSRQ
		const all = messages | onDemandWrite | onDemandRead | onDemandAtomic
		return []capability{
			{devx.CapRCODPCaps, all | onDemandReceive},
			{devx.CapUCODPCaps, messages | onDemandWrite | onDemandReceive},
			{devx.CapUDODPCaps, messages | onDemandReceive},
			{devx.CapXRCODPCaps, all}, // its receives are those of an SRQ
			{devx.CapDCODPCaps, all},
		}
	case devx.CapsAtomic:
		return []capability{
			// Old values of 8 bytes come in host order (1), those of 4 bytes big-endian. By 0 UCX, which
			// reads this if it makes queues by DEVX, would swap the bytes of all.
			{devx.CapAtomicByteOrder, 1},
			{devx.CapAtomicHostOrder, 1},
			{devx.CapAtomicOperations, atomicOps},
			{devx.CapAtomicSizeQP, atomicSizes},
			{devx.CapAtomicSizeDC, atomicSizes},
		}
	case devx.CapsRoCE:
		return []capability{
			{devx.CapRRoCEMaxSrcUDPPort, 0xffff},
			{devx.CapRRoCEMinSrcUDPPort, 0xc000},
			{devx.CapRoCEAddressTableSize, gidTableSize},
		}
	case devx.CapsDeviceMemory:
		return []capability{
			{devx.CapMemic, 1},
			{devx.CapLogMaxMemicAddrAlignment, pageShift},
			{devx.CapMemicBarSize, maxDMs * maxDM},
			{devx.CapMaxMemicSize, maxDM},
		}
	}
	return nil
}

// queryHCACap answers QUERY_HCA_CAP in contexts without DEVX.
func queryHCACap(c *call, cmd []byte) error {
	b := make([]byte, maxAnswer)
	if err := fillCaps(c, cmd, b); err != nil {
		return err
	}
	c.put(abi.MLX5AttrDEVXOtherCmdOut, b)
	return nil
}

// fillCaps writes the group of capabilities that a QUERY_HCA_CAP asks for into the answer.
func fillCaps(c *call, cmd, answer []byte) error {
	group := uint16(devx.CapGroup.Get(cmd))
	switch {
	case group < capGroups:
	case c.x.devx:
		return firmwareError(devx.StatusBadParameter, syndromeOf(cmd, devx.CapGroup), noGroup,
			group, capGroups)
	default:
		return refuse(eINVAL, noGroup, group, capGroups)
	}
	for _, f := range c.x.capabilities(group) {
		f.Put(answer, uint64(f.value))
	}
	return nil
}

const noGroup = "QUERY_HCA_CAP: group %#x of capabilities; groups below %#x exist"
