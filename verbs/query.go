//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"math"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Queries of the device, its port and the context. A field about something that this device
// does not do is 0.

// deviceCaps are flags of enum ib_uverbs_device_cap_flags.
const deviceCaps = abi.DeviceBadPKeyCntr | abi.DeviceBadQKeyCntr | abi.DevicePortActiveEvent |
	abi.DeviceSysImageGUID | abi.DeviceRCRNRNakGen | abi.DeviceXRC | abi.DeviceMemWindow |
	abi.DeviceMemMgtExtensions | abi.DeviceMemWindowType2B

// Limits that are not the engine's.
const (
	maxSGE      = 30
	maxPKeys    = 128
	maxGroups   = 64 // multicast groups of a queue pair
	maxMRSize   = math.MaxUint64
	maxAHs      = math.MaxInt32
	pageSizeCap = 0xfffff000 // a bit for each possible size of pages
	ackDelay    = 16
)

// queues returns how many queues of one kind a program can have. most is the engine's limit
// for that kind. The ring of each queue is a region, and a quarter of the regions is left for
// doorbell records and for queues of other kinds.
func queues(l *control.Welcome, most uint32) uint32 { return min(most, l.MaxRegions/4*3) }

// attributes returns a struct ib_uverbs_query_device_resp.
func (x *uctx) attributes() []byte {
	l := x.limits
	b := make([]byte, abi.QueryDeviceRespSize)
	le.PutUint64(b[abi.QueryDeviceRespFWVer:], fwMajor<<32|fwMinor<<16|fwSub)
	binary.BigEndian.PutUint64(b[abi.QueryDeviceRespNodeGUID:], x.device.guid)
	binary.BigEndian.PutUint64(b[abi.QueryDeviceRespSysImageGUID:], x.device.guid)
	le.PutUint64(b[abi.QueryDeviceRespMaxMRSize:], maxMRSize)
	le.PutUint64(b[abi.QueryDeviceRespPageSizeCap:], pageSizeCap)
	for off, v := range map[int]uint32{
		abi.QueryDeviceRespVendorID: vendorID, abi.QueryDeviceRespVendorPartID: partID,
		abi.QueryDeviceRespHWVer: 0, abi.QueryDeviceRespMaxQP: queues(l, l.MaxQPs),
		abi.QueryDeviceRespMaxQPWR: 1 << l.MaxLogSQ, abi.QueryDeviceRespDeviceCapFlags: deviceCaps,
		abi.QueryDeviceRespMaxSGE: maxSGE, abi.QueryDeviceRespMaxSGERd: maxSGE,
		abi.QueryDeviceRespMaxCQ: queues(l, l.MaxCQs), abi.QueryDeviceRespMaxCQE: 1<<l.MaxLogCQ - 1,
		abi.QueryDeviceRespMaxMR: l.MaxMRs, abi.QueryDeviceRespMaxPD: l.MaxPDs,
		abi.QueryDeviceRespMaxQPRdAtom:           uint32(l.MaxRdAtomic),
		abi.QueryDeviceRespMaxResRdAtom:          uint32(l.MaxRdAtomic) * queues(l, l.MaxQPs),
		abi.QueryDeviceRespMaxQPInitRdAtom:       uint32(l.MaxRdAtomic),
		abi.QueryDeviceRespAtomicCap:             abi.AtomicHCA, // among queue pairs of this device
		abi.QueryDeviceRespMaxMW:                 l.MaxMRs,      // windows take keys, as MRs do
		abi.QueryDeviceRespMaxMcastGrp:           nic.MaxGroups,
		abi.QueryDeviceRespMaxMcastQPAttach:      nic.MaxMembers,
		abi.QueryDeviceRespMaxTotalMcastQPAttach: nic.MaxGroups * nic.MaxMembers,
		abi.QueryDeviceRespMaxAH:                 maxAHs,
		abi.QueryDeviceRespMaxSRQ:                queues(l, l.MaxQPs),
		abi.QueryDeviceRespMaxSRQWR:              1<<l.MaxLogRQ - 1, abi.QueryDeviceRespMaxSRQSGE: maxSRQSGE,
	} {
		le.PutUint32(b[off:], v)
	}
	le.PutUint16(b[abi.QueryDeviceRespMaxPKeys:], maxPKeys)
	b[abi.QueryDeviceRespLocalCaAckDelay], b[abi.QueryDeviceRespPhysPortCnt] = ackDelay, 1
	return b
}

func queryDevice(c *call, _ []byte) error {
	c.put(abi.AttrCoreOut, c.x.attributes())
	return nil
}

