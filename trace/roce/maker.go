package roce

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
)

// A Packet is an IP packet of RoCEv2.
type Packet struct {
	Time    uint64 // in ticks of the device clock
	Data    []byte // from the IP header on. It may end before the packet does. Valid until Emit returns.
	Length  int    // bytes of the whole packet
	Comment string // where the packet comes from: text in UTF-8, that of others quoted
	Link    bool   // the packet was on a link; otherwise the device has done the work in memory
}

// A Maker makes packets of events. It is not safe for concurrent use.
type Maker struct {
	// Emit gets the packets, in the order of the events. It must be set.
	Emit func(*Packet) error

	// Fill says that packets have zeros in place of bytes that the trace does not have. Otherwise they are
	// cut off. Wireshark 4.0 names the operation of a packet that is cut only in its details.
	Fill bool

	table   objects.Table
	numbers map[uint32]*numbers // by the number of the queue pair
	out     Packet
	filled  bool // out has zeros in place of payload
}

// numbers are what a queue pair counts.
type numbers struct {
	psn uint32 // of the next request
	msn uint32 // of its peer: messages that were completed
}

// mostNumbers bounds the queue pairs whose numbers are kept; see package objects.
const mostNumbers = 1 << 20

// Event makes the packets of an event. It returns the error of Emit.
func (m *Maker) Event(e *trace.Event, c trace.Clock) error {
	m.table.Event(e)
	switch e.Kind {
	case trace.KindQueue:
		m.begin(e)
	case trace.KindQueueGone:
		delete(m.numbers, e.Queue)
	case trace.KindClientGone:
		for qp := range m.numbers {
			if q := m.table.Queue(qp); q == nil || q.Client == e.Queue {
				delete(m.numbers, qp)
			}
		}
	case trace.KindExecute:
		for w := range m.table.Of(e) {
			if err := m.work(e, c, w, succeeded); err != nil {
				return err
			}
		}
	case trace.KindWait:
		if w := m.table.Fetched(e.Queue, e.Index); w != nil && trace.WaitReason(e.Value) == trace.NoReceive {
			return m.work(e, c, w, packet.SyndromeRNR)
		}
	case trace.KindFail:
		if w := m.table.Fetched(e.Queue, e.Index); w != nil {
			if answer, ok := answers[cqe.Syndrome(e.Value)]; ok {
				return m.work(e, c, w, answer)
			}
		}
	case trace.KindSent, trace.KindReceived:
		return m.link(e, c)
	}
	return nil
}

// succeeded is the syndrome of an ACK that counts no credits.
const succeeded = packet.SyndromeACK

// answers are what a peer answers to a request that fails there, as AETH.Syndrome.
var answers = map[cqe.Syndrome]uint8{
	cqe.RemoteInvalidRequest: packet.NAKInvalidRequest,
	cqe.RemoteAccess:         packet.NAKRemoteAccess,
	cqe.RemoteOperation:      packet.NAKRemoteOperation,
	cqe.RNRRetry:             packet.SyndromeRNR,
}

// begin sets the numbers of a queue pair that is described.
func (m *Maker) begin(e *trace.Event) {
	if q := m.table.Queue(e.Queue); q != nil {
		*m.numbersOf(e.Queue) = numbers{psn: q.Info.SendPSN & 0xffffff}
	}
}

// numbersOf returns the numbers of a queue pair. They are lost again if there are too many queue pairs.
func (m *Maker) numbersOf(qp uint32) *numbers {
	n := m.numbers[qp]
	if n == nil {
		n = &numbers{}
		if m.numbers == nil {
			m.numbers = map[uint32]*numbers{}
		}
		if len(m.numbers) < mostNumbers {
			m.numbers[qp] = n
		}
	}
	return n
}

// longest is the longest packet of a link, without its ICRC. Links through memory have packets that are
// longer than those of RoCEv2.
const longest = packet.MaxHeaders + 1<<16

// link emits a packet of a link.
func (m *Maker) link(e *trace.Event, c trace.Clock) error {
	if e.Value > longest || e.Value < packet.BTHSize || uint64(len(e.Data)) > e.Value {
		return nil // the event is damaged: no packet has such a length
	}
	qp := e.Queue
	var gid, peerGID [16]byte
	var peer uint32
	if q := m.table.Queue(qp); q != nil {
		gid, peerGID, peer = q.Info.GID, q.Info.PeerGID, q.Info.Peer
	}
	r := makeRoute(gid, peerGID, c.GUID, qp, peer)
	if e.Kind == trace.KindReceived {
		r = r.reverse()
	}
	padding := int(-e.Value & 3)
	n := int(e.Value) + padding + packet.ICRCSize
	b := append(r.header(m.out.Data[:0], n), e.Data...)
	b = m.end(b, r, int(e.Value)-len(e.Data), padding)
	m.out = Packet{Time: e.Time, Data: b, Length: r.headerSize() + n, Link: true}
	m.out.Comment = fmt.Sprintf("sent on port %d by qp 0x%x", e.Index, qp)
	if e.Kind == trace.KindReceived {
		m.out.Comment = fmt.Sprintf("received on port %d for qp 0x%x", e.Index, qp)
	}
	return m.give()
}

// give gives the packet to Emit, with a word about payload that the trace does not have.
func (m *Maker) give() error {
	if m.filled {
		m.out.Comment += "; zeros in place of payload that was not recorded"
	}
	m.filled = false
	return m.Emit(&m.out)
}

// end appends what comes after the known bytes of a packet, of which some are missing before the padding.
func (m *Maker) end(b []byte, r route, missing, padding int) []byte {
	if missing > 0 && !m.Fill {
		return b
	}
	m.filled = missing > 0
	b = append(b, zeros[:missing+padding]...)
	if len(b)-r.headerSize() > packet.MaxPacket-packet.ICRCSize {
		return append(b, zeros[:packet.ICRCSize]...) // no packet of RoCEv2 is so long
	}
	return seal(b, r)
}

var zeros [longest + 4]byte

// seal appends the ICRC to a packet that has everything else.
func seal(b []byte, r route) []byte {
	b = append(b, 0, 0, 0, 0)
	packet.MakeFlow(r.src, r.dst).Seal(b[r.headerSize():], 0)
	return b
}
