package verbs

import (
	"encoding/binary"
	"math"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
)

// What a program may know of a device. What this device does not do is left 0.

// Capabilities, numbered as ibv_device_cap_flags: counters of bad keys, an event
// when the port is active, a system GUID, RNR, windows of both types, keys that
// are changed by work requests.
const deviceCaps = 1<<1 | 1<<2 | 1<<10 | 1<<11 | 1<<12 | 1<<17 | 1<<21 | 1<<24

const (
	maxSGE       = 30
	maxSRQPieces = maxSRQSGE
	maxGroups    = 64 // multicast groups of a queue pair
	maxMR        = math.MaxUint64
	ackDelay     = 16
)

// queues is how many queues of a kind a program can have. The ring of each is a
// region of its own; a part of these is left for doorbell records, and for queues of
// other kinds.
func queues(l *control.Welcome, most uint32) uint32 { return min(most, l.MaxRegions/4*3) }

// attributes is struct ib_uverbs_query_device_resp.
func (x *uctx) attributes() []byte {
	l := x.limits
	b := make([]byte, 176)
	le.PutUint64(b[0:], fwMajor<<32|fwMinor<<16|fwSub)
	binary.BigEndian.PutUint64(b[8:], x.device.guid)
	binary.BigEndian.PutUint64(b[16:], x.device.guid)
	le.PutUint64(b[24:], maxMR)
	le.PutUint64(b[32:], 0xfffff000) // sizes of pages
	for off, v := range map[int]uint32{
		40: vendorID, 44: partID, 48: 0,
		52: queues(l, l.MaxQPs), 56: 1 << l.MaxLogSQ, 60: deviceCaps, 64: maxSGE, 68: maxSGE,
		72: queues(l, l.MaxCQs), 76: 1<<l.MaxLogCQ - 1, 80: l.MaxMRs, 84: l.MaxPDs,
		88: uint32(l.MaxRdAtomic), 96: uint32(l.MaxRdAtomic) * queues(l, l.MaxQPs), 100: uint32(l.MaxRdAtomic),
		108: 1,             // atomics, among queue pairs of this device
		120: l.MaxMRs,      // windows are keys
		132: 1 << 10,       // multicast groups
		136: maxGroups,     // of a queue pair
		140: 1 << 16,       // of all
		144: math.MaxInt32, // address handles
		156: queues(l, l.MaxQPs), 160: 1<<l.MaxLogRQ - 1, 164: maxSRQPieces,
	} {
		le.PutUint32(b[off:], v)
	}
	le.PutUint16(b[168:], 128) // partition keys
	b[170], b[171] = ackDelay, 1
	return b
}

func queryDevice(c *call, _ []byte) error {
	c.put(1, c.x.attributes())
	return nil
}

// exQueryDeviceSize is what of struct ib_uverbs_ex_query_device_resp is known.
const exQueryDeviceSize = 304

// exQueryDevice: comp_mask u32, reserved u32.
func exQueryDevice(c *call, req []byte) error {
	if le.Uint32(req) != 0 || le.Uint32(req[4:]) != 0 {
		return refuse(eINVAL, "comp_mask %#x, reserved %#x; both must be 0", le.Uint32(req), le.Uint32(req[4:]))
	}
	b := make([]byte, exQueryDeviceSize)
	copy(b, c.x.attributes())
	le.PutUint32(b[180:], uint32(min(len(b), c.room(1))))
	le.PutUint64(b[208:], math.MaxUint64) // bits of time stamps
	le.PutUint64(b[216:], clock.Hz()/1000)
	le.PutUint64(b[224:], deviceCaps)
	c.put(1, b)
	d := make([]byte, 104)
	le.PutUint32(d[4:], uint32(min(len(d), c.room(uhwOut))))
	le.PutUint32(d[60:], 1<<1) // entries of 128 bytes may be padded
	c.put(uhwOut, d)
	return nil
}