// exQueryDevice serves EX_QUERY_DEVICE. The request is struct ib_uverbs_ex_query_device, and
// the response is struct ib_uverbs_ex_query_device_resp.
func exQueryDevice(c *call, req []byte) error {
	mask, reserved := le.Uint32(req[abi.ExQueryDeviceCompMask:]), le.Uint32(req[abi.ExQueryDeviceReserved:])
	if mask != 0 || reserved != 0 {
		return refuse(eINVAL, "comp_mask %#x, reserved %#x; both must be 0", mask, reserved)
	}
	b := make([]byte, abi.ExQueryDeviceRespSize)
	copy(b[abi.ExQueryDeviceRespBase:], c.x.attributes())
	le.PutUint32(b[abi.ExQueryDeviceRespResponseLength:], uint32(min(len(b), c.room(abi.AttrCoreOut))))
	le.PutUint64(b[abi.ExQueryDeviceRespTimestampMask:], math.MaxUint64)
	le.PutUint64(b[abi.ExQueryDeviceRespHCACoreClock:], clock.Hz()/1000) // in kHz
	le.PutUint64(b[abi.ExQueryDeviceRespDeviceCapFlagsEx:], deviceCaps)
	le.PutUint64(b[abi.ExQueryDeviceRespMaxDMSize:], maxDM)
	le.PutUint16(b[abi.ExQueryDeviceRespCQModerationCaps:], maxModerationCount)
	le.PutUint16(b[abi.ExQueryDeviceRespCQModerationCaps+2:], maxModerationPeriod)
	putODP(b)
	c.put(abi.AttrCoreOut, b)
	d := make([]byte, abi.MLX5QueryDeviceRespSize)
	le.PutUint32(d[abi.MLX5QueryDeviceRespResponseLength:], uint32(min(len(d), c.room(abi.AttrUHWOut))))
	le.PutUint32(d[abi.MLX5QueryDeviceRespFlags:],
		abi.MLX5QueryDevRespFlagsCQE128BComp|abi.MLX5QueryDevRespFlagsCQE128BPad)
	le.PutUint32(d[abi.MLX5QueryDeviceRespCompMaxNum:], control.MaxMinis)
	le.PutUint32(d[abi.MLX5QueryDeviceRespCompFormats:],
		abi.MLX5CQEResFormatHash|abi.MLX5CQEResFormatCsum|abi.MLX5CQEResFormatCsumStrIdx)
	d[abi.MLX5QueryDeviceRespStreams], d[abi.MLX5QueryDeviceRespErrored] = maxLogStreams,
		control.MaxLogErrored
	c.put(abi.AttrUHWOut, d)
	return nil
}

// The port. The headers have no names for its width, speed and link state. Their values are
// from PortInfo in the InfiniBand specification.
const (
	maxMessage = 1 << 30
	width4x    = 2
	speedEDR   = 32

	// activeMTU is the MTU of every path, in each form in which programs ask for it: the
	// port's, that of path records, and that of connections which rdma_cm makes. It is also
	// the longest datagram (engine/internal/execution/datagram.go).
	activeMTU = abi.MTU4096
)

func queryPort(c *call) error {
	if port := c.value(abi.AttrQueryPortPortNum); port != 1 {
		return refuse(eINVAL, "port %d; there is one, 1", port)
	}
	d := c.x.device
	b := make([]byte, abi.QueryPortRespExSize)
	le.PutUint32(b[abi.QueryPortRespPortCapFlags:], d.portCaps())
	le.PutUint32(b[abi.QueryPortRespMaxMsgSz:], maxMessage)
	le.PutUint32(b[abi.QueryPortRespGIDTableLen:], uint32(d.gidEntries()))
	le.PutUint16(b[abi.QueryPortRespLID:], d.lid)
	le.PutUint16(b[abi.QueryPortRespSMLID:], d.subnetManager())
	le.PutUint16(b[abi.QueryPortRespPKeyTableLen:], 1)
	b[abi.QueryPortRespState], b[abi.QueryPortRespPhysState] = d.portState()
	b[abi.QueryPortRespMaxMTU], b[abi.QueryPortRespActiveMTU] = activeMTU, activeMTU
	b[abi.QueryPortRespActiveWidth], b[abi.QueryPortRespActiveSpeed] = width4x, speedEDR
	b[abi.QueryPortRespLinkLayer], _ = d.linkLayer()
	c.put(abi.AttrQueryPortResp, b)
	return nil
}

// portSpeed is the speed of a port of width4x and speedEDR, in units of 100 Mb/s.
const portSpeed = 1000

// queryPortSpeed serves DEVICE.QUERY_PORT_SPEED, which rdma-core asks from version 62 on.
func queryPortSpeed(c *call) error {
	if port := c.value32(abi.AttrQueryPortSpeedPortNum); port != 1 {
		return refuse(eINVAL, "port %d; there is one, 1", port)
	}
	c.put64(abi.AttrQueryPortSpeedResp, portSpeed)
	return nil
}

// queryMlx5Port answers with a struct mlx5_ib_uapi_query_port, which says where a port is in
// an embedded switch. No flag is set, as on hardware that has no embedded switch.
func queryMlx5Port(c *call) error {
	if port := c.value32(abi.MLX5AttrQueryPortPortNum); port != 1 {
		return refuse(eINVAL, "port %d; there is one, 1", port)
	}
	c.put(abi.MLX5AttrQueryPort, nil)
	return nil
}

