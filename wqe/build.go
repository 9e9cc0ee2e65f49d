package wqe

import (
	"encoding/binary"
	"fmt"
)

// A Builder writes the segments of one send WQE into a ring, in the order in
// which its methods are called. At the end of the ring it continues at the start.
// A Builder is a value and allocates nothing; [Start] makes one.
//
// A Builder does not write the padding of inline data or the part of the last block
// that the WQE does not use. Devices read neither. If the WQE is larger than the ring
// or than MaxUnits, [Builder.Finish] returns an error; blocks of the WQE may then have
// been overwritten already.
//
// The zero Builder is not usable. Not safe for concurrent use.
type Builder struct {
	ring  []byte
	start int // offset of the control segment
	pos   int // offset of the next unit; len(ring) stands for the ring's start
	units int // units so far, including the control segment
	limit int // largest number of units that the WQE may have
	index uint16
}

// Start begins a WQE in a ring. index is the number of the WQE's first block,
// counted since the queue was made. The ring consists of whole blocks, and their
// number is a power of two. Start panics if the ring is smaller than one block.
func Start(ring []byte, index uint16) (b Builder) {
	blocks := len(ring) / BlockSize
	start := (int(index) & (blocks - 1)) * BlockSize
	_ = ring[start : start+BlockSize]
	b.ring, b.index, b.start, b.pos = ring, index, start, start+CtrlSize
	b.units, b.limit = 1, min(MaxUnits, blocks*blockUnits)
	return b
}

// Finish writes the control segment. This is c, but with the Index and DS of this
// WQE. It returns how many blocks the WQE takes.
func (b *Builder) Finish(c Ctrl) (blocks int, err error) {
	if b.units > b.limit {
		return 0, fmt.Errorf("wqe: %s of %d units, at most %d", c.Opcode, b.units, b.limit)
	}
	// This builds a new value instead of changing two fields of c. The new value
	// stays in registers; a changed c would be copied right after it was written.
	Ctrl{
		OpMod: c.OpMod, Index: b.index, Opcode: c.Opcode, QPN: c.QPN, Rsvd: c.Rsvd, DS: uint8(b.units),
		Sig: c.Sig, Stream: c.Stream, Flags: c.Flags, Imm: c.Imm,
	}.Put((*[CtrlSize]byte)(b.ring[b.start:]))
	return (b.units + blockUnits - 1) / blockUnits, nil
}

// FinishSigned is Finish for queues made with wq_signature: it also stores the
// signature of the WQE. The signature covers the padding too, so the padding must
// already have the bytes that the device will see.
func (b *Builder) FinishSigned(c Ctrl) (blocks int, err error) {
	c.Sig = 0
	if blocks, err = b.Finish(c); err != nil {
		return 0, err
	}
	head := b.ring[b.start:]
	n := min(b.units*UnitSize, len(head))
	sig := Sign(head[:n])
	for _, x := range b.ring[:b.units*UnitSize-n] { // the part past the ring's end
		sig ^= x
	}
	head[sigOffset] = sig
	return blocks, nil
}

// unit returns the next unit of the WQE.
func (b *Builder) unit() *[UnitSize]byte {
	b.units++
	if b.units > b.limit {
		return (*[UnitSize]byte)(b.ring[b.start:]) // Finish will refuse the WQE
	}
	if b.pos == len(b.ring) {
		b.pos = 0
	}
	p := (*[UnitSize]byte)(b.ring[b.pos:])
	b.pos += UnitSize
	return p
}

// copyUnits writes a segment of several units, which may wrap around the ring's end.
func (b *Builder) copyUnits(src []byte) {
	for ; len(src) >= UnitSize; src = src[UnitSize:] {
		*b.unit() = [UnitSize]byte(src)
	}
}

// Raddr appends a remote address segment.
func (b *Builder) Raddr(s Raddr) { s.Put(b.unit()) }

// Data appends a pointer to local memory. For a message without data, do not call
// Data: a byte count of 0 stands for 2^31 bytes.
func (b *Builder) Data(s Data) { s.Put(b.unit()) }

// Inline appends one inline segment with the bytes of all parts, in order.
func (b *Builder) Inline(parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b.bytes(InlineFlag|uint32(n&InlineMask), InlineUnits(n), parts)
}

