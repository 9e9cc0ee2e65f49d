//go:build linux && (amd64 || arm64)

package cm

import (
	"time"

	"golang.org/x/sys/unix"
)

// Datagrams get lost. A link whose other end is elsewhere sends a REQ, REP, DREQ or SIDR_REQ again until the
// answer changes the state of the link, or until the message was sent link.tries times again. RTU, REJ, DREP
// and SIDR_REP are not answered. They are sent again when the message that they answer comes again.

// A resend is a message that is sent again.
type resend struct {
	packet Packet
	every  time.Duration
	left   uint8  // how many more times the message may be sent
	stop   func() // stops the timer
}

// serviceTimeout is the time that a link requests with an MRA, as a power of 2
// (CMA_CM_MRA_SETTING), and the longest one that is granted to others.
const serviceTimeout = 24

func (l *link) stopResend() {
	if l.pending != nil {
		l.pending.stop()
		l.pending = nil
	}
}

// resendUntilAnswered sends a packet, which was sent once, again until the link is in another state.
func (l *link) resendUntilAnswered(p Packet) {
	l.stopResend()
	l.pending = &resend{packet: p, every: l.answerTime, left: l.tries}
	l.startResend(l.pending)
}

// startResend starts the timer after which the message is sent again.
func (l *link) startResend(r *resend) {
	m := l.id.m
	r.stop = m.later(r.every, func() {
		switch {
		case l.pending != r: // answered meanwhile
		case r.left == 0:
			l.stopResend()
			l.giveUp()
		default:
			r.left--
			m.counts.Resent++
			_ = m.carrier.Carry(r.packet)
			l.startResend(r)
		}
	})
}

// giveUp ends the connection, or the attempt to connect, because the other end has not answered.
func (l *link) giveUp() {
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
	case l.id.detached: // the program there need not confirm any more
		l.send(l.rej(rejConsumer))
		return
	}
	r.stop()
	r.every = timewait(min(m.Timeout, serviceTimeout)) + timewait(lifetime)
	l.startResend(r)
}

// gotRequestAgain answers a request that has come again.
func (l *link) gotRequestAgain() {
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
