package cqe

import "fmt"

// wqeOpcodeNames are the opcodes of send WQEs, for dumps only. The table that
// says what they do is package wqe's, which formats do not share.
var wqeOpcodeNames = [256]string{
	0x00: "NOP", opSendInval: "SEND_INVAL", opRDMAWrite: "RDMA_WRITE", opRDMAWriteImm: "RDMA_WRITE_IMM",
	opSend: "SEND", opSendImm: "SEND_IMM", opTSO: "TSO", 0x0f: "WAIT",
	opRDMARead: "RDMA_READ", opAtomicCS: "ATOMIC_CS", opAtomicFA: "ATOMIC_FA",
	0x14: "ATOMIC_MASKED_CS", 0x15: "ATOMIC_MASKED_FA", 0x17: "SEND_EN", 0x18: "BIND_MW",
	0x19: "FMR", 0x1b: "LOCAL_INVAL", 0x1f: "CONFIG_CMD", 0x20: "SET_PSV", 0x21: "GET_PSV",
	0x22: "CHECK_PSV", 0x23: "DUMP", 0x25: "UMR", 0x26: "RGET_PSV", 0x27: "RCHECK_PSV",
	0x28: "TAG_MATCHING", 0x29: "ENHANCED_MPSW", 0x2c: "FLOW_TBL_ACCESS", 0x2d: "ACCESS_ASO", 0x2f: "MMO",
}

func wqeOpcodeName(op uint8) string {
	if n := wqeOpcodeNames[op]; n != "" {
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
