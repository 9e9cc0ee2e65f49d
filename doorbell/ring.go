package doorbell

import "encoding/binary"

// Ring is the 8 bytes written to a doorbell register: the first half of a
// control segment, as a number whose big-endian bytes are the register's.
//
//	63..56 opmod   55..40 index   39..32 opcode   31..8 qpn   7..0 ds
//
// Only the QPN is reliable; see the package comment.
type Ring uint64

// RingSize is the bytes of a doorbell.
const RingSize = 8

// MakeRing packs the doorbell that accelerators write: the index and the QPN,
// all else 0. qpn is cut to 24 bits.
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

// OpMod is bits 63..56: often leaked high bits of an index.
func (r Ring) OpMod() uint8 { return uint8(r >> 56) }

// Index is the 16-bit block counter: the last WQE's own in some clients, the
// next free block in others.
func (r Ring) Index() uint16 { return uint16(r >> 40) }

// Opcode is bits 39..32; 0 where a client writes none.
func (r Ring) Opcode() uint8 { return uint8(r >> 32) }

// QPN is the 24-bit number of the queue that was rung.
func (r Ring) QPN() uint32 { return uint32(r) >> 8 }

// DS is the WQE's length in 16-byte units, 6 bits; 0 where a client writes none.
func (r Ring) DS() uint8 { return uint8(r) & 0x3f }

// BlueFlameSize is the bytes of a BlueFlame copy of a WQE of ds 16-byte units:
// whole 64-byte blocks. ok is false for ds 0 and for a WQE longer than BFHalf,
// which can only be rung.
func BlueFlameSize(ds uint8) (n int, ok bool) {
	n = (int(ds) + 3) / 4 * 64
	return n, n > 0 && n <= BFHalf
}
