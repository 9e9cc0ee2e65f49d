//go:build linux && (amd64 || arm64)

package cm

import (
	"time"

	"golang.org/x/sys/unix"
)

// Datagrams get lost. A link whose other end is elsewhere sends a REQ, REP, DREQ or SIDR_REQ again
// until an answer takes it out of the state in which it waits for one, or until it has been sent
// often enough. Answers that are not answered themselves (RTU, REJ, DREP, SIDR_REP) are sent again
// when what they answer comes again.

// A resend is a message that is sent again.
type resend struct {
	packet Packet
	every  time.Duration
	left   uint8 // how often it may still be sent
	stop   func()
}

// serviceTimeout is the time that a link requests with an MRA, as a power of 2
// (CMA_CM_MRA_SETTING), and the longest one that is granted to others.
const serviceTimeout = 24

// become changes the state of the link. Messages of the last state are not sent again.
func (l *link) become(s linkState) {
	l.state = s
	if s != requested && s != repSent {
		l.ends()
	}
	l.stopResend()
	if s == over && l.id.orphan {
		l.drop()
	}
}

func (l *link) stopResend() {
	if l.pending != nil {
		l.pending.stop()
		l.pending = nil
	}
}

// until sends a packet again until the link is in another state.
func (l *link) until(p Packet) {
	l.stopResend()
	l.pending = &resend{packet: p, every: l.answerTime, left: l.tries}
	l.arm(l.pending)
}

func (l *link) arm(r *resend) {
	m := l.id.m
	r.stop = m.later(r.every, func() {
		switch {
		case l.pending != r: // answered meanwhile
		case r.left == 0:
			l.stopResend()
			l.unanswered()
		default:
			r.left--
			m.counts.Resent++
			_ = m.carrier.Carry(r.packet)
			l.arm(r)
		}
	})
}

// unanswered ends what the link has waited for.
func (l *link) unanswered() {
	i := l.id
	if l.state == dreqSent {
		l.disconnected(failed(unix.ETIMEDOUT))
		return
	}
	i.explain("%v has not answered %d messages of the connection manager, each of which it had %v for (packets of UDP port 4791 may be blocked, or it does not speak RDMA)",
		&i.dst, int(l.tries)+1, l.answerTime)
	l.become(over)
	i.notifyStatus(unreachable, failed(unix.ETIMEDOUT))
}

// gotMRA gives the other end's program more time.
func (l *link) gotMRA(msg Message) {
	about := map[linkState]refusedMessage{reqSent: aboutREQ, repSent: aboutREP}
	m, r := msg.(*MRA), l.pending
	switch {
	case r == nil || m.Received != about[l.state]:
		return
	case l.id.orphan: // the program there need not confirm any more
		l.send(l.rej(rejConsumer))
		return
	}
	r.stop()
	r.every = timewait(min(m.Timeout, serviceTimeout)) + timewait(lifetime)
	l.arm(r)
}

// again answers a request that has come again.
func (l *link) again() {
	m := l.id.m
	m.counts.Duplicates++
	switch l.state {
	case requested:
		l.send(&MRA{From: l.number, To: l.peer, Received: aboutREQ, Timeout: serviceTimeout})
	case repSent:
		if l.pending != nil {
			_ = m.carrier.Carry(l.pending.packet)
		}
	case timeWait:
		l.send(&REJ{From: l.number, To: l.peer, Refused: aboutREQ, Reason: rejStale})
	case over:
		if l.answer != nil {
			l.send(l.answer)
		}
	}
}

// gotREPAgain answers a REP that has come again.
func (l *link) gotREPAgain(msg Message) {
	l.id.m.counts.Duplicates++
	refusal, refused := l.answer.(*REJ)
	switch {
	case refused:
		l.send(refusal)
	case l.state == repReceived: // the program has not confirmed it yet
		l.send(&MRA{From: l.number, To: l.peer, Received: aboutREP, Timeout: serviceTimeout})
	case l.state == connected:
		l.send(&RTU{l.number, l.peer})
	default:
		l.send(&REJ{From: l.number, To: msg.from(), Refused: aboutREP, Reason: rejNumber})
	}
}

// gotDREQAgain answers a DREQ that has come again.
func (l *link) gotDREQAgain(Message) {
	l.id.m.counts.Duplicates++
	l.send(&DREP{l.number, l.peer})
}

// receiveFar takes a message from the host of the other end. It returns false if that end cannot
// have sent it. Random numbers are all that keeps strangers with a forged address out, so both link
// numbers have to be right. A DREQ begins a transaction, and has to name the queue pair. All other
// messages belong to the transaction of the request or of the link's DREQ, and have its id. So an
// answer to a request, whose sender's number is not known yet, takes a guess of 64 bits and not of 32.
func (l *link) receiveFar(p Packet) bool {
	msg := p.Message
	if from := msg.from(); l.peer != 0 && from != l.peer && msg.kind() != kindSIDRREP {
		return false
	}
	if d, ok := msg.(*DREQ); ok {
		switch {
		case d.QPN != l.qpn:
			return false
		case arrivals[arrival{l.state, kindDREQ}] != nil:
			l.tid = p.TID // of the answer
		}
	} else if p.TID != l.tid {
		return false
	}
	l.receive(msg)
	return true
}
