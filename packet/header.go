package packet

import "encoding/binary"

// RETH is the RDMA extended header: the remote memory of an RDMA WRITE or READ.
type RETH struct {
	Addr   uint64
	RKey   uint32
	Length uint32 // bytes of the whole message, not of this packet
}

// ParseRETH reads an RDMA extended header.
func ParseRETH(b *[RETHSize]byte) RETH {
	be := binary.BigEndian
	return RETH{Addr: be.Uint64(b[0:8]), RKey: be.Uint32(b[8:12]), Length: be.Uint32(b[12:16])}
}

// Put writes the header.
func (h RETH) Put(b *[RETHSize]byte) {
	be := binary.BigEndian
	be.PutUint64(b[0:8], h.Addr)
	be.PutUint32(b[8:12], h.RKey)
	be.PutUint32(b[12:16], h.Length)
}

// AtomicETH is the atomic extended header.
type AtomicETH struct {
	Addr    uint64 // of eight bytes
	RKey    uint32
	SwapAdd uint64 // the new value, or the number to add
	Compare uint64 // the expected value; FETCH ADD ignores it
}

// ParseAtomicETH reads an atomic extended header.
func ParseAtomicETH(b *[AtomicETHSize]byte) AtomicETH {
	be := binary.BigEndian
	return AtomicETH{
		Addr: be.Uint64(b[0:8]), RKey: be.Uint32(b[8:12]),
		SwapAdd: be.Uint64(b[12:20]), Compare: be.Uint64(b[20:28]),
	}
}

// Put writes the header.
func (h AtomicETH) Put(b *[AtomicETHSize]byte) {
	be := binary.BigEndian
	be.PutUint64(b[0:8], h.Addr)
	be.PutUint32(b[8:12], h.RKey)
	be.PutUint64(b[12:20], h.SwapAdd)
	be.PutUint64(b[20:28], h.Compare)
}

// AtomicAckETH is the result of an atomic.
type AtomicAckETH struct {
	Original uint64 // the value before
}

// ParseAtomicAckETH reads the result of an atomic.
func ParseAtomicAckETH(b *[AtomicAckETHSize]byte) AtomicAckETH {
	return AtomicAckETH{binary.BigEndian.Uint64(b[:])}
}

// Put writes the header.
func (h AtomicAckETH) Put(b *[AtomicAckETHSize]byte) { binary.BigEndian.PutUint64(b[:], h.Original) }

// DETH is the datagram extended header.
type DETH struct {
	QKey     uint32
	Reserved uint8
	SrcQP    uint32 // 24 bits: the sending queue pair
}

// ParseDETH reads a datagram extended header.
func ParseDETH(b *[DETHSize]byte) DETH {
	be := binary.BigEndian
	w := be.Uint32(b[4:8])
	return DETH{QKey: be.Uint32(b[0:4]), Reserved: uint8(w >> 24), SrcQP: w & mask24}
}

// Put writes the header.
func (h DETH) Put(b *[DETHSize]byte) {
	be := binary.BigEndian
	be.PutUint32(b[0:4], h.QKey)
	be.PutUint32(b[4:8], uint32(h.Reserved)<<24|h.SrcQP&mask24)
}

// ImmDt is an immediate: four bytes, read big-endian.
type ImmDt uint32

// ParseImmDt reads an immediate.
func ParseImmDt(b *[ImmDtSize]byte) ImmDt { return ImmDt(binary.BigEndian.Uint32(b[:])) }

// Put writes the immediate.
func (h ImmDt) Put(b *[ImmDtSize]byte) { binary.BigEndian.PutUint32(b[:], uint32(h)) }

// IETH is the invalidate extended header.
type IETH struct {
	RKey uint32 // the key that the responder invalidates
}

// ParseIETH reads an invalidate extended header.
func ParseIETH(b *[IETHSize]byte) IETH { return IETH{binary.BigEndian.Uint32(b[:])} }

// Put writes the header.
func (h IETH) Put(b *[IETHSize]byte) { binary.BigEndian.PutUint32(b[:], h.RKey) }

// XRCETH names the shared receive queue of a request on XRC.
type XRCETH struct {
	Reserved uint8
	SRQN     uint32 // 24 bits
}

// ParseXRCETH reads an XRC extended header.
func ParseXRCETH(b *[XRCETHSize]byte) XRCETH {
	w := binary.BigEndian.Uint32(b[:])
	return XRCETH{Reserved: uint8(w >> 24), SRQN: w & mask24}
}

// Put writes the header.
func (h XRCETH) Put(b *[XRCETHSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Reserved)<<24|h.SRQN&mask24)
}
