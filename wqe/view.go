package wqe

import (
	"encoding/binary"
	"fmt"
)

// An Address says which segment the transport of a queue puts after the control
// segment. It is a property of the queue and is not in the WQE.
type Address uint8

// The addresses.
const (
	NoAddress    Address = iota // RC, UC
	AddressUD                   // an address vector with a qkey
	AddressDC                   // an address vector, full or compact, with an access key
	AddressXRC                  // the number of a shared receive queue
	AddressEth                  // raw packets: an Ethernet segment
	AddressUDEth                // UD with offloads (IPoIB): an address vector and an Ethernet segment
	AddressGuess                // infer from the bytes, for dumps; see [Parse]
)

var addressNames = [...]string{"none", "ud", "dc", "xrc", "eth", "ud+eth", "guess"}

// String returns a short name such as "ud".
func (a Address) String() string {
	if int(a) < len(addressNames) {
		return addressNames[a]
	}
	return fmt.Sprintf("address %d", uint8(a))
}

// A FormatError says which value makes it impossible to divide a WQE into segments.
type FormatError struct {
	Opcode  Opcode
	Offset  int    // offset of the field in the WQE
	Field   string // name of the field
	Found   uint64
	Allowed string
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("wqe: %s, byte %d: %s is %d, allowed: %s", e.Opcode, e.Offset, e.Field, e.Found, e.Allowed)
}

// A Segment is one part of a WQE. Bytes refers to the bytes of the WQE itself and
// covers whole units; inline data and inline headers include their padding.
type Segment struct {
	Kind   Kind
	Offset int // offset in the WQE
	Bytes  []byte
}

// InlineData returns the data of an inline segment, without header and padding.
func (s Segment) InlineData() []byte {
	return s.Bytes[InlineHead:][:InlineLength(ParseData((*[DataSize]byte)(s.Bytes)).ByteCount)]
}

// A View is a WQE divided into segments. [Parse] makes one. The View refers to the
// bytes that were given to Parse.
type View struct {
	Ctrl    Ctrl
	Address Address // the address that Parse got or inferred

	b     []byte // the WQE, DS units
	heads [4]head
	n     uint8  // number of heads
	tail  Kind   // kind of the segments after the heads: KindData, KindKLM, KindRaw or KindUnused
	list  uint16 // offset at which a tail of KindKLM ends
	off   uint16 // offset at which the tail starts
}

// head is a segment before the tail.
type head struct {
	kind     Kind
	off, end uint16
}

// Parse divides the WQE at the start of b into segments and checks that every
// segment fits. b must be a copy that no other thread can change, of at least DS units;
// use [Unwrap] to copy a WQE out of a ring. Bytes after the DS units are ignored. The
// error, if any, is a *FormatError.
//
// Parse checks the layout only. The caller decides whether the opcode may have inline
// data and whether to execute the opcode at all: see [Opcode.Info]. The units of an
// opcode without a public layout become one KindRaw segment. Units that an opcode does
// not use become one KindUnused segment.
//
// With AddressGuess, Parse tries all addresses and takes the one for which keys,
// lengths and addresses in memory look most likely. A compact address vector before
// plain data looks like a pointer, so infer takes it for a pointer.
func Parse(b []byte, a Address) (v View, err error) {
	if len(b) < CtrlSize {
		return View{}, &FormatError{Field: "length", Found: uint64(len(b)), Allowed: "at least 16, the control segment"}
	}
	v.Ctrl.parse((*[CtrlSize]byte)(b))
	n := int(v.Ctrl.DS) * UnitSize
	if n < CtrlSize || n > len(b) {
		return View{}, &FormatError{v.Ctrl.Opcode, 7, "ds", uint64(v.Ctrl.DS),
			fmt.Sprintf("1 to %d", min(len(b)/UnitSize, MaxUnits))}
	}
	v.b, v.Address = b[:n], a
	if a == AddressGuess {
		v.Address = infer(v.Ctrl, v.b)
	}
	if err = v.layOut(); err != nil {
		return View{}, err
	}
	return v, nil
}

// layOut divides v.b into segments, for the opcode in v.Ctrl and for v.Address. It
// works in place, because copying a View costs more than filling one.
func (v *View) layOut() error {
	v.off, v.list = CtrlSize, uint16(len(v.b))
	info := v.Ctrl.Opcode.Info()
	if err := v.layHeads(info); err != nil {
		return err
	}
	switch {
	case v.tail != KindNone: // already set by layHeads
	case info.DataMost > 0:
		v.tail = KindData
	case info.Operand != KindNone:
		v.tail = KindUnused
	default:
		v.tail = KindRaw
	}
	if v.tail != KindData {
		return nil
	}
	for off := int(v.off); off < len(v.b); {
		size := DataSize
		if n := binary.BigEndian.Uint32(v.b[off:]); n&InlineFlag != 0 {
			size = InlineUnits(InlineLength(n)) * UnitSize
		}
		if off+size > len(v.b) {
			return v.overrun(off)
		}
		off += size
	}
	return nil
}

