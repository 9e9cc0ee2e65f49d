package text

import (
	"fmt"
	"net/netip"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// CQE returns a CQE of 64 bytes in one line, without the queue pair and the index that it has.
func CQE(b *[cqe.Size]byte) string {
	c := cqe.ParseCQE(b)
	w := cqe.ParseWC(b)
	if !c.OpOwn.Opcode().IsError() && c.OpOwn.Format() == cqe.FormatCompressed {
		return fmt.Sprintf("%v, title of a compressed session of %s", w.Kind, count(uint64(c.ByteCount), "completion"))
	}
	switch w.Kind {
	case cqe.ReqErr, cqe.RespErr:
		s := w.Status.String() + " (" + w.Syndrome.Error() + fmt.Sprintf(", vendor 0x%x)", w.VendorErr)
		if w.Kind == cqe.ReqErr {
			s += " " + wqe.Opcode(w.WQEOpcode).String()
		}
		return s
	case cqe.Req:
		s := w.Status.String() + " " + wqe.Opcode(w.WQEOpcode).String()
		if w.HasByteLen() && w.ByteLen > 0 {
			s += ", " + count(uint64(w.ByteLen), "byte")
		}
		return s
	case cqe.RespWriteImm, cqe.RespSend, cqe.RespSendImm, cqe.RespSendInv:
		s := w.Status.String() + " " + w.Opcode.String() + ", " + count(uint64(w.ByteLen), "byte")
		switch {
		case w.Flags&cqe.WCWithImm != 0:
			s += fmt.Sprintf(", imm 0x%08x", w.Imm)
		case w.Flags&cqe.WCWithInv != 0:
			s += fmt.Sprintf(", invalidated rkey 0x%x", w.Imm)
		}
		if w.SrcQP != 0 && c.OpOwn.Format() == cqe.FormatPlain {
			s += fmt.Sprintf(", from qp 0x%x", w.SrcQP)
		}
		if c.OpOwn.Format() != cqe.FormatPlain {
			s += ", in the cqe"
		}
		if c.OpOwn.Solicited() {
			s += ", solicited"
		}
		return s
	}
	return w.Kind.String()
}

// GID returns a GID, as an IPv4 address if it is one.
func GID(b [16]byte) string { return netip.AddrFrom16(b).Unmap().String() }
