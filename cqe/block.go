package cqe

import "fmt"

// Block is a compressed entry of the newer layout (cqe_comp_layout 1). It holds up to
// seven minis. Each mini is the difference of one entry from the title. The title is the
// last uncompressed entry before the block. A block stands for N entries and is written
// in the slot of the first of them; the other slots are not written.
// [Iteration], not an owner bit, says whether a block is valid.
//
// ParseBlock then Put is the identity.
type Block struct {
	Minis     [BlockMinis]Mini // the first N are valid, the others stale
	Rsvd      [6]byte          // bytes 56..61
	N         int              // number of minis, 1..7; N-1 is the opcode of op_own
	Iteration uint8            // byte 62; validity_iteration_count
	Low       uint8            // bits 1..0 of op_own
}

// ParseBlock reads a block. It returns an error if src is another kind of entry.
func ParseBlock(src *[Size]byte) (Block, error) {
	o := OpOwn(src[OffOpOwn])
	b := Block{
		Rsvd:      [6]byte(src[56:62]),
		N:         int(o.Opcode()) + 1,
		Iteration: src[OffSignature],
		Low:       uint8(o & 3),
	}
	if o.Format() != FormatCompressed || b.N > BlockMinis {
		return Block{}, fmt.Errorf("cqe: op_own 0x%02x is not a block's; format 3 with 1..%d minis is", uint8(o), BlockMinis)
	}
	for i := range b.Minis {
		b.Minis[i] = ParseMini((*[MiniSize]byte)(src[i*MiniSize:]))
	}
	return b, nil
}

// Put writes the block, all 64 bytes. It panics unless N is 1..7.
func (b *Block) Put(dst *[Size]byte) {
	if b.N < 1 || b.N > BlockMinis {
		panic(fmt.Sprintf("cqe: block of %d minis, 1..%d fit", b.N, BlockMinis))
	}
	for i := range b.Minis {
		b.Minis[i].Put((*[MiniSize]byte)(dst[i*MiniSize:]))
	}
	*(*[6]byte)(dst[56:62]) = b.Rsvd
	dst[OffSignature] = b.Iteration
	dst[OffOpOwn] = uint8(b.N-1)<<4 | uint8(FormatCompressed)<<2 | b.Low&3
}

// Expand begins reading a block. index is the index of the block's first entry, in a ring
// of 1<<log entries. title is the entry before that first entry: an uncompressed entry
// or, if a block came before this one, the last entry that the earlier block yielded.
// Call Next with each of the N minis.
func (b *Block) Expand(title *CQE, index uint64, log uint, f MiniFormat) Expander {
	return Expander{session{*title, title.Counter + 1, index, log, f, 0}, b.N}
}

// CompressAfter begins a session of the newer layout that follows title. index is
// the index of the session's first entry, in a ring of 1<<log entries. At most seven
// entries fit into one [Block].
func CompressAfter(title *CQE, index uint64, log uint, f MiniFormat) Compressor {
	return Compressor{session{*title, title.Counter + 1, index, log, f, 0}}
}