// overrun returns the error for an inline segment that is longer than the rest of the
// WQE.
func (v *View) overrun(off int) error {
	n := InlineLength(binary.BigEndian.Uint32(v.b[off:]))
	return &FormatError{v.Ctrl.Opcode, off, "inline length", uint64(n),
		fmt.Sprintf("at most %d", len(v.b)-off-InlineHead)}
}

// layHeads lays out the segments before the tail.
func (v *View) layHeads(info *Info) error {
	eth := info.Eth
	if info.Address {
		switch v.Address {
		case AddressUD, AddressDC, AddressUDEth:
			if err := v.head(KindCompactAV, CompactAVSize); err != nil {
				return err
			}
			if av := ParseCompactAV((*[CompactAVSize]byte)(v.b[CtrlSize:])); av.Ext {
				v.n, v.off = 0, CtrlSize // replace the compact address vector by the full one
				if err := v.head(KindAV, AVSize); err != nil {
					return err
				}
			}
			eth = eth || v.Address == AddressUDEth
		case AddressXRC:
			if err := v.head(KindXRC, XRCSize); err != nil {
				return err
			}
		case AddressEth:
			eth = true
		}
	}
	if eth {
		if err := v.layEth(); err != nil {
			return err
		}
	}
	if info.Raddr {
		if err := v.head(KindRaddr, RaddrSize); err != nil {
			return err
		}
	}
	return v.layOperand(info.Operand)
}

// layEth lays out an Ethernet segment and its inline header.
func (v *View) layEth() error {
	at := int(v.off)
	if err := v.head(KindEth, EthSize); err != nil {
		return err
	}
	n := ParseEth((*[EthSize]byte)(v.b[at:])).HeaderLen()
	end := at + EthUnits(n)*UnitSize
	if end > len(v.b) {
		return &FormatError{v.Ctrl.Opcode, at + 12, "inline_hdr_sz", uint64(n),
			fmt.Sprintf("at most %d", len(v.b)-at-EthSize+2)}
	}
	v.heads[v.n-1].end, v.off = uint16(end), uint16(end)
	return nil
}

// layOperand lays out the operand of the opcode in the form that opmod chooses.
func (v *View) layOperand(k Kind) error {
	switch k {
	case KindNone, KindUnused:
		return nil
	case KindMaskedCS8, KindMaskedFA8:
		size := v.Ctrl.OperandSize()
		switch {
		case size == 0:
			return &FormatError{v.Ctrl.Opcode, 0, "opmod", uint64(v.Ctrl.OpMod), "8 (4 bytes), 9 or 0 (8 bytes)"}
		case size == 4 && k == KindMaskedCS8:
			k = KindMaskedCS4
		case size == 4:
			k = KindMaskedFA4
		}
	case KindWait:
		switch {
		case v.Ctrl.Opcode != OpWait || v.Ctrl.OpMod == OpModWaitCQ:
		case v.Ctrl.OpMod == OpModWaitData, v.Ctrl.OpMod == OpModWaitTime:
			k = KindWaitData
		default:
			v.tail = KindRaw
			return nil
		}
	case KindMMOMeta:
		if v.Ctrl.OpMod != OpModMMODMA {
			v.tail = KindRaw
			return nil
		}
	case KindUMRCtrl:
		return v.layUMR()
	}
	return v.head(k, k.Size())
}

// layUMR lays out the segments of a UMR and finds where its list ends.
func (v *View) layUMR() error {
	at := int(v.off)
	if err := v.head(KindUMRCtrl, UMRCtrlSize); err != nil {
		return err
	}
	if err := v.head(KindMkeyContext, MkeyContextSize); err != nil {
		return err
	}
	u := ParseUMRCtrl((*[UMRCtrlSize]byte)(v.b[at:]))
	v.tail = KindKLM
	if u.Flags&UMRInline == 0 && len(v.b)-int(v.off) == DataSize {
		v.tail = KindData // a pointer to the list, which is not in the WQE
	}
	if end := int(v.off) + int(u.KLMOctowords)*UnitSize; u.MkeyMask&MaskBSFEnable != 0 && end < len(v.b) {
		v.list = uint16(end) // a BSF follows, which has no public layout
	}
	return nil
}

