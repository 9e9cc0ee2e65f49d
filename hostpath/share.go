package hostpath

import "github.com/nicless/nicless/wqe"

// An Export is a queue pair in the form that an accelerator needs. Its queues are those that
// the host posts to and polls, not copies.
type Export struct {
	Send   *SharedSQ
	SendCQ *CQ
	Sink   SGE // 8 bytes of local memory that receive results that are not read

	// Err returns why no further send will complete, or nil if sends can complete.
	Err func() error

	// Wake wakes the engine if it sleeps. The accelerator calls it after each Ring.
	Wake func()
}

// A Raw is the shared memory of a queue pair, for a program that writes WQEs byte by byte.
// Such a program must do all posting and polling of the queue pair itself, because the
// counts of SQ, RQ and CQ do not include what it posts and polls.
type Raw struct {
	QPN      uint32
	Send     []byte // ring of blocks of 64 bytes
	Recv     []byte // ring of Receives entries; nil: receives come from an SRQ
	Receives int
	Record   []byte // doorbell record of the QP, 8 bytes: the receive word, then the send word
	Register []byte // doorbell register, two halves of 256 bytes
	SendCQ   RawCQ
	RecvCQ   RawCQ
}

// A RawCQ is the shared memory of a completion queue.
type RawCQ struct {
	Ring      []byte
	EntrySize int
	Record    []byte // doorbell record of the CQ, 8 bytes: the consumer index, then the arm word
}

// SendParams returns parameters for SendWQE, with the fields of the send queue filled in.
func (r *Raw) SendParams() WQEParams {
	return WQEParams{QPNum: r.QPN, Buf: r.Send, DBRec: r.Record, WQECnt: uint32(len(r.Send) / wqe.BlockSize)}
}

// RecvParams returns parameters for RecvWQE, with the fields of the receive queue filled in.
func (r *Raw) RecvParams() WQEParams {
	return WQEParams{QPNum: r.QPN, Buf: r.Recv, DBRec: r.Record, WQECnt: uint32(r.Receives)}
}

// PollParams returns parameters for PollCQE, which then checks entry ci of the queue.
func (r *RawCQ) PollParams(ci uint32) CQEPollParams {
	return CQEPollParams{
		CQEBuf: r.Ring, CQESize: uint32(r.EntrySize), ConsumerIndex: ci,
		CQECnt: uint32(len(r.Ring) / r.EntrySize), DBRec: r.Record,
	}
}
