//go:build linux && (amd64 || arm64)

package cm

import (
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
)

func (l *link) gotREP(msg Message) {
	r := msg.(*REP)
	l.become(repReceived)
	l.peer, l.timeout = r.From, l.id.ackTimeout(r.AckDelay)
	l.peerQPN, l.peerPSN = r.QPN, r.PSN
	if l.id.qpType == qptXRCSend {
		l.peerQPN = r.EECN
	}
	l.depth, l.resources, l.rnr = r.Resources, r.Depth, r.RNR
	e := newEvent(l.id, connectResponse, 0)
	e.conn(l.peerQPN, r.Depth, r.Resources, r.FlowControl, 0, r.RNR, r.SRQ)
	e.privateData(r.Data[:])
	e.ece(r.ECE)
	l.id.notify(e)
}

func (l *link) gotREJ(msg Message) {
	r := msg.(*REJ)
	if l.state == repReceived {
		l.wait()
	} else {
		l.become(over)
	}
	switch {
	case l.other.elsewhere() && r.Reason != rejConsumer:
		l.id.explain("the host of %v refuses the connection (service %#x): %v", &l.id.dst, l.id.dst.service(l.id.space), r.Reason)
	case r.Reason == rejService:
		l.id.explain("no program of this engine listens at %v (service %#x): the connection is rejected", &l.id.dst, l.id.dst.service(l.id.space))
	case r.Reason == rejConsumer:
		l.id.explain("%v rejects the connection: its program called rdma_reject, or has ended, or its backlog is full", &l.id.dst)
	}
	e := newEvent(l.id, rejected, int32(r.Reason))
	e.privateData(r.Data[:])
	l.id.notify(e)
}

func (l *link) gotRTU(Message) {
	if l.id.orphan {
		l.become(dreqSent)
		l.send(l.dreq())
		return
	}
	l.establish()
}

// establish makes the passive end's connection complete.
func (l *link) establish() {
	l.become(connected)
	l.id.notifyStatus(established, 0)
}

// gotDREQ ends the connection. The kernel waits for the program before it answers. Here the
// answer is sent at once, so that the other program need not wait for this one.
func (l *link) gotDREQ(Message) {
	l.send(&DREP{l.number, l.peer})
	if l.state == dreqSent || l.id.m.Unpolled == nil || l.id.orphan {
		l.disconnected(0)
		return
	}
	l.become(timeWait)
	l.disconnectedAfter(0)
}

// mostUnpolled bounds the time for which a program may leave completions unpolled before it gets the end of
// the connection all the same: less than twice this.
const mostUnpolled = 64 * time.Millisecond

// disconnectedAfter notifies the program, after a time, that the other end has ended the
// connection, unless it has not polled all completions of its queue pair by then. Programs that
// look at their CQ and then at their events close the queue pair when they find this event, and
// so lose what has come in between: the other end's last message. If the processor was taken
// from the program between its two looks, that can be all that the other end had to say.
func (l *link) disconnectedAfter(d time.Duration) {
	i, m := l.id, l.id.m
	l.stop = m.After(d, func() {
		// Not under the lock: the device is asked.
		unpolled := d < mostUnpolled && m.Unpolled(i.program.UID, l.qpn)
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case i.link != l: // the program has destroyed the id
		case unpolled:
			l.disconnectedAfter(max(2*d, time.Millisecond))
		default:
			l.disconnected(0)
		}
	})
}

// dreq returns the message that ends the connection.
func (l *link) dreq() *DREQ { return &DREQ{l.number, l.peer, l.peerQPN} }

func (l *link) gotDREP(Message) { l.disconnected(0) }

func (l *link) disconnected(status int32) {
	l.wait()
	if l.id.state == connecting {
		l.id.state = ended
		l.id.notifyStatus(disconnected, status)
	}
}

// wait begins the time in which packets of the connection can still be on their way. The queue
// pair should not be used for another connection before its end. A program that waits for the
// end gets an event.
func (l *link) wait() {
	l.become(timeWait)
	i := l.id
	timeout := l.timeout
	if i.orphan {
		timeout = min(timeout, longestTimewait)
	}
	l.stop = i.m.later(timewait(timeout), func() {
		if i.link == l {
			l.become(over)
			i.notifyStatus(timewaitExit, 0)
		}
	})
}

// conn puts the parameters of a connection into an event.
func (e *event) conn(qpn uint32, resources, depth, flow, retry, rnr, srq uint8) {
	p := e.param()
	le.PutUint32(p[abi.CMConnParamQPNum:], qpn)
	p[abi.CMConnParamResponderResources], p[abi.CMConnParamInitiatorDepth] = resources, depth
	p[abi.CMConnParamFlowControl], p[abi.CMConnParamRetryCount] = flow, retry
	p[abi.CMConnParamRNRRetryCount], p[abi.CMConnParamSRQ] = rnr, srq
}
