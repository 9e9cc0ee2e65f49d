package wqe

import (
	"encoding/binary"
	"fmt"
)

// A Builder lays the segments of one send WQE into a ring, in the order in
// which its methods are called, and continues at the ring's start where the
// ring ends. It is a value that allocates nothing; [Start] makes one.
//
// Bytes outside the segments are left as they were: the padding of inline data,
// and the rest of the block behind the last unit. Devices read neither. A WQE that
// outgrows the ring or MaxUnits is an error of [Builder.Finish]; units of its blocks
// may have been overwritten by then.
//
// The zero Builder is not usable. Not safe for concurrent use.
type Builder struct {
	ring  []byte
	start int // offset of the control segment
	pos   int // offset of the next unit, len(ring) when it is at the ring's start
	units int // so far, control segment included
	limit int // units that the WQE may have
	index uint16
}

// Start begins the WQE with this index, the number of its first block since
// the queue was made, in a ring of whole blocks whose number is a power of two.
// It panics if the ring holds no block.
func Start(ring []byte, index uint16) (b Builder) {
	blocks := len(ring) / BlockSize
	start := (int(index) & (blocks - 1)) * BlockSize
	_ = ring[start : start+BlockSize]
	b.ring, b.index, b.start, b.pos = ring, index, start, start+CtrlSize
	b.units, b.limit = 1, min(MaxUnits, blocks*blockUnits)
	return b
}

// Finish writes the control segment: c with the index, and with DS for the
// segments laid so far. It returns how many blocks the WQE takes.
func (b *Builder) Finish(c Ctrl) (blocks int, err error) {
	if b.units > b.limit {
		return 0, fmt.Errorf("wqe: %s of %d units, at most %d", c.Opcode, b.units, b.limit)
	}
	// A new value in place of c with two fields changed: it stays in registers,
	// where a changed c would be copied right after it was written.
	Ctrl{
		OpMod: c.OpMod, Index: b.index, Opcode: c.Opcode, QPN: c.QPN, Rsvd: c.Rsvd, DS: uint8(b.units),
		Sig: c.Sig, Stream: c.Stream, Flags: c.Flags, Imm: c.Imm,
	}.Put((*[CtrlSize]byte)(b.ring[b.start:]))
	return (b.units + blockUnits - 1) / blockUnits, nil
}

// FinishSigned is Finish with the signature that queues made with wq_signature
// ask for. It covers padding, so the padding must already have the bytes that the
// device will see.
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

// copyUnits lays a segment of several units, which may wrap around the ring's end.
func (b *Builder) copyUnits(src []byte) {
	for ; len(src) >= UnitSize; src = src[UnitSize:] {
		*b.unit() = [UnitSize]byte(src)
	}
}

// Raddr lays a remote address segment.
func (b *Builder) Raddr(s Raddr) { s.Put(b.unit()) }

// Data lays a pointer. A zero-length message has none: a byte count of 0
// stands for 2^31 bytes.
func (b *Builder) Data(s Data) { s.Put(b.unit()) }

// Inline lays one inline segment with the bytes of all parts, in order.
func (b *Builder) Inline(parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b.bytes(InlineFlag|uint32(n&InlineMask), InlineUnits(n), parts)
}

// bytes lays a 32-bit header and then the parts, in so many units.
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

// Atomic lays the operands of an 8-byte atomic.
func (b *Builder) Atomic(s Atomic) { s.Put(b.unit()) }

// MaskedCS4 lays the operands of a masked compare-and-swap of 4 bytes.
func (b *Builder) MaskedCS4(s MaskedCS4) { s.Put(b.unit()) }

// MaskedCS8 lays the operands of a masked compare-and-swap of 8 bytes.
func (b *Builder) MaskedCS8(s MaskedCS8) {
	var seg [MaskedCS8Size]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// MaskedFA4 lays the operands of a masked fetch-and-add of 4 bytes.
func (b *Builder) MaskedFA4(s MaskedFA4) { s.Put(b.unit()) }

// MaskedFA8 lays the operands of a masked fetch-and-add of 8 bytes.
func (b *Builder) MaskedFA8(s MaskedFA8) { s.Put(b.unit()) }

// AV lays all 48 bytes of an address vector, whose Ext should be set.
func (b *Builder) AV(s AV) {
	var seg [AVSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// CompactAV lays the first 16 bytes of an address vector, all of it where Ext
// is not set.
func (b *Builder) CompactAV(s CompactAV) { s.Put(b.unit()) }

// XRC lays an XRC segment.
func (b *Builder) XRC(s XRC) { s.Put(b.unit()) }

// Eth lays an Ethernet segment with an inline header, whose length it stores in
// HdrSize and whose first two bytes in Hdr. With EthInsertVLAN in s.HdrSize
// there is no inline header, and s is laid as it is.
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

// Wait lays the segment of WAIT on a CQ and of SEND_EN.
func (b *Builder) Wait(s Wait) { s.Put(b.unit()) }

// WaitData lays the segment of WAIT on data or on time.
func (b *Builder) WaitData(s WaitData) {
	var seg [WaitDataSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// UMRCtrl lays the control segment of a user-mode registration.
func (b *Builder) UMRCtrl(s UMRCtrl) {
	var seg [UMRCtrlSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// MkeyContext lays the state that a key is to have.
func (b *Builder) MkeyContext(s MkeyContext) {
	var seg [MkeyContextSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// KLM lays an entry of a list.
func (b *Builder) KLM(s KLM) { s.Put(b.unit()) }

// RepeatBlock lays the head of a repeating list.
func (b *Builder) RepeatBlock(s RepeatBlock) { s.Put(b.unit()) }

// RepeatEntry lays an entry of a repeating list.
func (b *Builder) RepeatEntry(s RepeatEntry) { s.Put(b.unit()) }

// Pad fills the list of a user-mode registration with zeros to whole blocks.
func (b *Builder) Pad() {
	for b.units%blockUnits != 0 {
		*b.unit() = [UnitSize]byte{}
	}
}

// SetPSV lays a SET_PSV segment.
func (b *Builder) SetPSV(s SetPSV) { s.Put(b.unit()) }

// MMOMeta lays the first segment of an MMO.
func (b *Builder) MMOMeta(s MMOMeta) { s.Put(b.unit()) }

// TagMatching lays a tag-matching segment.
func (b *Builder) TagMatching(s TagMatching) {
	var seg [TagMatchingSize]byte
	s.Put(&seg)
	b.copyUnits(seg[:])
}

// Raw lays whole units as they are; a last part of a unit is left out.
func (b *Builder) Raw(units []byte) { b.copyUnits(units) }

// Unwrap copies the WQE with this index out of a ring, whose size is a power
// of two of blocks: as many bytes as dst has, across the ring's end. It returns
// how many it copied, at most the whole ring.
func Unwrap(dst, ring []byte, index uint16) int {
	start := int(index) * BlockSize & (len(ring) - 1)
	n := copy(dst, ring[start:])
	return n + copy(dst[n:], ring[:start])
}
