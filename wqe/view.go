package wqe

import (
	"encoding/binary"
	"fmt"
)

// An Address is the segment that the transport of a queue puts first. It is a
// property of the queue and is not in the WQE.
type Address uint8

// The addresses.
const (
	NoAddress    Address = iota // RC, UC
	AddressUD                   // an address vector with a qkey
	AddressDC                   // an address vector, full or compact, with an access key
	AddressXRC                  // the number of a shared receive queue
	AddressEth                  // raw packets: an Ethernet segment
	AddressUDEth                // UD with offloads (IPoIB): both
	AddressGuess                // guess from the bytes, for dumps; see [Parse]
)

var addressNames = [...]string{"none", "ud", "dc", "xrc", "eth", "ud+eth", "guess"}

// String returns a short name such as "ud".
func (a Address) String() string {
	if int(a) < len(addressNames) {
		return addressNames[a]
	}
	return fmt.Sprintf("address %d", uint8(a))
}

// A FormatError is a value in a WQE that does not fit its layout into segments.
type FormatError struct {
	Opcode  Opcode
	Offset  int    // of the byte in the WQE
	Field   string // its name
	Found   uint64
	Allowed string
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("wqe: %s, byte %d: %s is %d, allowed: %s", e.Opcode, e.Offset, e.Field, e.Found, e.Allowed)
}

// A Segment is one part of a WQE. Its bytes are those of the WQE, in whole
// units: inline data and inline headers come with their padding.
type Segment struct {
	Kind   Kind
	Offset int // in the WQE
	Bytes  []byte
}

// InlineData returns the data of an inline segment without header and padding.
func (s Segment) InlineData() []byte {
	return s.Bytes[InlineHead:][:InlineLength(ParseData((*[DataSize]byte)(s.Bytes)).ByteCount)]
}

// A View is a WQE laid out into segments. [Parse] makes one. It refers to the
// bytes it was made from.
type View struct {
	Ctrl    Ctrl
	Address Address // which address the segments were laid out for

	b     []byte // the WQE, DS units
	heads [4]head
	n     uint8  // of heads
	tail  Kind   // of the segments after them: KindData, KindKLM, KindRaw or KindUnused, as long as there are bytes
	list  uint16 // where a tail of KindKLM ends
	off   uint16 // where the tail starts
}

// head is a segment before the tail.
type head struct {
	kind     Kind
	off, end uint16
}

// Parse lays out the WQE that starts with b[0] and checks that every segment
// fits into it. b must be a copy that no other party can change, unwrapped if it
// came from a ring, of at least DS units. Bytes behind them are ignored.
//
// Parse judges the layout only. The caller decides whether the opcode may have
// inline data, and whether it executes the opcode: see [Opcode.Info]. Units of an
// opcode without a public layout are one KindRaw segment, units that an opcode
// does not use one KindUnused segment.
//
// With AddressGuess the address comes from the bytes: the layout in which keys,
// lengths and addresses look most likely. A compact address vector in front of plain
// data looks like a pointer, and is taken for one. The error, if
// any, is a *FormatError.
func Parse(b []byte, a Address) (v View, err error) {
	if len(b) < CtrlSize {
		return View{}, &FormatError{Field: "length", Found: uint64(len(b)), Allowed: "at least 16, the control segment"}
	}
	v.Ctrl.parse((*[CtrlSize]byte)(b))
	n := int(v.Ctrl.DS) * UnitSize
	if n < CtrlSize || n > len(b) {
		return View{}, &FormatError{v.Ctrl.Opcode, 7, "ds", uint64(v.Ctrl.DS), fmt.Sprintf("1 to %d", min(len(b)/UnitSize, MaxUnits))}
	}
	v.b, v.Address = b[:n], a
	if a == AddressGuess {
		v.Address = guess(v.Ctrl, v.b)
	}
	if err = v.layOut(); err != nil {
		return View{}, err
	}
	return v, nil
}

// layOut lays out v.b, whose control segment is v.Ctrl, for v.Address. It works
// in place: copying a View costs more than filling it.
func (v *View) layOut() error {
	v.off, v.list = CtrlSize, uint16(len(v.b))
	info := v.Ctrl.Opcode.Info()
	if err := v.layHeads(info); err != nil {
		return err
	}
	switch {
	case v.tail != KindNone: // set with the heads
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

// overrun is the error of an inline segment that is longer than the WQE.
func (v *View) overrun(off int) error {
	n := InlineLength(binary.BigEndian.Uint32(v.b[off:]))
	return &FormatError{v.Ctrl.Opcode, off, "inline length", uint64(n), fmt.Sprintf("at most %d", len(v.b)-off-InlineHead)}
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
				v.n, v.off = 0, CtrlSize // the same address, all of it
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
		return &FormatError{v.Ctrl.Opcode, at + 12, "inline_hdr_sz", uint64(n), fmt.Sprintf("at most %d", len(v.b)-at-EthSize+2)}
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
		switch size := v.Ctrl.OperandSize(); {
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

// layUMR lays out a change of a key and says where its list ends.
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
		v.tail = KindData // the list is elsewhere, and this points at it
	}
	if end := int(v.off) + int(u.KLMOctowords)*UnitSize; u.MkeyMask&MaskBSFEnable != 0 && end < len(v.b) {
		v.list = uint16(end) // a BSF follows, which has no public layout
	}
	return nil
}

// head lays out one segment of a fixed size.
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

// Find returns the first segment of this kind before the data segments or
// list, which an opcode has at most once.
func (v *View) Find(k Kind) (Segment, bool) {
	for i := range v.heads[:v.n] {
		if h := &v.heads[i]; h.kind == k {
			return Segment{k, int(h.off), v.b[h.off:h.end]}, true
		}
	}
	return Segment{}, false
}

// Data returns the data segments of the WQE, an empty list if it has none.
func (v *View) Data() DataList {
	if v.tail != KindData {
		return nil
	}
	return DataList(v.b[v.off:])
}

// A DataList is the data segments of a send WQE: pointers and inline data,
// mixed. Set it to their bytes, out of a copy of the WQE.
type DataList []byte

// Next returns the next data segment: a pointer, or inline data, when
// d.Inline() is set. It returns false at the end of the list. A list that is
// not empty then is malformed: an inline segment is longer than the rest.
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

// Segments yields the segments of a WQE in order. Together they are all bytes
// of the WQE after the control segment.
type Segments struct {
	v      *View
	i      int // heads yielded
	off    int // of the next segment of the tail, less v.off
	repeat int // entries that the last repeat block still has
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

// entry returns the kind and size of the next entry of a list. rest goes to the
// list's end.
func (s *Segments) entry(at int, rest []byte) (Kind, int) {
	if s.repeat > 0 {
		s.repeat--
		return KindRepeatEntry, RepeatEntrySize
	}
	if at%BlockSize != 0 && len(rest) < BlockSize && zero(rest) {
		return KindPad, len(rest)
	}
	// Op stands where a KLM has its key, and 0x400 could be one: the rest of a
	// repeat block must hold as well.
	r := ParseRepeatBlock((*[RepeatBlockSize]byte)(rest))
	if n := int(r.NumEntries); r.Op == RepeatOp && r.Rsvd == 0 && n > 0 && RepeatBlockSize+n*RepeatEntrySize <= len(rest) {
		s.repeat = n
		return KindRepeatBlock, RepeatBlockSize
	}
	return KindKLM, KLMSize
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