// bytes appends a 32-bit header and then the parts. units is how many units the header and
// the parts take.
func (b *Builder) bytes(head uint32, units int, parts [][]byte) {
	b.units += units
	if b.units > b.limit {
		return
	}
	if b.pos == len(b.ring) {
		b.pos = 0
	}
	end := b.pos + units*UnitSize
	binary.BigEndian.PutUint32(b.ring[b.pos:], head)
	at := b.pos + InlineHead
	for _, p := range parts {
		for len(p) > 0 {
			if at == len(b.ring) {
				at = 0
			}
			n := copy(b.ring[at:], p)
			at, p = at+n, p[n:]
		}
	}
	if end > len(b.ring) {
		end -= len(b.ring)
	}
	b.pos = end
}

// Atomic appends the operands of an 8-byte atomic.
func (b *Builder) Atomic(s Atomic) { s.Put(b.unit()) }

// MaskedCS4 appends the operands of a masked compare-and-swap of 4 bytes.
func (b *Builder) MaskedCS4(s MaskedCS4) { s.Put(b.unit()) }

// MaskedCS8 appends the operands of a masked compare-and-swap of 8 bytes.
func (b *Builder) MaskedCS8(s MaskedCS8) {
	var seg [MaskedCS8Size]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// MaskedFA4 appends the operands of a masked fetch-and-add of 4 bytes.
func (b *Builder) MaskedFA4(s MaskedFA4) { s.Put(b.unit()) }

// MaskedFA8 appends the operands of a masked fetch-and-add of 8 bytes.
func (b *Builder) MaskedFA8(s MaskedFA8) { s.Put(b.unit()) }

// AV appends all 48 bytes of an address vector. s.Ext should be set.
func (b *Builder) AV(s AV) {
	var seg [AVSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// CompactAV appends the first 16 bytes of an address vector. An address vector
// whose Ext is not set has no other bytes.
func (b *Builder) CompactAV(s CompactAV) { s.Put(b.unit()) }

// XRC appends an XRC segment.
func (b *Builder) XRC(s XRC) { s.Put(b.unit()) }

// Eth appends an Ethernet segment with an inline header. It stores the length of
// the header in HdrSize and the first two bytes of the header in Hdr. If s.HdrSize
// has EthInsertVLAN, there is no inline header and Eth appends s as it is.
func (b *Builder) Eth(s Eth, header []byte) {
	if s.HdrSize&EthInsertVLAN != 0 {
		s.Put(b.unit())
		return
	}
	s.HdrSize = uint16(len(header))
	header = header[copy(s.Hdr[:], header):]
	s.Put(b.unit())
	for len(header) > 0 {
		header = header[copy(b.unit()[:], header):]
	}
}

// Wait appends the segment that WAIT on a CQ and SEND_EN use.
func (b *Builder) Wait(s Wait) { s.Put(b.unit()) }

// WaitData appends the segment of WAIT on data or on time.
func (b *Builder) WaitData(s WaitData) {
	var seg [WaitDataSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// UMRCtrl appends the control segment of a user-mode registration.
func (b *Builder) UMRCtrl(s UMRCtrl) {
	var seg [UMRCtrlSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// MkeyContext appends the state that a key is to have.
func (b *Builder) MkeyContext(s MkeyContext) {
	var seg [MkeyContextSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// KLM appends an entry to the list of a list key.
func (b *Builder) KLM(s KLM) { s.Put(b.unit()) }

// RepeatBlock appends the head of a repeating list.
func (b *Builder) RepeatBlock(s RepeatBlock) { s.Put(b.unit()) }

// RepeatEntry appends an entry of a repeating list.
func (b *Builder) RepeatEntry(s RepeatEntry) { s.Put(b.unit()) }

// Pad appends zeros to the list of a user-mode registration until it ends with a
// whole block.
func (b *Builder) Pad() {
	for b.units%blockUnits != 0 {
		*b.unit() = [UnitSize]byte{}
	}
}

// SetPSV appends a SET_PSV segment.
func (b *Builder) SetPSV(s SetPSV) { s.Put(b.unit()) }

// MMOMeta appends the first segment of an MMO.
func (b *Builder) MMOMeta(s MMOMeta) { s.Put(b.unit()) }

// TagMatching appends a tag-matching segment.
func (b *Builder) TagMatching(s TagMatching) {
	var seg [TagMatchingSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// Raw appends whole units as they are. An incomplete last unit is left out.
func (b *Builder) Raw(units []byte) { b.copyUnits(units) }

// Unwrap copies the WQE with this index out of a ring into dst. At the end of the
// ring it continues at the start. It copies len(dst) bytes, but at most the whole
// ring, and returns how many bytes it copied. The ring consists of whole blocks, and
// their number is a power of two.
func Unwrap(dst, ring []byte, index uint16) int {
	start := int(index) * BlockSize & (len(ring) - 1)
	n := copy(dst, ring[start:])
	return n + copy(dst[n:], ring[:start])
}
