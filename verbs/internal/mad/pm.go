package mad

import "math"

// Attributes of performance management.
const (
	AttrPortCounters         = 0x12
	AttrPortCountersExtended = 0x1d
)

// PMDataAt is where an attribute begins, in bytes. PMPortAt is where the number of the port is.
const (
	PMDataAt   = 64
	PMPortAt   = PMDataAt + 1
	PMAllPorts = 0xff
)

// Counters are those of a port. Data is in words of 4 bytes.
type Counters struct {
	SymbolErrors, LinkRecoveries, LinkDowned, RcvErrors, RemotePhysical, RelayErrors   uint64
	XmitDiscards, XmitConstraint, RcvConstraint, LocalIntegrity, Overruns, VL15Dropped uint64
	XmitData, RcvData, XmitPackets, RcvPackets, XmitWait                               uint64
	UnicastXmit, UnicastRcv, MulticastXmit, MulticastRcv                               uint64
}

// PortCounters returns the attribute with 32 bits for data. A counter that does not fit has its greatest
// value.
func (c *Counters) PortCounters(port uint8, selected uint16) []byte {
	b := make([]byte, 44)
	b[1] = port
	be.PutUint16(b[2:], selected)
	put16 := func(at int, v uint64) { be.PutUint16(b[at:], uint16(min(v, math.MaxUint16))) }
	put32 := func(at int, v uint64) { be.PutUint32(b[at:], uint32(min(v, math.MaxUint32))) }
	put8 := func(at int, v uint64) { b[at] = uint8(min(v, math.MaxUint8)) }
	put16(4, c.SymbolErrors)
	put8(6, c.LinkRecoveries)
	put8(7, c.LinkDowned)
	put16(8, c.RcvErrors)
	put16(10, c.RemotePhysical)
	put16(12, c.RelayErrors)
	put16(14, c.XmitDiscards)
	put8(16, c.XmitConstraint)
	put8(17, c.RcvConstraint)
	b[19] = uint8(min(c.LocalIntegrity, 15)<<4 | min(c.Overruns, 15))
	put16(22, c.VL15Dropped)
	for i, v := range []uint64{c.XmitData, c.RcvData, c.XmitPackets, c.RcvPackets, c.XmitWait} {
		put32(24+4*i, v)
	}
	return b
}

// Extended returns the attribute with 64 bits for data.
func (c *Counters) Extended(port uint8, selected uint16) []byte {
	b := make([]byte, 72)
	b[1] = port
	be.PutUint16(b[2:], selected)
	for i, v := range []uint64{c.XmitData, c.RcvData, c.XmitPackets, c.RcvPackets, c.UnicastXmit,
		c.UnicastRcv, c.MulticastXmit, c.MulticastRcv} {
		be.PutUint64(b[8+8*i:], v)
	}
	return b
}

// Bits of the capabilities in a ClassPortInfo of performance management.
const (
	PMExtendedWidth = 0x0200
	PMXmitWait      = 0x1000
)

// ClassPortInfo returns what a class can do.
func ClassPortInfo(version uint8, caps uint16) []byte {
	const response = 18 // 1 s
	b := make([]byte, 72)
	b[0], b[1] = 1, version
	be.PutUint16(b[2:], caps)
	be.PutUint32(b[4:], response)
	return b
}
