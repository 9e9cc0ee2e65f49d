package text

import (
	"fmt"

	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Packet returns a packet of RoCEv2 in one line. b begins with the BTH. It may end anywhere: headers that it
// does not have are left out. length is the length of the packet without ICRC.
func Packet(b []byte, length uint64) string {
	if len(b) < packet.BTHSize {
		return fmt.Sprintf("%d bytes, less than a BTH has", len(b))
	}
	h := packet.ParseBTH((*[packet.BTHSize]byte)(b))
	i := h.Opcode.Info()
	s := fmt.Sprintf("%v to qp 0x%x psn %d", h.Opcode, h.DestQP, h.PSN)
	has := func(present bool, at uint8, size int) bool { return present && len(b) >= int(at)+size }
	if at := i.OffXRCETH; has(i.XRCETH, at, packet.XRCETHSize) {
		s += fmt.Sprintf(", srq 0x%x", packet.ParseXRCETH((*[packet.XRCETHSize]byte)(b[at:])).SRQN)
	}
	if at := i.OffDETH; has(i.DETH, at, packet.DETHSize) {
		d := packet.ParseDETH((*[packet.DETHSize]byte)(b[at:]))
		s += fmt.Sprintf(", from qp 0x%x qkey 0x%x", d.SrcQP, d.QKey)
	}
	if at := i.OffRETH; has(i.RETH, at, packet.RETHSize) {
		r := packet.ParseRETH((*[packet.RETHSize]byte)(b[at:]))
		if i.Atomic {
			s += fmt.Sprintf(", raddr 0x%x rkey 0x%x%s", r.Addr, r.RKey,
				operands(h.Opcode.Operation(), r.Length, b[at+packet.RETHSize:]))
		} else {
			s += fmt.Sprintf(", raddr 0x%x rkey 0x%x, %s in all", r.Addr, r.RKey, count(uint64(r.Length), "byte"))
		}
	}
	if at := i.OffAtomicETH; has(i.AtomicETH, at, packet.AtomicETHSize) {
		a := packet.ParseAtomicETH((*[packet.AtomicETHSize]byte)(b[at:]))
		s += fmt.Sprintf(", raddr 0x%x rkey 0x%x, ", a.Addr, a.RKey)
		if h.Opcode.Operation() == packet.FetchAdd {
			s += fmt.Sprintf("add 0x%x", a.SwapAdd)
		} else {
			s += fmt.Sprintf("compare 0x%x swap 0x%x", a.Compare, a.SwapAdd)
		}
	}
	if at := i.OffAETH; has(i.AETH, at, packet.AETHSize) {
		a := packet.ParseAETH((*[packet.AETHSize]byte)(b[at:]))
		s += fmt.Sprintf(", %v, msn %d", a, a.MSN)
	}
	if at := i.OffAtomicAck; has(i.AtomicAck, at, packet.AtomicAckETHSize) {
		a := packet.ParseAtomicAckETH((*[packet.AtomicAckETHSize]byte)(b[at:]))
		s += fmt.Sprintf(", original 0x%x", a.Original)
	}
	if at := i.OffImm; has(i.Imm, at, packet.ImmDtSize) {
		s += fmt.Sprintf(", imm 0x%08x", uint32(packet.ParseImmDt((*[packet.ImmDtSize]byte)(b[at:]))))
	}
	if at := i.OffIETH; has(i.IETH, at, packet.IETHSize) {
		s += fmt.Sprintf(", invalidates rkey 0x%x", packet.ParseIETH((*[packet.IETHSize]byte)(b[at:])).RKey)
	}
	if n := int64(length) - int64(i.HeaderSize) - int64(h.Pad); i.Payload && !i.Atomic && n > 0 {
		s += ", " + count(uint64(n), "byte")
	}
	if h.AckReq {
		s += ", wants an ack"
	}
	return s
}

// operands returns what a masked atomic does to a word of so many bytes. b is what the packet has behind its
// headers, which may be less than the operands.
func operands(op packet.Operation, word uint32, b []byte) string {
	swaps := op == packet.MaskedCompareSwap
	switch {
	case swaps && word == 8 && len(b) >= wqe.MaskedCS8Size:
		o := wqe.ParseMaskedCS8((*[wqe.MaskedCS8Size]byte)(b))
		return fmt.Sprintf(", compare 0x%x/0x%x swap 0x%x/0x%x", o.Compare, o.CompareMask, o.Swap, o.SwapMask)
	case swaps && word == 4 && len(b) >= wqe.MaskedCS4Size:
		o := wqe.ParseMaskedCS4((*[wqe.MaskedCS4Size]byte)(b))
		return fmt.Sprintf(", 4 bytes: compare 0x%x/0x%x swap 0x%x/0x%x", o.Compare, o.CompareMask, o.Swap,
			o.SwapMask)
	case !swaps && word == 8 && len(b) >= wqe.MaskedFA8Size:
		o := wqe.ParseMaskedFA8((*[wqe.MaskedFA8Size]byte)(b))
		return fmt.Sprintf(", add 0x%x boundary 0x%x", o.Add, o.Boundary)
	case !swaps && word == 4 && len(b) >= wqe.MaskedFA4Size:
		o := wqe.ParseMaskedFA4((*[wqe.MaskedFA4Size]byte)(b))
		return fmt.Sprintf(", 4 bytes: add 0x%x boundary 0x%x", o.Add, o.Boundary)
	}
	return ", on " + count(uint64(word), "byte")
}
