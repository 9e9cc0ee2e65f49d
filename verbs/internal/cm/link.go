//go:build linux && (amd64 || arm64)

package cm

import (
	"crypto/rand"
	"time"

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

	// Of a link whose other end is elsewhere.
	tid        uint64        // of what is answered, or of the link's own messages
	answerTime time.Duration // for which it waits for an answer
	tries      uint8         // how often it then sends again what is not answered
	pending    *resend       // what it sends again; nil: nothing
	answer     Message       // with which it has refused or served a request; nil: it has not
	held       *Held         // the wire's address
	half       bool          // it counts as half open
	mute       bool          // the user got the explanation that the wire does not take its messages
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
	"a connection that has ended", "a request that is not answered yet",
	"an answer that the program has not confirmed", "a request from the other end",
	"an answer that the other end has not confirmed", "a connection", "a connection that is ending",
	"a connection that has just ended", "a request that is not answered yet",
	"a request from the other end",
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

func (l *link) receive(msg Message) {
	if f := arrivals[arrival{l.state, msg.kind()}]; f != nil {
		f(l, msg)
	}
}

// send sends a message, and sends it again if it has to be answered.
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
		l.until(p)
	}
}

// newLink gives an id a link.
func (i *id) newLink(self, other Address) *link {
	m := i.m
	number := linkNumber(secret())
	for number == 0 || m.links[number] != nil {
		number = linkNumber(secret())
	}
	i.link = &link{id: i, number: number, self: self, other: other, psn: secret() & 0xffffff}
	m.links[number] = i
	return i.link
}

// secret returns a number that strangers cannot predict: messages with a forged sender have to
// have the right ones.
func secret() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return le.Uint32(b[:])
}

// unlink ends the link of an id that is destroyed, and notifies the other end.
func (i *id) unlink() {
	l := i.link
	if l == nil {
		return
	}
	if l.stop != nil { // what the program has waited for
		l.stop()
		l.stop = nil
	}
	i.link = nil
	if l.other.elsewhere() && l.becomeOrphan() {
		return
	}
	switch l.state {
	case reqSent:
		msg := l.rej(rejTimeout)
		be.PutUint64(msg.Info[:], i.m.Devices[i.local.Device].GUID) // which identifies its link
		msg.InfoSize = 8
		l.send(msg)
	case requested, repReceived, repSent:
		l.send(l.rej(rejConsumer))
	case connected:
		l.send(l.dreq())
	case sidrRequested:
		l.send(&SIDRREP{To: l.peer, Service: i.src.service(i.space), Status: sidrReject})
	}
	l.drop()
}

// rej returns the message that refuses the link's last message.
func (l *link) rej(reason rejectReason) *REJ {
	msg := &REJ{From: l.number, To: l.peer, Refused: aboutOther, Reason: reason}
	switch l.state {
	case requested:
		msg.Refused = aboutREQ
	case repReceived:
		msg.Refused = aboutREP
	}
	return msg
}

// reject ends a link whose request or answer the program does not want.
func (l *link) reject(reason rejectReason, data []byte) error {
	if l.state == sidrRequested {
		msg := &SIDRREP{To: l.peer, Service: l.id.src.service(l.id.space), Status: sidrReject}
		if err := fill("REJECT", msg.Data[:], data); err != nil {
			return err
		}
		l.become(over)
		l.answer = msg
		l.send(msg)
		return nil
	}
	msg := l.rej(reason)
	if err := fill("REJECT", msg.Data[:], data); err != nil {
		return err
	}
	switch l.state {
	case reqSent, repReceived, requested:
		l.become(over)
	case repSent:
		l.wait()
	default:
		return refuse(unix.EINVAL, "REJECT: id %d has %v", l.id.handle, l)
	}
	l.answer = msg
	l.send(msg)
	return nil
}
