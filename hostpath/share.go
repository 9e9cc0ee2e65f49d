package hostpath

import "github.com/nicless/nicless/wqe"

// An Export is a queue pair as an accelerator needs it: the same queues that
// the host posts to and polls, not copies.
type Export struct {
	Send   *SharedSQ
	SendCQ *CQ
	Sink   SGE // 8 bytes of local memory for results that are not used

	// Err returns why nothing will complete any more, or nil.
	Err func() error

	// Wake wakes the engine if it sleeps. It is called after each Ring.
	Wake func()
}

// A Raw is the shared memory of a queue pair, for a program that writes WQEs byte
// by byte. Such a program does all posting and polling of the queue pair itself:
// the host's own counts do not follow.
type Raw struct {
	QPN      uint32
	Send     []byte // ring of blocks of 64 bytes
	Recv     []byte // ring of Receives entries; nil: an SRQ
	Receives int
	Record   []byte // doorbell record of the QP, 8 bytes: receive word, send word
	Register []byte // doorbell register, two halves of 256 bytes
	SendCQ   RawCQ
	RecvCQ   RawCQ
}

// A RawCQ is the shared memory of a completion queue.
type RawCQ struct {
	Ring      []byte
	EntrySize int
	Record    []byte // doorbell record of the CQ, 8 bytes: consumer index, arm word
}

// SendParams returns parameters for SendWQE that name the send queue.
func (r *Raw) SendParams() WQEParams {
	return WQEParams{QPNum: r.QPN, Buf: r.Send, DBRec: r.Record, WQECnt: uint32(len(r.Send) / wqe.BlockSize)}
}

// RecvParams returns parameters for RecvWQE that name the receive queue.
func (r *Raw) RecvParams() WQEParams {
	return WQEParams{QPNum: r.QPN, Buf: r.Recv, DBRec: r.Record, WQECnt: uint32(r.Receives)}
}

// PollParams returns parameters for PollCQE that name entry ci of the queue.
func (r *RawCQ) PollParams(ci uint32) CQEPollParams {
	return CQEPollParams{
		CQEBuf: r.Ring, CQESize: uint32(r.EntrySize), ConsumerIndex: ci,
		CQECnt: uint32(len(r.Ring) / r.EntrySize), DBRec: r.Record,
	}
}
