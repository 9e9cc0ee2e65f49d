//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/wqe"
)

// A work request with a peer is judged in two halves, as in the InfiniBand Architecture
// Specification (chapter 9). The requester fetches and checks the WQE, gathers the local
// memory, and asks (requester.go). The responder judges its queue pair, its keys and its
// receives, and answers (responder.go). Only a request and an answer pass between the
// two, and both could travel in packets. When both halves are in one engine there are
// no packets: the requester calls the responder, and the bytes are moved once.
//
// Explanations do not travel. The responder explains what it refuses: everything to its
// own client, and to the requester's client as much as that client may know.

// A request is what a requester asks of a responder. It holds what the headers of
// packets would carry.
type request struct {
	op             wqe.Opcode
	solicited      bool
	fromQPN, toQPN uint32 // QPNs of the requester and the responder
	imm            uint32 // the immediate, or the key to invalidate, as op has it
	qkey           uint32 // of a datagram
	rkey           uint32 // of the responder's memory, from addr on
	addr           uint64
	length         uint64 // bytes of the message, at most wqe.MaxMessage
	operand        []byte // of an atomic, as the WQE has it
}

// An answer is the responder's answer to a request: the syndrome of an AETH (InfiniBand
// Architecture Specification, 9.7.5.2.4), or one of three values for an answer that does
// not come.
type answer uint8

// Answers. The low five bits of answerRNR are the code of the responder's
// min_rnr_timer.
const (
	answerACK            answer = 0x00
	answerRNR            answer = 0x20 // no receive is posted: ask again after the timer
	answerInvalidRequest answer = 0x61
	answerRemoteAccess   answer = 0x62
	answerOperation      answer = 0x63 // the responder could not complete it

	answerNone  answer = 0xff // no such queue pair, or one that is not connected back
	answerDrop  answer = 0xfe // on an unreliable transport: the responder takes no message
	answerAgain answer = 0xfd // the responder was too busy: ask again in the next step
)

// rnr reports whether an answer is an RNR NAK, and the code of its timer.
func (a answer) rnr() (timer uint8, ok bool) { return uint8(a) & 0x1f, a&^0x1f == answerRNR }

// A verdict is the result of judging a WQE.
type verdict uint8

const (
	accepted verdict = iota // its bytes can be moved
	lost                    // on an unreliable transport the responder does not take it: it ends as if it had arrived
	waiting                 // nothing can be done now: the queue waits for its peer, or is visited again
	failed                  // it has completed with an error, and the send queue has stopped
)