// head appends one segment of kind k and of this size to v.heads.
func (v *View) head(k Kind, size int) error {
	end := int(v.off) + size
	if end > len(v.b) {
		return &FormatError{v.Ctrl.Opcode, int(v.off), "room for the " + k.String() + " segment",
			uint64(len(v.b) - int(v.off)), fmt.Sprintf("at least %d bytes", size)}
	}
	v.heads[v.n] = head{k, v.off, uint16(end)}
	v.n++
	v.off = uint16(end)
	return nil
}

// Find returns the segment of kind k that precedes the data segments or the list.
// A WQE has at most one such segment of each kind.
func (v *View) Find(k Kind) (Segment, bool) {
	for i := range v.heads[:v.n] {
		if h := &v.heads[i]; h.kind == k {
			return Segment{k, int(h.off), v.b[h.off:h.end]}, true
		}
	}
	return Segment{}, false
}

// Data returns the data segments of the WQE, or an empty list if it has none.
func (v *View) Data() DataList {
	if v.tail != KindData {
		return nil
	}
	return DataList(v.b[v.off:])
}

// A DataList iterates over the data segments of a send WQE, which may be pointers,
// inline data, or both. Set a DataList to the bytes of these segments in a private
// copy of the WQE.
type DataList []byte

// Next returns the next data segment. If d.Inline() is true, inline holds its data;
// otherwise d is a pointer. Next returns false at the end of the list. If l is not
// empty at that point, the list is malformed: its next inline segment is longer than
// the rest of the list.
func (l *DataList) Next() (d Data, inline []byte, ok bool) {
	rest := *l
	if len(rest) < DataSize {
		return Data{}, nil, false
	}
	d = ParseData((*[DataSize]byte)(rest))
	if !d.Inline() {
		*l = rest[DataSize:]
		return d, nil, true
	}
	n := InlineLength(d.ByteCount)
	size := InlineUnits(n) * UnitSize
	if size > len(rest) {
		return Data{}, nil, false
	}
	*l = rest[size:]
	return d, rest[InlineHead : InlineHead+n], true
}

// Segments returns an iterator over the segments after the control segment.
func (v *View) Segments() Segments { return Segments{v: v} }

// Segments iterates over the segments of a WQE, in order. Together the segments cover
// all bytes of the WQE after the control segment.
type Segments struct {
	v      *View
	i      int // number of heads returned so far
	off    int // offset of the tail's next segment, from v.off
	repeat int // entries of the last repeat block that are still to come
}

// Next returns the next segment, or false when there are no more.
func (s *Segments) Next() (Segment, bool) {
	v := s.v
	if s.i < int(v.n) {
		h := &v.heads[s.i]
		s.i++
		return Segment{h.kind, int(h.off), v.b[h.off:h.end]}, true
	}
	at := int(v.off) + s.off
	if at >= len(v.b) {
		return Segment{}, false
	}
	kind, size := v.tail, len(v.b)-at
	switch v.tail {
	case KindData:
		size = DataSize
		if d := ParseData((*[DataSize]byte)(v.b[at:])); d.Inline() {
			kind, size = KindInline, InlineUnits(InlineLength(d.ByteCount))*UnitSize
		}
	case KindKLM:
		if at < int(v.list) {
			kind, size = s.entry(at, v.b[at:v.list])
		} else {
			kind = KindRaw
		}
	}
	s.off += size
	return Segment{kind, at, v.b[at : at+size]}, true
}

// entry returns the kind and size of the next entry of a list. at is the offset of
// the entry in the WQE; rest holds the list from there to its end.
func (s *Segments) entry(at int, rest []byte) (Kind, int) {
	if s.repeat > 0 {
		s.repeat--
		return KindRepeatEntry, RepeatEntrySize
	}
	if at%BlockSize != 0 && len(rest) < BlockSize && zero(rest) {
		return KindPad, len(rest)
	}
	// Op is at the offset of a KLM's key, and 0x400 could be a key. So the other
	// fields must also be those of a repeat block.
	r := ParseRepeatBlock((*[RepeatBlockSize]byte)(rest))
	if n := int(r.NumEntries); r.Op == RepeatOp && r.Rsvd == 0 && n > 0 &&
		RepeatBlockSize+n*RepeatEntrySize <= len(rest) {
		s.repeat = n
		return KindRepeatBlock, RepeatBlockSize
	}
	return KindKLM, KLMSize
}

// zero reports whether all bytes of b are 0.
func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
