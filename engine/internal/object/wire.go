//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// A Wire is the state of a queue pair whose peer is on another device: it sends packets through a port
// (package transport). Its halves are Outbound and Inbound.
//
// While a queue pair is on a wire, sq.done counts the blocks whose WQEs have become messages.
// Messages complete later, in order. When the queue stops, sq.done goes back to the oldest
// message, so that the flush finds every WQE that has not completed.
type Wire struct {
	Q      *QP
	Port   *Port
	Path   uint32 // of packets that are sent
	From   uint32 // path of packets that come from the peer
	Source uint32 // path from which packets are taken without further ado: from, or noPath; see PathGuard
	MTU    uint32 // payload of a full packet, in bytes
	Out    Outbound
	In     Inbound
	Timer  Timer

	Guard       *PathGuard // of the path
	guarded     int        // index in its list
	Strays      uint64     // packets with PSNs that the peer would not use
	nearRequest uint64     // time until which a request with the expected PSN counts as part of a scan; 0: none
	nearAnswer  uint64     // the same for answers

	Timeout  uint8  // the attribute
	Patience uint64 // and its time on the device clock
}

// BeginSending is called when q goes to RTS, which names its first PSN.
func (w *Wire) BeginSending() {
	r := &w.Out
	*r = Outbound{Messages: r.Messages, Full: r.Full, Window: r.Full}
	r.PSN, r.UNA, r.Most, r.calm = w.Q.Attr.SQPSN, w.Q.Attr.SQPSN, w.Q.Attr.SQPSN, w.Q.Attr.SQPSN
}

// HasReceives reports whether q can take messages with receives.
func (q *QP) HasReceives() bool { return q.RQ.Ring != nil || q.RQ.SRQ != nil || q.XRCD != nil }

// MTUOf returns the payload of a full packet of a queue pair with this path MTU.
func (p *Port) MTUOf(pathMTU uint8, most int) uint32 {
	n := p.Settings.MTU
	if most > 0 {
		n = min(n, most)
	}
	if !p.Settings.Jumbo {
		n = min(n, 128<<min(max(pathMTU, 1), 5))
	}
	return uint32(n)
}

// Window returns how many packets may be on the way without an acknowledgement.
func (p *Port) Window(mtu uint32) uint32 {
	n := uint32(losslessWindow)
	if p.Settings.Window > 0 {
		n = uint32(p.Settings.Window)
	}
	return max(n/mtu, LeastWindow)
}

const (
	losslessWindow = 8 << 20 // bytes on the way, if no packets are lost
	LeastWindow    = 2       // packets
	leastPart      = 16      // packets of the answer to a READ that are asked for together, if the window is smaller
	MostAnswers    = 32      // answers to READs and atomics that one queue pair owes
)

// WhyNoAnswer returns why the peer of q may not answer.
func (q *QP) WhyNoAnswer() Reason {
	w := q.Wire
	switch {
	case w.Port.Dead:
		return Because(codes.LinkDown, "link %s, to peer QP %#06x, has been closed", w.Port.Settings.Name, q.Attr.DestQPN)
	case !w.Port.Up:
		return Because(codes.LinkDown, "link %s, to peer QP %#06x, is down", w.Port.Settings.Name, q.Attr.DestQPN)
	}
	if w.Out.Most == w.Out.UNA && w.Out.First != w.Out.Last {
		return Because(codes.LinkDown, "link %s, to peer QP %#06x, takes no packets: its ring is full", w.Port.Settings.Name, q.Attr.DestQPN)
	}
	return Because(codes.PeerSilent, "peer QP %#06x on link %s does not answer packet %#06x: no such queue pair, one that is not connected back, or packets are lost",
		q.Attr.DestQPN, w.Port.Settings.Name, w.Out.UNA)
}

// PutBTH writes the base transport header of a packet.
func (w *Wire) PutBTH(b []byte, op packet.Opcode, psn uint32, ask, solicited bool) {
	packet.PutBTH((*[packet.BTHSize]byte)(b), op, solicited, 0, DefaultPKey, w.Q.Attr.DestQPN, ask, psn)
}

// Service returns the service of q's packets.
func (q *QP) Service() packet.Service {
	switch q.Transport {
	case control.QPTypeUC:
		return packet.UC
	case control.QPTypeXRC:
		return packet.XRC
	}
	return packet.RC
}
