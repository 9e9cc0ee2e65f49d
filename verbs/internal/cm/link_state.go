//go:build linux && (amd64 || arm64)

package cm

import (
	"crypto/rand"
	"time"
)

// A link is one end of a connection, from its first message until its id is destroyed. The
// kernel calls it a CM ID.
type link struct {
	id          *id
	number      linkNumber // of this end
	peer        linkNumber // of the other end; 0: not known yet
	state       linkState
	self, other Address

	psn, peerPSN     uint32 // first PSN of the other end's packets, and of this end's
	qpn, peerQPN     uint32
	depth, resources uint8
	retry, rnr       uint8
	mtu, timeout     uint8

	stop func() // stops the timer of timeWait, or of disconnectedAfter; nil: there was none

	// Only for a link whose other end is elsewhere.
	tid             uint64        // transaction ID: of the message to answer, or of the link's own messages
	answerTime      time.Duration // how long the link waits for an answer before it sends its message again
	tries           uint8         // how often the link sends a message again
	pending         *resend       // the message that is sent again until it is answered; nil: none
	answer          Message       // the answer that refused or served the request; nil: none yet
	held            *Held         // the address at which the wire expects datagrams for the link
	halfOpen        bool          // the link is counted in Manager.halfOpen
	unsentExplained bool          // the user was told that the wire does not take the messages of this link
}

// A linkState is the state of a connection, as in enum ib_cm_state.
type linkState uint8

const (
	over        linkState = iota // rejected, or its time has passed
	reqSent                      // active: waits for the answer
	repReceived                  // active: waits until the program is ready
	requested                    // passive: waits until the program accepts
	repSent                      // passive: waits for the RTU
	connected
	dreqSent      // waits for the answer to a DREQ
	timeWait      // waits until no packet of the connection can be on its way
	sidrSent      // datagrams, active: waits for the answer
	sidrRequested // datagrams, passive: waits until the program accepts
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

// become changes the state of the link. It stops the resending of a message of the state before.
func (l *link) become(s linkState) {
	l.state = s
	if s != requested && s != repSent {
		l.uncountHalfOpen()
	}
	l.stopResend()
	if s == over && l.id.detached {
		l.drop()
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
	if l.stop != nil { // the program does not wait for the end any more
		l.stop()
		l.stop = nil
	}
	i.link = nil
	if l.other.elsewhere() && l.detach() {
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
