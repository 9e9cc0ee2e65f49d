//go:build linux && (amd64 || arm64)

package cm

import (
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A link is one end of a connection, from its first message until its id is destroyed. The
// kernel calls it a CM ID.
type link struct {
	id          *id
	number      linkNumber
	peer        linkNumber // of the other end; 0: not known yet
	state       linkState
	self, other Address

	psn, peerPSN     uint32 // with which the other end, and this end, begin to send
	qpn, peerQPN     uint32
	depth, resources uint8
	retry, rnr       uint8
	mtu, timeout     uint8

	stop func() // ends the wait of timeWait; nil: there was none
}

// A linkState is how far a link has come. The first letters are as in enum ib_cm_state.
type linkState uint8

const (
	over          linkState = iota // rejected, or its time has passed
	reqSent                        // active: waits for the answer
	repReceived                    // active: waits until the program is ready
	requested                      // passive: waits until the program accepts
	repSent                        // passive: waits for the RTU
	connected                      //
	dreqSent                       // waits for the answer to a DREQ
	timeWait                       // waits until no packet of the connection can be on its way
	sidrSent                       // the same for datagrams: active
	sidrRequested                  // passive
)

var linkStates = [...]string{
	"a connection that has ended", "a request that is not answered yet", "an answer that the program has not confirmed",
	"a request from the other end", "an answer that the other end has not confirmed", "a connection", "a connection that is ending",
	"a connection that has just ended", "a request that is not answered yet", "a request from the other end",
}

func (l *link) String() string {
	if l == nil {
		return "no connection"
	}
	return linkStates[l.state]
}

// An arrival is a message in a state.
type arrival struct {
	state linkState
	kind  messageKind
}

// arrivals is the state machine. A message for which it has no entry is ignored: it is late, or
// the sender is confused.
var arrivals map[arrival]func(*link, Message)

func init() { // not a literal, because the functions refer to it
	arrivals = map[arrival]func(*link, Message){
		{reqSent, kindREP}:      (*link).gotREP,
		{reqSent, kindREJ}:      (*link).gotREJ,
		{repReceived, kindREJ}:  (*link).gotREJ,
		{requested, kindREJ}:    (*link).gotREJ,
		{repSent, kindREJ}:      (*link).gotREJ,
		{repSent, kindRTU}:      (*link).gotRTU,
		{repSent, kindDREQ}:     (*link).gotDREQ,
		{connected, kindDREQ}:   (*link).gotDREQ,
		{dreqSent, kindDREQ}:    (*link).gotDREQ, // both ends have disconnected at once
		{dreqSent, kindDREP}:    (*link).gotDREP,
		{sidrSent, kindSIDRREP}: (*link).gotSIDRREP,
	}
}

func (l *link) receive(msg Message) {
	if f := arrivals[arrival{l.state, msg.kind()}]; f != nil {
		f(l, msg)
	}
}

func (l *link) send(msg Message) {
	m := l.id.m
	if err := m.carrier.Carry(Packet{From: l.self, To: l.other, Message: msg}); err != nil {
		l.id.explain("the other end of id %d is out of reach: %v", l.id.handle, err)
	}
}

// newLink gives an id a link.
func (i *id) newLink(self, other Address) *link {
	m := i.m
	for m.nextLink == 0 || m.links[m.nextLink] != nil {
		m.nextLink++
	}
	i.link = &link{id: i, number: m.nextLink, self: self, other: other, psn: rand.Uint32() & 0xffffff}
	m.links[m.nextLink] = i
	m.nextLink++
	return i.link
}

// unlink ends the link of an id that is destroyed, and tells the other end.
func (i *id) unlink() {
	l := i.link
	if l == nil {
		return
	}
	switch l.state {
	case reqSent:
		l.send(&REJ{From: l.number, To: l.peer, Reason: rejTimeout})
	case requested, repReceived, repSent:
		l.send(&REJ{From: l.number, To: l.peer, Reason: rejConsumer})
	case connected:
		l.send(&DREQ{l.number, l.peer})
	case sidrRequested:
		l.send(&SIDRREP{To: l.peer, Status: sidrReject})
	}
	if l.stop != nil { // the time can be hours, and the id is not charged any more
		l.stop()
	}
	delete(i.m.links, l.number)
	delete(i.m.peers, remote{l.other, l.peer})
	i.link = nil
}

// reject ends a link whose request or answer the program does not want.
func (l *link) reject(reason rejectReason, data []byte) error {
	if l.state == sidrRequested {
		msg := &SIDRREP{To: l.peer, Status: sidrReject}
		if err := fill("REJECT", msg.Data[:], data); err != nil {
			return err
		}
		l.state = over
		l.send(msg)
		return nil
	}
	msg := &REJ{From: l.number, To: l.peer, Reason: reason}
	if err := fill("REJECT", msg.Data[:], data); err != nil {
		return err
	}
	switch l.state {
	case reqSent, repReceived, requested:
		l.state = over
	case repSent:
		l.wait()
	default:
		return refuse(unix.EINVAL, "REJECT: id %d has %v", l.id.handle, l)
	}
	l.send(msg)
	return nil
}

func (l *link) gotREP(msg Message) {
	r := msg.(*REP)
	l.peer, l.state = r.From, repReceived
	l.peerQPN, l.peerPSN = r.QPN, r.PSN
	l.depth, l.resources, l.rnr = r.Resources, r.Depth, r.RNR
	e := newEvent(l.id, connectResponse, 0)
	e.conn(r.QPN, r.Depth, r.Resources, r.FlowControl, 0, r.RNR, r.SRQ)
	e.privateData(r.Data[:])
	e.ece(r.ECE)
	l.id.tell(e)
}

func (l *link) gotREJ(msg Message) {
	r := msg.(*REJ)
	if l.state == repReceived {
		l.wait()
	} else {
		l.state = over
	}
	switch r.Reason {
	case rejService:
		l.id.explain("no program of this engine listens at %v (service %#x): the connection is rejected", &l.id.dst, l.id.dst.service(l.id.space))
	case rejConsumer:
		l.id.explain("%v rejects the connection: its program called rdma_reject, or has ended, or its backlog is full", &l.id.dst)
	}
	e := newEvent(l.id, rejected, int32(r.Reason))
	e.privateData(r.Data[:])
	l.id.tell(e)
}

func (l *link) gotRTU(Message) { l.establish() }

// establish makes the passive end's connection complete.
func (l *link) establish() {
	l.state = connected
	l.id.tellStatus(established, 0)
}

// gotDREQ ends the connection. The kernel waits for the program before it answers. Here the
// answer is sent at once, so that the other program need not wait for this one.
func (l *link) gotDREQ(Message) {
	l.send(&DREP{l.number, l.peer})
	if l.state == dreqSent || l.id.m.Unpolled == nil {
		l.disconnected()
		return
	}
	l.state = timeWait
	l.disconnectedAfter(0)
}

// mostUnpolled bounds the time for which a program may leave completions unpolled before it is
// told of the end of the connection all the same: less than twice this.
const mostUnpolled = 64 * time.Millisecond

// disconnectedAfter tells the program, after a time, that the other end has ended the
// connection, unless it has not polled all completions of its queue pair by then. Programs that
// look at their CQ and then at their events close the queue pair when they find this event, and
// so lose what has come in between: the other end's last message. If the processor was taken
// from the program between its two looks, that can be all that the other end had to say.
func (l *link) disconnectedAfter(d time.Duration) {
	i, m := l.id, l.id.m
	l.stop = m.After(d, func() {
		unpolled := d < mostUnpolled && m.Unpolled(i.program.UID, l.qpn) // not under the lock: the device is asked
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case i.link != l: // the program has destroyed the id
		case unpolled:
			l.disconnectedAfter(max(2*d, time.Millisecond))
		default:
			l.disconnected()
		}
	})
}

