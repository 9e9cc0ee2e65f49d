//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/wqe"
)

// A work request with a peer is judged in two halves, as in the InfiniBand Architecture
// Specification (chapter 9). The requester fetches and checks the WQE, gathers the local
// memory, and asks (requester.go). The responder judges its queue pair, its keys and its
// receives, and answers (responder.go). Only a request and an answer pass between the two,
// and both could travel in packets. Both halves are in one engine, so there are no packets:
// the requester calls the responder, and the bytes are moved once.
//
// An answer holds no explanation. The responder itself explains what it refuses, to both
// clients: to its own client it explains everything, and to the requester's client as much as
// that client may know.

// A request is what a requester asks of a responder. It holds what the headers of
// packets would carry.
type request struct {
	op             wqe.Opcode
	solicited      bool
	fromQPN, toQPN uint32 // QPNs of the requester and the responder
	imm            uint32 // the immediate, or the key to invalidate, depending on op
	qkey           uint32 // if the request is a datagram: its queue key
	sl             uint8  // if it is a datagram of InfiniBand: its service level
	srqn           uint32 // on XRC: number of the responder's XSRQ
	rkey           uint32 // key of the responder's memory
	addr           uint64 // first address of that memory
	length         uint64 // bytes of the message, at most wqe.MaxMessage
	operand        []byte // if the request is an atomic: the bytes of the atomic segment in the WQE
}

// An answer is the responder's answer to a request. It is the syndrome of an AETH
// (InfiniBand Architecture Specification, 9.7.5.2.4) or one of three values that say why no
// such syndrome comes.
type answer uint8

// Answers. The low five bits of answerRNR are the code of the responder's
// min_rnr_timer.
const (
	answerACK            answer = 0x00
	answerRNR            answer = 0x20 // no receive is posted: ask again after the timer
	answerInvalidRequest answer = 0x61
	answerRemoteAccess   answer = 0x62
	answerOperation      answer = 0x63 // the responder could not complete the request

	answerNone  answer = 0xff // there is no such queue pair, or it is not connected with the requester
	answerDrop  answer = 0xfe // on an unreliable transport: the responder takes no message
	answerAgain answer = 0xfd // the responder was too busy: ask again in the next step
)

// rnr reports whether an answer is an RNR NAK. If it is, timer is the code of the RNR
// timer.
func (a answer) rnr() (timer uint8, ok bool) { return uint8(a) & 0x1f, a&^0x1f == answerRNR }

// String returns the answer in words.
func (a answer) String() string {
	switch a {
	case answerACK:
		return "ACK"
	case answerInvalidRequest:
		return "NAK: invalid request"
	case answerRemoteAccess:
		return "NAK: remote access error"
	case answerOperation:
		return "NAK: remote operation error"
	}
	if _, ok := a.rnr(); ok {
		return "RNR NAK"
	}
	return "no answer"
}

// A verdict is the result of judging a WQE.
type verdict uint8

const (
	accepted verdict = iota // the bytes of the WQE can be moved
	lost                    // on an unreliable transport: the responder does not take the message, and the WQE ends as if it had arrived
	waiting                 // nothing can be done now: the queue waits for its peer, or is visited again
	failed                  // the WQE has completed with an error, and its stream or the send queue has stopped
)
