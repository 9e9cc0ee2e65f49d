package cqe

import "fmt"

// wqeOpcodeName returns the vendor's name for the opcode of a send WQE.
func wqeOpcodeName(op uint8) string {
	if n := sendOpNames[op]; n != "" {
		return n
	}
	return fmt.Sprintf("unknown opcode 0x%02x", op)
}

func grhText(flags uint32) string {
	text := fmt.Sprintf("from qp 0x%06x", flags&Mask24)
	switch flags & grhMask {
	case GRHInBuffer:
		return text + ", GRH in the buffer"
	case GRHInCQE:
		return text + ", GRH in the entry"
	case 0:
		return text
	}
	return text + ", GRH"
}

func immText(op Opcode) string {
	switch op {
	case RespWriteImm, RespSendImm:
		return "immediate"
	case RespSendInv:
		return "invalidated rkey"
	}
	return ""
}

func byteCountText(c *CQE) string {
	if c.OpOwn.Format() == FormatCompressed && c.OpOwn.Opcode() != Invalid {
		return "entries in the session"
	}
	return "bytes"
}
