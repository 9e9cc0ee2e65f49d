package text

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/wqe"
)

// mostShown is how many inline bytes are shown. The rest is three dots.
const mostShown = 16

// mostSegments is how many segments of a WQE are shown. A WQE has room for 62.
const mostSegments = 16

// WQE returns a WQE in one line: opcode, operands and flags. a is what Queue.Address of its queue pair
// returns.
func WQE(w *objects.WQE, a wqe.Address) string {
	name := w.Ctrl.Opcode.String()
	if !w.Whole() {
		return fmt.Sprintf("%s of %d units, of which %d bytes are known", name, w.Ctrl.DS, len(w.Bytes))
	}
	v, err := wqe.Parse(w.Bytes, a)
	if err != nil {
		return fmt.Sprintf("%s, which cannot be divided: %v", name, err)
	}
	parts := []string{}
	n := 0
	for it := v.Segments(); ; n++ {
		s, ok := it.Next()
		if !ok {
			break
		}
		if n < mostSegments && s.Kind != wqe.KindUnused && s.Kind != wqe.KindPad {
			parts = append(parts, segment(&v, s))
		}
	}
	if n > mostSegments {
		parts = append(parts, fmt.Sprintf("and %d more segments", n-mostSegments))
	}
	parts = append(parts, flags(&v)...)
	return strings.TrimRight(name+" "+strings.Join(parts, ", "), " ")
}

// flags returns what the control segment says beside the opcode.
func flags(v *wqe.View) (list []string) {
	switch c := v.Ctrl; c.Opcode.Info().Imm {
	case wqe.ImmData:
		list = append(list, fmt.Sprintf("imm 0x%08x", c.Imm))
	case wqe.ImmInvalRKey:
		list = append(list, fmt.Sprintf("invalidates rkey 0x%x", c.Imm))
	case wqe.ImmMkey:
		list = append(list, fmt.Sprintf("mkey 0x%x", c.Imm))
	}
	switch v.Ctrl.Completion() << 2 {
	case wqe.CEOnError:
	case wqe.CEFirstError:
		list = append(list, "signaled on the first error")
	case wqe.CEAlways:
		list = append(list, "signaled")
	case wqe.CEEvent:
		list = append(list, "signaled with an event")
	}
	if v.Ctrl.Solicited() != 0 {
		list = append(list, "solicited")
	}
	if f := v.Ctrl.Fence(); f != 0 {
		const reserved = "reserved fence"
		list = append(list, [8]string{1: "small fence", 2: "fence after reads", 3: "strong fence",
			4: "fence", 5: reserved, 6: reserved, 7: reserved}[f])
	}
	return list
}

// segment returns a segment in a few words. The sizes of the segments are those of their kinds: Parse has
// checked that.
func segment(v *wqe.View, s wqe.Segment) string {
	b := s.Bytes
	switch s.Kind {
	case wqe.KindRaddr:
		r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(b))
		return fmt.Sprintf("raddr 0x%x rkey 0x%x", r.Addr, r.RKey)
	case wqe.KindData:
		d := wqe.ParseData((*[wqe.DataSize]byte)(b))
		return fmt.Sprintf("%s at 0x%x lkey 0x%x", count(d.Length(), "byte"), d.Addr, d.LKey)
	case wqe.KindInline:
		d := s.InlineData()
		return fmt.Sprintf("%s inline %s", count(uint64(len(d)), "byte"), Hex(d))
	case wqe.KindAtomic:
		o := wqe.ParseAtomic((*[wqe.AtomicSize]byte)(b))
		if v.Ctrl.Opcode == wqe.OpAtomicFA {
			return fmt.Sprintf("add 0x%x", o.SwapAdd)
		}
		return fmt.Sprintf("compare 0x%x swap 0x%x", o.Compare, o.SwapAdd)
	case wqe.KindMaskedCS4:
		o := wqe.ParseMaskedCS4((*[wqe.MaskedCS4Size]byte)(b))
		return fmt.Sprintf("compare 0x%x/0x%x swap 0x%x/0x%x", o.Compare, o.CompareMask, o.Swap, o.SwapMask)
	case wqe.KindMaskedCS8:
		o := wqe.ParseMaskedCS8((*[wqe.MaskedCS8Size]byte)(b))
		return fmt.Sprintf("compare 0x%x/0x%x swap 0x%x/0x%x", o.Compare, o.CompareMask, o.Swap, o.SwapMask)
	case wqe.KindMaskedFA4:
		o := wqe.ParseMaskedFA4((*[wqe.MaskedFA4Size]byte)(b))
		return fmt.Sprintf("add 0x%x boundary 0x%x", o.Add, o.Boundary)
	case wqe.KindMaskedFA8:
		o := wqe.ParseMaskedFA8((*[wqe.MaskedFA8Size]byte)(b))
		return fmt.Sprintf("add 0x%x boundary 0x%x", o.Add, o.Boundary)
	case wqe.KindXRC:
		return fmt.Sprintf("srq 0x%x", wqe.ParseXRC((*[wqe.XRCSize]byte)(b)).SRQN)
	case wqe.KindWait:
		o := wqe.ParseWait((*[wqe.WaitSize]byte)(b))
		if v.Ctrl.Opcode == wqe.OpWait {
			return fmt.Sprintf("until cq 0x%x reaches %d", o.Number, o.Index)
		}
		return fmt.Sprintf("qp 0x%x up to %d", o.Number, o.Index)
	case wqe.KindUMRCtrl:
		return fmt.Sprintf("mask 0x%x", wqe.ParseUMRCtrl((*[wqe.UMRCtrlSize]byte)(b)).MkeyMask)
	case wqe.KindMkeyContext:
		m := wqe.ParseMkeyContext((*[wqe.MkeyContextSize]byte)(b))
		return fmt.Sprintf("%s at 0x%x", count(m.Len, "byte"), m.StartAddr)
	case wqe.KindKLM:
		k := wqe.ParseKLM((*[wqe.KLMSize]byte)(b))
		return fmt.Sprintf("%s at 0x%x mkey 0x%x", count(uint64(k.ByteCount), "byte"), k.Addr, k.MKey)
	}
	return address(v, s)
}

// address is segment for segments that say where a message goes, and for the rest.
func address(v *wqe.View, s wqe.Segment) string {
	if s.Kind != wqe.KindAV && s.Kind != wqe.KindCompactAV {
		return s.Kind.String()
	}
	a := wqe.ParseCompactAV((*[wqe.CompactAVSize]byte)(s.Bytes))
	var to string
	if v.Address == wqe.AddressDC {
		to = fmt.Sprintf("to dct 0x%x key 0x%x", a.DQP, a.Key)
	} else {
		to = fmt.Sprintf("to qp 0x%x qkey 0x%x", a.DQP, a.QKey())
	}
	if s.Kind == wqe.KindAV {
		to += " gid " + GID(wqe.ParseAV((*[wqe.AVSize]byte)(s.Bytes)).RGID)
	}
	return to
}

// Hex returns the first bytes in hexadecimal digits.
func Hex(b []byte) string {
	if len(b) > mostShown {
		return fmt.Sprintf("%x…", b[:mostShown])
	}
	return fmt.Sprintf("%x", b)
}
