//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/packet"
)

const AETHEnd = packet.BTHSize + packet.AETHSize // bytes of headers of the answer

// Executed notes that the request that q expects, a SEND or WRITE of one packet, has been executed.
func (p *Port) Executed(q *QP, ask bool) {
	in := &q.Wire.In
	if ask {
		p.Owe(q) // rule: a WRITE that asks is acknowledged
	}
	in.Data = in.PSN
	in.Advance()
}

// Advance expects the packet after a whole message of one packet.
func (in *Inbound) Advance() {
	in.Silent = false // rule: an expected packet ends silence
	in.PSN = packet.AddPSN(in.PSN, 1)
	in.MSN++
}

// An AnswerDue is the answer of a READ or an atomic that the responder owes. Answers are sent in
// the order of their requests. A READ's memory is read when its answer is sent.
type AnswerDue struct {
	PSN    uint32 // of the request: that of the first packet of the answer
	MSN    uint32
	Addr   uint64
	Length uint32
	Sent   uint32 // packets sent so far
	RKey   uint32
	SRQN   uint32
	Atomic bool
	Again  bool   // it was asked for before
	Value  uint64 // of an atomic: the old value
}

// A Result is what an atomic has found. It is kept, because an atomic that was executed must not be
// executed again when its answer is lost.
type Result struct {
	PSN   uint32
	Valid bool
	Value uint64
}

// MostDue returns how many answers q's peer may ask for at a time.
func (in *Inbound) MostDue(q *QP) int {
	if n := int(q.Attr.MaxDestRdAtomic); n > 0 {
		return min(n, MostAnswers)
	}
	return 1
}

// Packets returns in how many packets n bytes travel.
func (w *Wire) Packets(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return uint32((uint64(n) + uint64(w.MTU) - 1) / uint64(w.MTU))
}

func (in *Inbound) OweAnswer(a AnswerDue) {
	in.Reads[(in.FirstDue+in.Due)%len(in.Reads)] = a
	in.Due++
	if !a.Again {
		in.Fresh++
	}
}

// Owes reports whether there are answers to send, or a NAK after them.
func (in *Inbound) Owes() bool { return in.Due > 0 || in.Unsaid }

// ForgetAnswers forgets the answers that are owed.
func (in *Inbound) ForgetAnswers() { in.Due, in.Fresh = 0, 0 }

// An Inbound is the receiving half of a queue pair on a wire.
type Inbound struct {
	PSN  uint32 // the PSN that is expected
	Data uint32 // the PSN of the latest SEND or WRITE packet before it, which acknowledgements name
	MSN  uint32 // number of messages so far
	Job  *Job   // the message under way, of which packets are still to come; nil: none

	Writes bool   // that message is a WRITE
	Entry  []byte // a private copy of the receive that it has opened, if it is a SEND
	Unit   int    // where the part of that list begins that is not in job.dst yet
	Room   uint64 // bytes of job.dst

	Fatal    uint8 // the NAK with which the queue pair went to error; 0: none. psn is the PSN that it refuses
	Unsaid   bool  // that NAK is still to be sent, after the answers that are owed
	Refusing bool  // a request is being executed: if the queue pair goes to error, the answers stay owed
	Missed   bool  // a packet was dropped that may have been expected, because the path was closed
	Silent   bool  // a NAK was sent, and later packets are dropped until the expected one comes
	Owed     bool  // an acknowledgement is owed, and the wire is among port.acks
	Met      bool  // a request has come, and the client was told so

	Reads     []AnswerDue // answers that are owed, a ring; the oldest is at FirstDue
	FirstDue  int
	Due       int
	Fresh     int  // how many of them were asked for once
	AnswerJob *Job // of the oldest answer, if it is that of a READ of which some packets were sent

	Results    []Result // of the latest atomics, a ring
	LastResult int
}

// Owe notes that q owes an acknowledgement at the end of the batch.
func (p *Port) Owe(q *QP) {
	if in := &q.Wire.In; !in.Owed {
		in.Owed = true
		p.ACKs = append(p.ACKs, q.Wire)
	}
}