// Values in the answer to GET_CONTEXT, which libmlx5 reads.
const (
	qpTableSize    = 1 << 17 // number of queue pair numbers
	bfRegSize      = 512     // bytes of a BlueFlame register
	recordDistance = 64      // bytes from one doorbell record to the next
	maxSendWQE     = 1024    // bytes
	maxRecvWQE     = 512     // bytes
	cqeVersion     = 1       // CQEs name queues by user index
	logUARSize     = 12      // logarithm of the bytes of a UAR page
)

// contextAnswer returns a struct mlx5_ib_alloc_ucontext_resp. Its tot_bfregs is 0, because
// a context begins without BlueFlame registers: libmlx5 allocates UAR pages.
func (x *uctx) contextAnswer() []byte {
	l := x.limits
	b := make([]byte, abi.MLX5AllocUcontextRespSize)
	le.PutUint32(b[abi.MLX5AllocUcontextRespQPTabSize:], qpTableSize)
	le.PutUint32(b[abi.MLX5AllocUcontextRespBFRegSize:], bfRegSize)
	le.PutUint32(b[abi.MLX5AllocUcontextRespCacheLineSize:], recordDistance)
	le.PutUint16(b[abi.MLX5AllocUcontextRespMaxSQDescSz:], maxSendWQE)
	le.PutUint16(b[abi.MLX5AllocUcontextRespMaxRQDescSz:], maxRecvWQE)
	le.PutUint32(b[abi.MLX5AllocUcontextRespMaxSendWQEBB:], 1<<l.MaxLogSQ)
	le.PutUint32(b[abi.MLX5AllocUcontextRespMaxRecvWR:], 1<<l.MaxLogRQ)
	le.PutUint32(b[abi.MLX5AllocUcontextRespMaxSRQRecvWR:], 1<<l.MaxLogRQ-1)
	le.PutUint16(b[abi.MLX5AllocUcontextRespNumPorts:], 1)
	le.PutUint32(b[abi.MLX5AllocUcontextRespResponseLength:], uint32(len(b)))
	b[abi.MLX5AllocUcontextRespCQEVersion] = cqeVersion
	b[abi.MLX5AllocUcontextRespCmdsSuppUHW] = abi.MLX5UserCmdsSuppUHWQueryDevice |
		abi.MLX5UserCmdsSuppUHWCreateAH
	// For raw packets, which are not possible.
	b[abi.MLX5AllocUcontextRespEthMinInline] = abi.MLX5UserInlineModeL2
	b[abi.MLX5AllocUcontextRespClockInfoVersions] = 1 << abi.MLX5ClockInfoV1
	le.PutUint32(b[abi.MLX5AllocUcontextRespCompMask:], abi.MLX5AllocUcontextRespMaskDumpFillMkey)
	le.PutUint32(b[abi.MLX5AllocUcontextRespDumpFillMkey:], control.NullKey)
	le.PutUint32(b[abi.MLX5AllocUcontextRespLogUARSize:], logUARSize)
	le.PutUint32(b[abi.MLX5AllocUcontextRespNumUARsPerPage:], 1)
	return b
}

// getContext serves DEVICE.GET_CONTEXT. libmlx5's private data is struct
// mlx5_ib_alloc_ucontext_req_v2.
func getContext(c *call) error {
	if c.x.greeted {
		return refuse(eINVAL, "the context has been made already")
	}
	var req [abi.MLX5AllocUcontextReqV2Size]byte
	copy(req[:], c.bytes(abi.AttrUHWIn))
	flags := le.Uint32(req[abi.MLX5AllocUcontextReqV2Flags:])
	if flags&abi.MLX5AllocUctxDEVX != 0 && !c.p.devx {
		c.p.past.noDEVX = true
		// libmlx5 always asks for firmware commands first. If the program did not ask for
		// them, libmlx5 then opens the device without them.
		return expected(eINVAL, "flags %#x: a context with firmware commands (DEVX) is not possible with --no-devx", flags)
	}
	if caps := le.Uint64(req[abi.MLX5AllocUcontextReqV2LibCaps:]); caps&abi.MLX5LibCapDynUAR == 0 {
		return refuse(eOPNOTSUPP, "library capabilities %#x: UAR pages that are allocated one by one are needed; libmlx5 has them since version 26", caps)
	}
	c.x.greeted = true
	c.x.devx = flags&abi.MLX5AllocUctxDEVX != 0
	c.p.past.noDEVX = false
	c.put(abi.AttrUHWOut, c.x.contextAnswer())
	c.put32(abi.AttrGetContextNumCompVectors, completionVectors)
	c.put64(abi.AttrGetContextCoreSupport, abi.CoreSupportOptionalMRAccess)
	return nil
}

func queryContext(c *call) error {
	c.put(abi.MLX5AttrQueryContextRespUctx, c.x.contextAnswer())
	c.put32(abi.AttrQueryContextNumCompVectors, completionVectors)
	c.put64(abi.AttrQueryContextCoreSupport, abi.CoreSupportOptionalMRAccess)
	return nil
}