// The port.
const (
	portCaps   = 0x04010000
	maxMessage = 1 << 30
	portActive = 4
	mtu4096    = 5
	width4x    = 2
	speedEDR   = 32
	linkUp     = 5
	ethernet   = 2
)

func queryPort(c *call) error {
	if port := c.value(0); port != 1 {
		return refuse(eINVAL, "port %d; there is one, 1", port)
	}
	b := make([]byte, 48)
	le.PutUint32(b[0:], portCaps)
	le.PutUint32(b[4:], maxMessage)
	le.PutUint32(b[16:], gidTable)
	le.PutUint16(b[20:], 1) // partition keys
	b[26], b[27], b[28] = portActive, mtu4096, mtu4096
	b[34], b[35], b[36], b[37] = width4x, speedEDR, linkUp, ethernet
	c.put(1, b)
	return nil
}

// queryMlx5Port tells of a port's place in an embedded switch: as of hardware
// whose switch is off, there is none, and all flags are clear.
func queryMlx5Port(c *call) error {
	if port := c.value32(0x1000); port != 1 {
		return refuse(eINVAL, "port %d; there is one, 1", port)
	}
	c.put(0x1001, nil)
	return nil
}

// contextAnswer is struct mlx5_ib_alloc_ucontext_resp.
func (x *uctx) contextAnswer() []byte {
	l := x.limits
	b := make([]byte, 72)
	le.PutUint32(b[0:], 1<<17) // numbers of queue pairs
	le.PutUint32(b[4:], 512)   // bytes of a register; none come without MLX5_UAR.ALLOC
	le.PutUint32(b[12:], 64)   // between doorbell records
	le.PutUint16(b[16:], 1024) // bytes of a send WQE
	le.PutUint16(b[18:], 512)  // of a receive WQE
	le.PutUint32(b[20:], 1<<l.MaxLogSQ)
	le.PutUint32(b[24:], 1<<l.MaxLogRQ)
	le.PutUint32(b[28:], 1<<l.MaxLogRQ-1)
	le.PutUint16(b[32:], 1) // ports
	le.PutUint32(b[40:], uint32(len(b)))
	b[44] = 1                // CQEs name queues by user index
	b[45] = 3                // private data with query_device and create_ah
	b[46] = 2                // nothing of a packet need be inline
	b[47] = 1 << 0           // the page of clock information
	le.PutUint32(b[56:], 12) // log2 of bytes of a UAR
	le.PutUint32(b[60:], 1)  // of them in a page
	return b
}

// What getContext needs of struct mlx5_ib_alloc_ucontext_req_v2.
const (
	libCaps       = 24 // offset
	libDynamicUAR = 1 << 1
)

func getContext(c *call) error {
	if c.x.greeted {
		return refuse(eINVAL, "the context has been made already")
	}
	var req [32]byte
	copy(req[:], c.bytes(uhwIn))
	if le.Uint64(req[libCaps:])&libDynamicUAR == 0 {
		return refuse(eOPNOTSUPP, "library capabilities %#x: UAR pages that are allocated one by one are needed; libmlx5 has them since version 26",
			le.Uint64(req[libCaps:]))
	}
	c.x.greeted = true
	c.put(uhwOut, c.x.contextAnswer())
	return answerContext(c)
}

func queryContext(c *call) error {
	c.put(queryOut, c.x.contextAnswer())
	return answerContext(c)
}

func answerContext(c *call) error {
	c.put32(0, completionVectors)
	c.put64(1, 1) // optional access rights are known
	return nil
}

// devxOther answers commands of the firmware. One is served: QUERY_HCA_CAP, to
// which everything optional is absent.
func devxOther(c *call) error {
	cmd := c.bytes(0x1000)
	if op := binary.BigEndian.Uint16(cmd); op != 0x100 {
		return refuse(eOPNOTSUPP, "firmware command %#x; only QUERY_HCA_CAP (0x100) is served", op)
	}
	c.put(0x1001, nil)
	return nil
}
