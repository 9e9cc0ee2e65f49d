package packet_test

import (
	"github.com/nicless/nicless/packet"
)

// A headerSet is all headers of a packet; nil for those that the opcode does not have.
type headerSet struct {
	BTH       packet.BTH
	XRCETH    *packet.XRCETH
	DETH      *packet.DETH
	RETH      *packet.RETH
	AtomicETH *packet.AtomicETH
	AETH      *packet.AETH
	AtomicAck *packet.AtomicAckETH
	Imm       *packet.ImmDt
	IETH      *packet.IETH
}

// parseHeaders reads the headers that the opcode of b has. b holds all of them.
func parseHeaders(b []byte) headerSet {
	h := headerSet{BTH: packet.ParseBTH((*[packet.BTHSize]byte)(b))}
	i := h.BTH.Opcode.Info()
	if i.XRCETH {
		v := packet.ParseXRCETH((*[packet.XRCETHSize]byte)(b[i.OffXRCETH:]))
		h.XRCETH = &v
	}
	if i.DETH {
		v := packet.ParseDETH((*[packet.DETHSize]byte)(b[i.OffDETH:]))
		h.DETH = &v
	}
	if i.RETH {
		v := packet.ParseRETH((*[packet.RETHSize]byte)(b[i.OffRETH:]))
		h.RETH = &v
	}
	if i.AtomicETH {
		v := packet.ParseAtomicETH((*[packet.AtomicETHSize]byte)(b[i.OffAtomicETH:]))
		h.AtomicETH = &v
	}
	if i.AETH {
		v := packet.ParseAETH((*[packet.AETHSize]byte)(b[i.OffAETH:]))
		h.AETH = &v
	}
	if i.AtomicAck {
		v := packet.ParseAtomicAckETH((*[packet.AtomicAckETHSize]byte)(b[i.OffAtomicAck:]))
		h.AtomicAck = &v
	}
	if i.Imm {
		v := packet.ParseImmDt((*[packet.ImmDtSize]byte)(b[i.OffImm:]))
		h.Imm = &v
	}
	if i.IETH {
		v := packet.ParseIETH((*[packet.IETHSize]byte)(b[i.OffIETH:]))
		h.IETH = &v
	}
	return h
}

// put writes the headers, one after the other in the order of the specification.
func (h headerSet) put() []byte {
	out := make([]byte, packet.BTHSize, packet.MaxHeaders)
	h.BTH.Put((*[packet.BTHSize]byte)(out))
	more := func(n int) []byte {
		out = append(out, make([]byte, n)...)
		return out[len(out)-n:]
	}
	if v := h.XRCETH; v != nil {
		v.Put((*[packet.XRCETHSize]byte)(more(packet.XRCETHSize)))
	}
	if v := h.DETH; v != nil {
		v.Put((*[packet.DETHSize]byte)(more(packet.DETHSize)))
	}
	if v := h.RETH; v != nil {
		v.Put((*[packet.RETHSize]byte)(more(packet.RETHSize)))
	}
	if v := h.AtomicETH; v != nil {
		v.Put((*[packet.AtomicETHSize]byte)(more(packet.AtomicETHSize)))
	}
	if v := h.AETH; v != nil {
		v.Put((*[packet.AETHSize]byte)(more(packet.AETHSize)))
	}
	if v := h.AtomicAck; v != nil {
		v.Put((*[packet.AtomicAckETHSize]byte)(more(packet.AtomicAckETHSize)))
	}
	if v := h.Imm; v != nil {
		v.Put((*[packet.ImmDtSize]byte)(more(packet.ImmDtSize)))
	}
	if v := h.IETH; v != nil {
		v.Put((*[packet.IETHSize]byte)(more(packet.IETHSize)))
	}
	return out
}
