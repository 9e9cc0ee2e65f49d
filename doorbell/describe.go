package doorbell

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/nicless/nicless/field"
)

// Kind says which record, word or register some bytes are.
type Kind string

// Kinds, and how many bytes each takes.
const (
	QPRecord   Kind = "qp_dbrec"     // 8 for both words; 4 for either word alone
	QPRecvWord Kind = "qp_dbrec[0]"  // 4
	QPSendWord Kind = "qp_dbrec[1]"  // 4
	SRQRecord  Kind = "srq_dbrec"    // 4
	SRQWord    Kind = "srq_dbrec[0]" // 4
	CQRecord   Kind = "cq_dbrec"     // 8
	CQCIWord   Kind = "cq_dbrec[0]"  // 4
	CQArmWord  Kind = "cq_dbrec[1]"  // 4
	CQArm      Kind = "cq_arm"       // 8 for the register; 12 for the record's arm word and then the register
	UARRing    Kind = "uar_db"       // 8
	BlueFlame  Kind = "bf"           // 64, 128, 192 or 256
)

// kinds has the function that describes each kind, for each length that the kind takes.
var kinds = []struct {
	kind     Kind
	len      int
	describe func(Kind, []byte) field.Tree
}{
	{QPRecord, 8, describeQP},
	{QPRecord, 4, describeCounter},
	{QPRecvWord, 4, describeCounter},
	{QPSendWord, 4, describeCounter},
	{SRQRecord, 4, describeCounter},
	{SRQWord, 4, describeCounter},
	{CQRecord, 8, describeCQ},
	{CQCIWord, 4, describeCI},
	{CQArmWord, 4, describeArmWord},
	{CQArm, 8, describeArmRegister},
	{CQArm, 12, describeArm},
	{UARRing, 8, describeRing},
	{BlueFlame, 64, describeBlueFlame},
	{BlueFlame, 128, describeBlueFlame},
	{BlueFlame, 192, describeBlueFlame},
	{BlueFlame, 256, describeBlueFlame},
}

// Describe lists the fields of a record, of one word of a record, or of a value written
// to a register. It returns an error and no tree if the kind is unknown or b does
// not have a length of that kind.
func Describe(kind Kind, b []byte) (field.Tree, error) {
	var lengths []string
	for _, k := range kinds {
		if k.kind != kind {
			continue
		}
		if k.len == len(b) {
			return k.describe(kind, b), nil
		}
		lengths = append(lengths, fmt.Sprint(k.len))
	}
	if lengths == nil {
		return nil, fmt.Errorf("doorbell: kind %q; one of %s", kind, strings.Join(kindNames(), ", "))
	}
	return nil, fmt.Errorf("doorbell: %d bytes; %s is %s", len(b), kind, strings.Join(lengths, " or "))
}

func kindNames() (names []string) {
	for i, k := range kinds {
		if i == 0 || kinds[i-1].kind != k.kind {
			names = append(names, string(k.kind))
		}
	}
	return names
}

func register(kind Kind) field.Field { return field.Field{Name: "register", Value: string(kind)} }

func word(b []byte, off int) uint32 { return binary.BigEndian.Uint32(b[off:]) }

// rawWord shows all 32 bits of a word. meant is the part of the word that a device uses.
func rawWord(off int, w, meant uint32) field.Field {
	f := field.Field{Offset: off, Len: 4, Name: "raw", Value: field.Hex32(w), Text: "as stored"}
	if w != meant {
		f.Text = "as stored; the high bits do not count"
	}
	return f
}

// counter describes a word that holds a counter of 16 bits.
func counter(kind Kind, b []byte, off int) field.Tree {
	w := word(b, off)
	text := map[Kind]string{
		QPRecvWord: "receives posted", QPSendWord: "next free send block",
		SRQWord: "receives posted", SRQRecord: "receives posted",
	}[kind]
	if text == "" {
		text = "receives posted, or next free send block"
	}
	return field.Tree{
		register(kind),
		rawWord(off, w, uint32(Counter(w))),
		{Name: "counter", Value: Counter(w), Text: text},
	}
}

// consumer describes the word that holds the consumer index of a CQ.
func consumer(kind Kind, b []byte, off int) field.Tree {
	w := word(b, off)
	return field.Tree{
		register(kind),
		rawWord(off, w, CI(w)),
		{Name: "counter", Value: CI(w), Text: "completions taken"},
	}
}

