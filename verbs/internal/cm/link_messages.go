//go:build linux && (amd64 || arm64)

package cm

import "github.com/nicless/nicless/verbs/internal/abi"

// An arrival is a message in a state.
type arrival struct {
	state linkState
	kind  messageKind
}

// arrivals is the state machine: what a message does in a state. A message without an entry is ignored: it is
// late, or the sender is confused.
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

		// Effects of a wire: messages that come again, and programs that take their time.
		{reqSent, kindMRA}:     (*link).gotMRA,
		{repSent, kindMRA}:     (*link).gotMRA,
		{repReceived, kindREP}: (*link).gotREPAgain,
		{connected, kindREP}:   (*link).gotREPAgain,
		{timeWait, kindREP}:    (*link).gotREPAgain,
		{over, kindREP}:        (*link).gotREPAgain,
		{timeWait, kindDREQ}:   (*link).gotDREQAgain,
		{over, kindDREQ}:       (*link).gotDREQAgain,
	}
}

// receive handles a message from the other end.
func (l *link) receive(msg Message) {
	if f := arrivals[arrival{l.state, msg.kind()}]; f != nil {
		f(l, msg)
	}
}

// send sends a message. To another engine or host, a message that has to be answered is sent again until it
// is answered.
func (l *link) send(msg Message) {
	m, p := l.id.m, Packet{From: l.self, To: l.other, TID: l.tid, Message: msg}
	if err := m.carrier.Carry(p); err != nil {
		l.id.explain("the other end of id %d is out of reach: %v", l.id.handle, err)
	}
	if !l.other.elsewhere() {
		return
	}
	m.counts.Sent++
	switch msg.kind() {
	case kindREQ, kindREP, kindDREQ, kindSIDRREQ:
		l.resendUntilAnswered(p)
	}
}

// gotREP is for the active end: the other end accepts the request.
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

// gotREJ ends a connection that the other end rejects.
func (l *link) gotREJ(msg Message) {
	r := msg.(*REJ)
	if l.state == repReceived {
		l.startTimewait()
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

// gotRTU is for the passive end: the program at the active end is ready.
func (l *link) gotRTU(Message) {
	if l.id.detached {
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

// conn puts the parameters of a connection into an event.
func (e *event) conn(qpn uint32, resources, depth, flow, retry, rnr, srq uint8) {
	p := e.param()
	le.PutUint32(p[abi.CMConnParamQPNum:], qpn)
	p[abi.CMConnParamResponderResources], p[abi.CMConnParamInitiatorDepth] = resources, depth
	p[abi.CMConnParamFlowControl], p[abi.CMConnParamRetryCount] = flow, retry
	p[abi.CMConnParamRNRRetryCount], p[abi.CMConnParamSRQ] = rnr, srq
}
