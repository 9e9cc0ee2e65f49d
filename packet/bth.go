package packet

import "encoding/binary"

const mask24 = 1<<24 - 1

// BTH is the base transport header, with which every packet begins.
type BTH struct {
	Opcode    Opcode
	Solicited bool   // SE: the receiver raises a solicited event
	Migrated  bool   // M (MigReq): the path is the primary one, or migration is done; ConnectX sets it always
	Pad       uint8  // 2 bits: pad bytes after the payload
	Version   uint8  // TVer, 4 bits: 0
	PKey      uint16 // partition: the low 15 bits must match, bit 15 is full membership
	FECN      bool   // there was congestion on the way here
	BECN      bool   // there was congestion on the way back
	Reserved6 uint8  // 6 bits after FECN and BECN
	DestQP    uint32 // 24 bits: the receiving queue pair
	AckReq    bool   // the responder shall acknowledge this packet
	Reserved7 uint8  // 7 bits after AckReq
	PSN       uint32 // 24 bits: packet sequence number
}

// ParseBTH reads a base transport header.
func ParseBTH(b *[BTHSize]byte) (h BTH) {
	h.Parse(b)
	return h
}

// Parse is ParseBTH in place. A BTH has too many fields for registers, and copying one right
// after its fields were stored one by one stalls the processor: Parse takes half the time.
func (h *BTH) Parse(b *[BTHSize]byte) {
	be := binary.BigEndian
	w0, w1, w2 := be.Uint32(b[0:4]), be.Uint32(b[4:8]), be.Uint32(b[8:12])
	h.Opcode, h.Solicited, h.Migrated = Opcode(w0>>24), w0>>23&1 != 0, w0>>22&1 != 0
	h.Pad, h.Version, h.PKey = uint8(w0>>20)&3, uint8(w0>>16)&0xf, uint16(w0)
	h.FECN, h.BECN, h.Reserved6, h.DestQP = w1>>31 != 0, w1>>30&1 != 0, uint8(w1>>24)&0x3f, w1&mask24
	h.AckReq, h.Reserved7, h.PSN = w2>>31 != 0, uint8(w2>>24)&0x7f, w2&mask24
}

// Put writes the header as three big-endian words,
//
//	opcode:8 se:1 m:1 pad:2 tver:4 pkey:16
//	fecn:1 becn:1 reserved:6 destqp:24
//	ackreq:1 reserved:7 psn:24
func (h BTH) Put(b *[BTHSize]byte) {
	be := binary.BigEndian
	be.PutUint32(b[0:4], uint32(h.Opcode)<<24|bit(h.Solicited)<<23|bit(h.Migrated)<<22|
		uint32(h.Pad&3)<<20|uint32(h.Version&0xf)<<16|uint32(h.PKey))
	be.PutUint32(b[4:8], bit(h.FECN)<<31|bit(h.BECN)<<30|uint32(h.Reserved6&0x3f)<<24|h.DestQP&mask24)
	be.PutUint32(b[8:12], bit(h.AckReq)<<31|uint32(h.Reserved7&0x7f)<<24|h.PSN&mask24)
}

// PutBTH writes the header that a device sends: with MigReq, and with all fields 0 that are
// not parameters. It is Put for loops that write millions of headers a second; no BTH is made.
func PutBTH(
	b *[BTHSize]byte, op Opcode, solicited bool, pad uint8, pkey uint16, destQP uint32, ackReq bool,
	psn uint32,
) {
	be := binary.BigEndian
	be.PutUint32(b[0:4], uint32(op)<<24|bit(solicited)<<23|1<<22|uint32(pad&3)<<20|uint32(pkey))
	be.PutUint32(b[4:8], destQP&mask24)
	be.PutUint32(b[8:12], bit(ackReq)<<31|psn&mask24)
}

// ParsePlain reads a header that PutBTH writes for a full member of the default partition, without
// a solicited event and without padding. MigReq does not count. ok is false if the header is another.
func ParsePlain(b *[BTHSize]byte) (op Opcode, destQP uint32, ackReq bool, psn uint32, ok bool) {
	op, destQP, ok = ParsePlainWord(binary.BigEndian.Uint64(b[0:8]))
	w := binary.BigEndian.Uint32(b[8:12])
	return op, destQP, w>>31 != 0, w & mask24, ok && w>>24&0x7f == 0
}

// PlainWord returns the first 8 bytes of a header that PutBTH writes for a full member of the default
// partition, without a solicited event and without padding.
func PlainWord(op Opcode, destQP uint32) uint64 {
	return uint64(op)<<56 | 1<<54 | 0xffff<<32 | uint64(destQP&mask24)
}

// ParsePlainWord reads the first 8 bytes of a header as ParsePlain does.
func ParsePlainWord(w uint64) (op Opcode, destQP uint32, ok bool) {
	return Opcode(w >> 56), uint32(w), w&(1<<56-1<<24)|1<<54 == 1<<54|0xffff<<32
}

// AskForAck sets AckReq in a header that has been written.
func AskForAck(b []byte) { b[8] |= 1 << 7 }

// bit returns 1 or 0. The compiler makes it one instruction.
func bit(b bool) (n uint32) {
	if b {
		n = 1
	}
	return n
}