// arm describes the parts of an arm word.
func arm(b []byte, off int) field.Tree {
	a := ParseArm(word(b, off))
	solicited, text := uint8(0), "fire for any completion"
	if a.Solicited {
		solicited, text = 1, "fire for solicited completions and errors"
	}
	t := field.Tree{
		{Offset: off, Len: 1, Name: "arm_sn", Value: a.SN, Text: "arms with this number before an event are one"},
		{Name: "cmd_solicited", Value: solicited, Text: text},
		{Offset: off + 1, Len: 3, Name: "ci", Value: a.CI, Text: "from this completion on"},
	}
	if a.Rsvd != 0 {
		t = append(t, field.Field{Name: "rsvd", Value: field.Hex32(a.Rsvd), Text: "reserved bits that are set"})
	}
	return t
}

func describeCounter(kind Kind, b []byte) field.Tree { return counter(kind, b, 0) }
func describeCI(kind Kind, b []byte) field.Tree      { return consumer(kind, b, 0) }

func describeArmWord(kind Kind, b []byte) field.Tree {
	return append(field.Tree{register(kind)}, arm(b, 0)...)
}

func describeQP(kind Kind, b []byte) field.Tree {
	return field.Tree{
		register(kind),
		{Offset: 0, Name: "recv", Text: "word 0", Sub: counter(QPRecvWord, b, 4*RecvWord)},
		{Offset: 4, Name: "send", Text: "word 1", Sub: counter(QPSendWord, b, 4*SendWord)},
	}
}

func describeCQ(kind Kind, b []byte) field.Tree {
	return field.Tree{
		register(kind),
		{Offset: 0, Name: "set_ci", Text: "word 0", Sub: consumer(CQCIWord, b, 4*CIWord)},
		{Offset: 4, Name: "arm", Text: "word 1", Sub: append(field.Tree{register(CQArmWord)}, arm(b, 4*ArmWord)...)},
	}
}

// armRegister describes the 8 bytes of the CQ arm register.
func armRegister(kind Kind, b []byte, off int) field.Tree {
	r := ArmRegister(binary.BigEndian.Uint64(b[off:]))
	t := append(field.Tree{register(kind)}, arm(b, off)...)
	t = append(t, field.Field{Offset: off + 4, Len: 4, Name: "cqn", Value: r.CQN(),
		Text: fmt.Sprintf("0x%06x", r.CQN())})
	if high := uint32(r) &^ CIMask; high != 0 {
		t = append(t, field.Field{Name: "cqn_rsvd", Value: field.Hex32(high), Text: "reserved bits that are set"})
	}
	return t
}

func describeArmRegister(kind Kind, b []byte) field.Tree { return armRegister(kind, b, 0) }

// describeArm describes an arm request as a whole: the record's word and the register.
// It lists the fields of the register. If the record's word differs from the register,
// it lists the fields of the record's word too.
func describeArm(kind Kind, b []byte) field.Tree {
	record := field.Field{Offset: 0, Len: 4, Text: "the same, in the record"}
	if word(b, 0) != word(b, 4) {
		record = field.Field{Name: "record", Text: "NOT what the register says",
			Sub: append(field.Tree{register(CQArmWord)}, arm(b, 0)...)}
	}
	return append(field.Tree{record}, armRegister(kind, b, 4)...)
}

// ring describes the first half of a control segment. A part in which clients write
// different things has no Name.
func ring(kind Kind, b []byte) (Ring, field.Tree) {
	r := ParseRing((*[RingSize]byte)(b))
	opmod := "opmod"
	if r.OpMod() != 0 {
		opmod = "opmod, or bits of an index that was not masked"
	}
	return r, field.Tree{
		register(kind),
		{Offset: 0, Len: 1, Text: opmod},
		{Offset: 1, Len: 2, Name: "index_field", Value: r.Index(), Text: "last WQE posted, or next free block"},
		{Offset: 3, Len: 1, Text: "opcode, if any"},
		{Offset: 4, Len: 3, Name: "qpn", Value: r.QPN(), Text: fmt.Sprintf("0x%06x", r.QPN())},
	}
}

func describeRing(kind Kind, b []byte) field.Tree {
	r, t := ring(kind, b)
	return append(t,
		field.Field{Offset: 7, Len: 1, Text: "ds, if any"},
		field.Field{Name: "word0", Value: field.Hex32(r.Word0())},
		field.Field{Name: "word1", Value: field.Hex32(r.Word1())})
}

func describeBlueFlame(kind Kind, b []byte) field.Tree {
	r, t := ring(kind, b)
	size := 16 * int(r.DS())
	text := fmt.Sprintf("%d bytes of WQE", size)
	if size > len(b) {
		text += ", more than was copied"
	}
	t = append(t, field.Field{Offset: 7, Len: 1, Name: "ds", Value: r.DS(), Text: text})
	end := min(max(size, RingSize), len(b))
	if end > RingSize {
		t = append(t, field.Field{Offset: RingSize, Len: end - RingSize, Text: "rest of the WQE"})
	}
	if end < len(b) {
		t = append(t, field.Field{Offset: end, Len: len(b) - end, Text: "stale"})
	}
	return t
}
