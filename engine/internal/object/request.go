//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// RequesterTail returns the tail of a requester's completion.
func RequesterTail(op wqe.Opcode, qpn uint32, counter uint16) cqe.Tail {
	return cqe.MakeTail(qpn, uint8(op), counter, 0, cqe.MakeOpOwn(cqe.Req, cqe.FormatPlain, false, 0))
}

// A work request with a peer is checked in two halves, as in the InfiniBand Architecture
// Specification (chapter 9). The requester fetches and checks the WQE, gathers the local
// memory, and sends the request (execution/requester.go). The responder checks its queue pair, its
// keys and its receives, and answers (execution/responder.go). Only a request and an answer pass
// between the two, and both could travel in packets. Both halves are in one engine, so there are no
// packets: the requester calls the responder, and the bytes are moved once.
//
// An answer holds no explanation. The responder itself explains what it refuses, to both
// clients: to its own client it explains everything, and to the requester's client as much as
// that client may know.

// An Answer is the responder's answer to a request. It is the syndrome of an AETH
// (InfiniBand Architecture Specification, 9.7.5.2.4) or one of three values that say why no
// such syndrome comes.
type Answer uint8

// Answers. The low five bits of AnswerRNR are the code of the responder's
// min_rnr_timer.
const (
	AnswerACK            Answer = 0x00
	AnswerRNR            Answer = 0x20 // no receive is posted: request again after the timer
	AnswerInvalidRequest Answer = 0x61
	AnswerRemoteAccess   Answer = 0x62
	AnswerOperation      Answer = 0x63 // the responder could not complete the request

	AnswerNone  Answer = 0xff // there is no such queue pair, or it is not connected with the requester
	AnswerDrop  Answer = 0xfe // on an unreliable transport: the responder takes no message
	AnswerAgain Answer = 0xfd // the responder was too busy: request again in the next step
)

// RNR reports whether an answer is an RNR NAK. If it is, timer is the code of the RNR
// timer.
func (a Answer) RNR() (timer uint8, ok bool) { return uint8(a) & 0x1f, a&^0x1f == AnswerRNR }

// String returns the answer in words.
func (a Answer) String() string {
	switch a {
	case AnswerACK:
		return "ACK"
	case AnswerInvalidRequest:
		return "NAK: invalid request"
	case AnswerRemoteAccess:
		return "NAK: remote access error"
	case AnswerOperation:
		return "NAK: remote operation error"
	}
	if _, ok := a.RNR(); ok {
		return "RNR NAK"
	}
	return "no answer"
}

// A Verdict is the result of checking a WQE.
type Verdict uint8

const (
	Accepted Verdict = iota // the bytes of the WQE can be moved
	Lost                    // on an unreliable transport: the message is lost, and the WQE succeeds
	Waiting                 // the queue waits for its peer, or is visited again
	Failed                  // the WQE has completed with an error; its stream or queue has stopped
)

// TooShort reports whether a WQE lacks segments that its opcode needs.
func (q *QP) TooShort(j *Job, info *wqe.Info) bool {
	return j.Head.DS() < info.LeastUnits(wqe.Transport(q.Transport))
}

// Syndrome returns the syndrome that the requester's completion has after this NAK.
func (a Answer) Syndrome() cqe.Syndrome {
	switch a {
	case AnswerInvalidRequest:
		return cqe.RemoteInvalidRequest
	case AnswerRemoteAccess:
		return cqe.RemoteAccess
	}
	return cqe.RemoteOperation
}

// TooManyUnits reports whether the bad segment d is probably no data segment at all,
// because ds is too large. Either d is all zeros and comes after other segments, or d comes
// after the only result segment of an atomic.
func (j *Job) TooManyUnits(d wqe.Data) bool {
	op := j.Head.Opcode()
	switch {
	case op == wqe.OpMMO:
		return false
	case op.Info().Atomic():
		return j.Dst.N > 0
	}
	return d == wqe.Data{} && j.Src.N+j.Dst.N > 0
}

// ResponderTail returns the tail of a responder's completion.
func ResponderTail(qpn uint32, index uint16, op cqe.Opcode) cqe.Tail {
	return cqe.MakeTail(qpn, 0, index, 0, cqe.MakeOpOwn(op, cqe.FormatPlain, false, 0))
}

// Nak returns the NAK a. If q's transport is unreliable, it returns AnswerDrop, because no
// NAK is sent there.
func (q *QP) Nak(a Answer) Answer {
	if !q.Reliable() {
		return AnswerDrop
	}
	return a
}
