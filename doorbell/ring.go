package doorbell

import "encoding/binary"

// Ring is the 8 bytes written to a doorbell register, as a big-endian number. They are
// the first half of a control segment.
//
//	63..56 opmod   55..40 index   39..32 opcode   31..8 qpn   7..0 ds
//
// Only the QPN is reliable; see the package comment.
type Ring uint64

// RingSize is the size of a doorbell in bytes.
const RingSize = 8

// MakeRing packs the doorbell that accelerators write: the index and the QPN. All
// other bits are 0. It cuts qpn to 24 bits.
func MakeRing(index uint16, qpn uint32) Ring {
	return Ring(index)<<40 | Ring(qpn&(1<<24-1))<<8
}

// ParseRing reads a doorbell, or the first half of a control segment.
func ParseRing(src *[RingSize]byte) Ring { return Ring(binary.BigEndian.Uint64(src[:])) }

// Put writes the doorbell.
func (r Ring) Put(dst *[RingSize]byte) { binary.BigEndian.PutUint64(dst[:], uint64(r)) }

// Word0 is {opmod, index, opcode}.
func (r Ring) Word0() uint32 { return uint32(r >> 32) }

// Word1 is {qpn, ds}.
func (r Ring) Word1() uint32 { return uint32(r) }

// OpMod is bits 63..56. They often hold high bits of an index that was not masked.
func (r Ring) OpMod() uint8 { return uint8(r >> 56) }

// Index is the 16-bit block counter. Some clients write the index of the last WQE,
// others that of the next free block.
func (r Ring) Index() uint16 { return uint16(r >> 40) }

// Opcode is bits 39..32, or 0 if the client writes no opcode.
func (r Ring) Opcode() uint8 { return uint8(r >> 32) }

// QPN is the 24-bit number of the queue that was rung.
func (r Ring) QPN() uint32 { return uint32(r) >> 8 }

// DS is the WQE's length in 16-byte units, 6 bits, or 0 if the client writes no length.
func (r Ring) DS() uint8 { return uint8(r) & 0x3f }

// BlueFlameSize returns the size in bytes of a BlueFlame copy of a WQE of ds 16-byte
// units. The copy is whole 64-byte blocks. ok is false if ds is 0 and for a WQE longer
// than BFHalf; for such a WQE a client can only write the doorbell.
func BlueFlameSize(ds uint8) (n int, ok bool) {
	n = (int(ds) + 3) / 4 * 64
	return n, n > 0 && n <= BFHalf
}
