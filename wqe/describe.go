package wqe

import (
	"fmt"

	"github.com/nicless/nicless/field"
)

var fences = [8]string{"none", "small: after earlier changes of keys", "after earlier reads and atomics",
	"strong: after all earlier WQEs", "small, and after earlier reads and atomics", "reserved", "reserved", "reserved"}

var completions = [4]string{"CQE only on error", "CQE only on the first error", "CQE always", "CQE always, and an event"}

// DescribeSend returns the fields of the send WQE at the start of b. Bytes of b
// after the WQE are ignored. If [Parse] fails, DescribeSend returns its error and the
// fields of the control segment, or no fields if b is shorter than a control segment.
func DescribeSend(b []byte, a Address) (field.Tree, error) {
	v, err := Parse(b, a)
	if err != nil {
		if len(b) < CtrlSize {
			return nil, err
		}
		return describeCtrl(ParseCtrl((*[CtrlSize]byte)(b))), err
	}
	t := describeCtrl(v.Ctrl)
	list := []field.Field{}
	end := CtrlSize
	unused := field.Field{}
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok {
			break
		}
		end = s.Offset + len(s.Bytes)
		if s.Kind == KindUnused {
			unused = field.Field{Offset: s.Offset, Len: len(s.Bytes), Text: "not used by this opcode"}
			continue
		}
		list = append(list, describe(s, v.Address))
	}
	t = append(t, field.Field{Name: "segments", List: list})
	if unused.Len > 0 {
		t = append(t, unused)
	}
	if end < len(b) {
		t = append(t, field.Field{Offset: end, Len: len(b) - end, Text: "after the WQE, ignored"})
	}
	return t, nil
}

func describeCtrl(c Ctrl) field.Tree {
	units := fmt.Sprintf("%d bytes", int(c.DS)*UnitSize)
	if c.Rsvd != 0 {
		units += fmt.Sprintf(", reserved bits %d", c.Rsvd)
	}
	return field.Tree{
		{Offset: 0, Len: 1, Name: "opmod", Value: c.OpMod, Text: opModText(c)},
		{Offset: 1, Len: 2, Name: "wqe_index", Value: c.Index, Text: "of the first block"},
		{Offset: 3, Len: 1, Name: "opcode", Value: uint8(c.Opcode), Text: c.Opcode.String()},
		{Offset: 4, Len: 3, Name: "qpn", Value: c.QPN, Text: fmt.Sprintf("0x%06x", c.QPN)},
		{Offset: 7, Len: 1, Name: "ds", Value: c.DS, Text: units},
		{Name: "wqebbs", Value: c.Blocks(), Text: "blocks of 64 bytes"},
		{Offset: 8, Len: 1, Name: "signature", Value: c.Sig},
		{Offset: 9, Len: 2, Name: "dci_stream", Value: c.Stream},
		{Offset: 11, Len: 1, Name: "fm_ce_se", Value: c.Flags},
		{Name: "fence", Value: c.Fence(), Text: fences[c.Fence()]},
		{Name: "ce", Value: c.Completion(), Text: completions[c.Completion()]},
		{Name: "solicited", Value: c.Solicited(), Text: [2]string{"no", "yes"}[c.Solicited()]},
		{Offset: 12, Len: 4, Name: "imm", Value: field.Hex32(c.Imm), Text: immTexts[c.Opcode.Info().Imm]},
	}
}

var immTexts = [...]string{
	ImmNone: "not used", ImmData: "immediate", ImmInvalRKey: "rkey to invalidate", ImmMkey: "mkey to change",
}

func opModText(c Ctrl) string {
	switch c.Opcode {
	case OpAtomicMaskedCS, OpAtomicMaskedFA:
		return fmt.Sprintf("%d bytes", c.OperandSize())
	case OpWait:
		if c.OpMod <= OpModWaitTime {
			return [...]string{"on a CQ", "on data", "for a time"}[c.OpMod]
		}
	case OpMMO:
		if c.OpMod == OpModMMODMA {
			return "DMA copy"
		}
	default:
		if c.OpMod != 0 {
			return "ignored"
		}
	}
	return ""
}

// DescribeRecv returns the fields of a receive entry. len(b) is the entry's stride, a
// power of two. srq says that the entry belongs to a shared receive queue. The error, if
// any, is a *FormatError.
func DescribeRecv(b []byte, srq bool) (field.Tree, error) {
	least, queue := DataSize, "rq"
	if srq {
		least, queue = SRQNextSize+DataSize, "srq"
	}
	if n := len(b); n < least || n&(n-1) != 0 {
		return nil, &FormatError{Field: "stride", Found: uint64(n),
			Allowed: fmt.Sprintf("a power of two from %d", least)}
	}
	t := field.Tree{{Name: "stride", Value: len(b), Text: "bytes"}, {Name: "queue", Value: queue}}
	segments := []field.Field{}
	at := 0
	if srq {
		s := Segment{KindSRQNext, 0, b[:SRQNextSize]}
		next := ParseSRQNext((*[SRQNextSize]byte)(s.Bytes)).Next
		t = append(t, field.Field{Name: "next_wqe_index", Value: next})
		segments = append(segments, describe(s, NoAddress))
		at = SRQNextSize
	}
	for list := RecvList(b[at:]); ; at += DataSize {
		if _, ok := list.Next(); !ok {
			break
		}
		segments = append(segments, describe(Segment{KindData, at, b[at : at+DataSize]}, NoAddress))
	}
	if at < len(b) {
		segments = append(segments, describe(Segment{KindEnd, at, b[at : at+DataSize]}, NoAddress))
		at += DataSize
	}
	t = append(t, field.Field{Name: "segments", List: segments})
	if at < len(b) {
		t = append(t, field.Field{Offset: at, Len: len(b) - at, Text: "after the end of the list, ignored"})
	}
	return t, nil
}