func (l *link) gotDREP(Message) { l.disconnected() }

func (l *link) disconnected() {
	l.wait()
	if l.id.state == connecting {
		l.id.state = ended
		l.id.tellStatus(disconnected, 0)
	}
}

// wait begins the time in which packets of the connection can still be on their way. The queue
// pair should not be used for another connection before its end. A program that waits for the
// end gets an event.
func (l *link) wait() {
	l.state = timeWait
	i := l.id
	l.stop = i.m.later(timewait(l.timeout), func() {
		if i.link == l {
			l.state = over
			i.tellStatus(timewaitExit, 0)
		}
	})
}

// timewait returns how long the kernel waits (cm_convert_to_ms). The unit of the timeout is
// 4.096 µs times a power of 2.
func timewait(timeout uint8) time.Duration {
	return time.Millisecond << max(int(timeout)-8, 0)
}

// lifetime is the time that a packet may be on its way on RoCE, as a power of 2
// (CMA_IBOE_PACKET_LIFETIME).
const lifetime = 16

// ackTimeout returns the timeout of a connection's queue pairs (cm_ack_timeout): there and back,
// and the time that the other device takes for the answer.
func (i *id) ackTimeout() uint8 {
	delay := i.m.Devices[i.local.Device].AckDelay
	t := uint8(lifetime + 1)
	if i.timeout != 0 {
		t = i.timeout
	}
	if t >= delay {
		if delay >= t-1 {
			t++
		}
	} else if t, delay = delay, t; delay >= t-1 {
		t++
	}
	return min(t, 31)
}

// conn puts the parameters of a connection into an event.
func (e *event) conn(qpn uint32, resources, depth, flow, retry, rnr, srq uint8) {
	p := e.param()
	le.PutUint32(p[abi.CMConnParamQPNum:], qpn)
	p[abi.CMConnParamResponderResources], p[abi.CMConnParamInitiatorDepth] = resources, depth
	p[abi.CMConnParamFlowControl], p[abi.CMConnParamRetryCount] = flow, retry
	p[abi.CMConnParamRNRRetryCount], p[abi.CMConnParamSRQ] = rnr, srq
}
