package cqe

import "github.com/nicless/nicless/wqe"

// Opcodes of send WQEs that the tests of this package use.
const (
	opRDMAWrite = uint8(wqe.OpRDMAWrite)
	opSend      = uint8(wqe.OpSend)
	opSendImm   = uint8(wqe.OpSendImm)
	opRDMARead  = uint8(wqe.OpRDMARead)
	opAtomicFA  = uint8(wqe.OpAtomicFA)
	opAtomicCS  = uint8(wqe.OpAtomicCS)
)
