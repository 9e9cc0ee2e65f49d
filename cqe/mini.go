package cqe

import (
	"encoding/binary"
	"fmt"
)

// MiniFormat is the meaning of the first word of a [Mini] of a receive
// (mini_cqe_res_format in the CQ context). In a session of requester entries it
// is always wqe_counter:16 | WQE opcode:8 | 0:8, as the Linux driver and UCX
// have it; DPDK looks for the opcode in the last byte.
type MiniFormat uint8

// Formats of the first word.
const (
	MiniHash           MiniFormat = 0 // RSS hash:32
	MiniChecksum       MiniFormat = 1 // checksum:16 | 0:16
	MiniFlowTagStride  MiniFormat = 2 // flow tag, high half:16 | stride:16; expanding keeps the title's tag
	MiniChecksumStride MiniFormat = 3 // checksum:16 | stride:16
	MiniHeadersStride  MiniFormat = 4 // 0:8 | L3 and L4 header types:8 | stride:16
)

// hasStride reports whether the low half of the word is a stride index, which
// takes the place of wqe_counter; otherwise the counter runs on by one.
func (f MiniFormat) hasStride() bool { return f >= MiniFlowTagStride && f <= MiniHeadersStride }

const (
	MiniSize   = 8 // bytes of a Mini
	ArrayMinis = 8 // minis in one 64-byte slot of the older layout
	BlockMinis = 7 // minis in one entry of the newer layout
)

// Mini is one completion of a compressed session: its differences from the title.
type Mini struct {
	Info      uint32 // as MiniFormat says
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

// MiniPlace tells where mini i of a session of the older layout lies: how many
// slots after the title's, and which of the eight in that slot. The first array
// follows the title; array k, for k of 1 and up, lies 8k slots after it.
func MiniPlace(i int) (slots, entry int) { return max(1, i/ArrayMinis*ArrayMinis), i % ArrayMinis }

// session is the common part of reading and writing a compressed session.
type session struct {
	title   CQE    // of which every entry is a variation
	counter uint16 // wqe_counter of entry 0, where the minis carry none
	index   uint64 // of entry 0
	log     uint
	format  MiniFormat
	i       int // entries so far
}

// entry is the entry that m stands for at the session's next place.
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

// mini holds the differences between c and the title that the format can tell.
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
// It is a value and allocates nothing.
type Expander struct {
	session
	n int
}

// Expand begins a session of the older layout: title is the entry of index in
// a ring of 1<<log entries. It returns an error if title is not a title, or
// stands for more entries than the ring has.
//
// A poller then calls Next once for each mini, from the places that [MiniPlace]
// tells, and advances by the number of entries. The device wrote only some of the
// slots that the poller skips, so the poller must set their owner bits. The CQ of
// package hostpath does so by writing the entries back.
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

// Left is how many entries are still to come.
func (x *Expander) Left() int { return x.n - x.i }

// Next returns the entry that m stands for. ok is false when none is left.
func (x *Expander) Next(m Mini) (c CQE, ok bool) {
	if x.i >= x.n {
		return CQE{}, false
	}
	c = x.entry(m)
	x.i++
	return c, true
}

// A Compressor makes minis of entries that share a title. It is a value and
// allocates nothing.
type Compressor struct{ session }

// Compress begins a session of the older layout with first, the entry of
// index in a ring of 1<<log entries. Add takes first too.
func Compress(first *CQE, index uint64, log uint, f MiniFormat) Compressor {
	return Compressor{session{*first, first.Counter, index, log, f, 0}}
}

// Add returns the mini of the session's next entry. ok is false, and nothing
// was added, if c cannot be told from the title and a mini alone: another
// queue, a solicited entry, an error, inline data, another timestamp.
func (x *Compressor) Add(c *CQE) (m Mini, ok bool) {
	m = x.mini(c)
	if c.OpOwn.Opcode() > RespSendInv || x.entry(m) != *c {
		return Mini{}, false
	}
	x.i++
	return m, true
}

// Title is the entry to write at the first slot, after the minis. A session
// is worth writing from two entries up: with one, the minis would take a slot
// of the next.
func (x *Compressor) Title() CQE {
	t := x.title
	t.OpOwn = MakeOpOwn(t.OpOwn.Opcode(), FormatCompressed, false, Owner(x.index, x.log))
	t.ByteCount = uint32(x.i)
	return t
}
