package cqe

import (
	"encoding/binary"
	"fmt"
)

// MiniFormat is the meaning of the first word of a [Mini] that stands for a receive
// (mini_cqe_res_format in the CQ context). In a session of requester entries the
// first word is always wqe_counter:16 | WQE opcode:8 | 0:8, as in the Linux driver
// and UCX. DPDK expects the opcode in the last byte instead.
type MiniFormat uint8

// Formats of the first word.
const (
	MiniHash           MiniFormat = 0 // RSS hash:32
	MiniChecksum       MiniFormat = 1 // checksum:16 | 0:16
	MiniFlowTagStride  MiniFormat = 2 // high half of the flow tag:16 | stride:16; Expander keeps the title's
	MiniChecksumStride MiniFormat = 3 // checksum:16 | stride:16
	MiniHeadersStride  MiniFormat = 4 // 0:8 | L3 and L4 header types:8 | stride:16
)

// hasStride reports whether the low half of the word is a stride index. If so, the stride
// index replaces wqe_counter. Otherwise wqe_counter increases by one from entry to entry.
func (f MiniFormat) hasStride() bool { return f >= MiniFlowTagStride && f <= MiniHeadersStride }

const (
	MiniSize   = 8 // bytes of a Mini
	ArrayMinis = 8 // minis in one 64-byte slot of the older layout
	BlockMinis = 7 // minis in one entry of the newer layout
)

// Mini is one completion of a compressed session, as its differences from the title.
// The title is the whole entry that all entries of the session resemble.
type Mini struct {
	Info      uint32 // the MiniFormat says what this number means
	ByteCount uint32
}

// ParseMini reads a mini entry.
func ParseMini(src *[MiniSize]byte) Mini {
	return Mini{binary.BigEndian.Uint32(src[0:4]), binary.BigEndian.Uint32(src[4:8])}
}

// Put writes a mini entry.
func (m Mini) Put(dst *[MiniSize]byte) {
	binary.BigEndian.PutUint32(dst[0:4], m.Info)
	binary.BigEndian.PutUint32(dst[4:8], m.ByteCount)
}

// MiniPlace returns where mini i of a session of the older layout is: how many slots
// after the title's slot, and at which of the eight places in that slot. Array 0,
// minis 0 to 7, is in the slot after the title. Array k is 8k slots after the title, for
// k of at least 1.
func MiniPlace(i int) (slots, entry int) { return max(1, i/ArrayMinis*ArrayMinis), i % ArrayMinis }

// session is the state that reading and writing a compressed session have in common.
type session struct {
	title   CQE    // the entry whose differences from the others are in the minis
	counter uint16 // wqe_counter of entry 0, if the minis do not hold counters
	index   uint64 // index of entry 0
	log     uint
	format  MiniFormat
	i       int // number of entries read or compressed so far
}

// entry returns the session's next entry, which m stands for.
func (s *session) entry(m Mini) CQE {
	c := s.title
	c.ByteCount = m.ByteCount
	c.OpOwn = MakeOpOwn(s.title.OpOwn.Opcode(), FormatPlain, false, Owner(s.index+uint64(s.i), s.log))
	if c.OpOwn.Opcode() == Req {
		c.Counter, c.WQEOpcode = uint16(m.Info>>16), uint8(m.Info>>8)
		return c
	}
	c.Counter = s.counter + uint16(s.i)
	if s.format.hasStride() {
		c.Counter = uint16(m.Info)
	}
	switch s.format {
	case MiniHash:
		c.RSSHash = m.Info
	case MiniChecksum, MiniChecksumStride:
		c.Checksum = uint16(m.Info >> 16)
	case MiniHeadersStride:
		c.L4HdrType = uint8(m.Info >> 16)
	}
	return c
}

// mini returns the differences between c and the title, as far as the format can
// express them.
func (s *session) mini(c *CQE) Mini {
	m := Mini{ByteCount: c.ByteCount}
	if c.OpOwn.Opcode() == Req {
		m.Info = uint32(c.Counter)<<16 | uint32(c.WQEOpcode)<<8
		return m
	}
	if s.format.hasStride() {
		m.Info = uint32(c.Counter)
	}
	switch s.format {
	case MiniHash:
		m.Info = c.RSSHash
	case MiniChecksum, MiniChecksumStride:
		m.Info |= uint32(c.Checksum) << 16
	case MiniHeadersStride:
		m.Info |= uint32(c.L4HdrType) << 16
	}
	return m
}

// An Expander turns a title and its minis back into entries, one at a time.
// An Expander is a value and allocates nothing.
type Expander struct {
	session
	n int
}

// Expand begins reading a session of the older layout. title is the entry whose number
// is index, in a ring of 1<<log entries. Expand returns an error if that entry is not the
// title of such a session, or stands for no entries or for more entries than the ring has.
//
// A poller then calls Next once for each mini, in order; [MiniPlace] says where the
// minis are. It then advances by the number of entries. The device wrote only some of
// the slots that the poller skips in this way, so the poller must set their owner bits.
// The CQ of package hostpath does this by writing the entries back.
func Expand(title *[Size]byte, index uint64, log uint, f MiniFormat) (Expander, error) {
	c := ParseCQE(title)
	switch {
	case c.OpOwn.Format() != FormatCompressed || c.OpOwn.Opcode() > RespSendInv:
		return Expander{}, fmt.Errorf("cqe: op_own 0x%02x is not a title's; format 3 with opcode 0..4 is", uint8(c.OpOwn))
	case c.ByteCount == 0 || uint64(c.ByteCount) > 1<<(log&63):
		return Expander{}, fmt.Errorf("cqe: session of %d entries, a ring of %d holds 1..%[2]d", c.ByteCount, uint64(1)<<(log&63))
	}
	return Expander{session{c, c.Counter, index, log, f, 0}, int(c.ByteCount)}, nil
}

// Left returns how many entries are still to come.
func (x *Expander) Left() int { return x.n - x.i }

// Next returns the entry that m stands for. ok is false if no entry is left.
func (x *Expander) Next(m Mini) (c CQE, ok bool) {
	if x.i >= x.n {
		return CQE{}, false
	}
	c = x.entry(m)
	x.i++
	return c, true
}

// A Compressor turns entries that share a title into minis. A Compressor is a value
// and allocates nothing.
type Compressor struct{ session }

// Compress begins a session of the older layout. first is the session's first entry,
// whose number is index, in a ring of 1<<log entries. The caller then gives every entry
// to Add, beginning with first.
func Compress(first *CQE, index uint64, log uint, f MiniFormat) Compressor {
	return Compressor{session{*first, first.Counter, index, log, f, 0}}
}

// Add adds c as the session's next entry and returns its mini. If c cannot be rebuilt
// from the title and a mini, Add adds nothing and ok is false. Such entries are those of
// another queue, solicited entries, errors, and entries with inline data or with
// another timestamp.
func (x *Compressor) Add(c *CQE) (m Mini, ok bool) {
	m = x.mini(c)
	if c.OpOwn.Opcode() > RespSendInv || x.entry(m) != *c {
		return Mini{}, false
	}
	x.i++
	return m, true
}

// Title returns the entry to write into the session's first slot. Write the minis first,
// and this entry last. Do not write a session of one entry, because its minis would take
// the slot of the entry after the session.
func (x *Compressor) Title() CQE {
	t := x.title
	t.OpOwn = MakeOpOwn(t.OpOwn.Opcode(), FormatCompressed, false, Owner(x.index, x.log))
	t.ByteCount = uint32(x.i)
	return t
}
