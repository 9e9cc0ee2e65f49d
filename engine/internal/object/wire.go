//go:build linux && (amd64 || arm64)

package object

import (
	"sync"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/engine/internal/scan"
	"github.com/nicless/nicless/engine/internal/wheel"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
)

// A Wire is the state of a queue pair whose peer is on another device: it sends packets through a port
// (package transport). Out is the state of what it sends, In of what it receives.
//
// While a queue pair is on a wire, SQ.Done counts the blocks whose WQEs have become messages.
// Messages complete later, in order. When the queue stops, SQ.Done goes back to the oldest
// message, so that the flush finds every WQE that has not completed.
type Wire struct {
	Q        *QP
	Port     *Port
	Path     uint32          // path of packets that are sent
	From     uint32          // path of packets that come from the peer
	Source   uint32          // path whose packets need no further checks: From, or noPath; see PathGuard
	MTU      uint32          // payload of a full packet, in bytes
	Losses   *recovery.Path  // of the path From
	Recovery *recovery.State // nil: the port loses no packets
	Out      Outbound
	In       Inbound
	Resuming bool // packets that were kept are executed in a later step; it is among Port.Resumed
	Timer    wheel.Timer[*Wire]
	Absence  recovery.Absence // of this end, while Timer runs

	Watched     bool       // Q is watched, or rules of faults act on its packets; it counts in Port.Watched
	Guard       *PathGuard // the guard of the path From
	guarded     int        // index in Guard.Wires
	Strays      uint64     // packets with PSNs that the peer would not use
	nearRequest uint64     // device clock until which an expected request counts as part of a scan
	nearAnswer  uint64     // device clock until which an expected answer counts as part of a scan

	Timeout  uint8  // the attribute timeout
	Patience uint64 // the time for which the attribute timeout stands, in cycles
}

// BeginSending is called when q goes to RTS, which names its first PSN.
func (w *Wire) BeginSending() {
	r := &w.Out
	first := w.Q.Attr.SQPSN
	*r = Outbound{Messages: r.Messages, Limit: recovery.NewLimit(r.Full, first)}
	r.PSN, r.UNA, r.Most = first, first, first
	w.Recovery.Begin(first)
}

// HasReceives reports whether q can take messages with receives.
func (q *QP) HasReceives() bool { return q.RQ.Ring != nil || q.RQ.SRQ != nil || q.Target() != nil }

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

// An Outbound is the sending side of a queue pair on a wire. Messages are numbered; those from
// First to Last, without Last, are on the way. The packet that the requester sends next is number Sent of
// the message Sending. If this packet was sent before, the
// requester is sending packets again.
type Outbound struct {
	Messages      []Message // by number, modulo their count, a power of two
	First, Last   uint32
	Sending, Sent uint32
	PSN           uint32 // the PSN after those of the last message
	UNA           uint32 // the oldest PSN that is not acknowledged
	Most          uint32 // the PSN after the highest PSN that was sent
	Job           *Job   // job of the message Sending, if some packets of it were sent
	Reading       uint32 // number of READs and atomics on the way
	AnswerJob     *Job   // job for the answer to the oldest READ, if some packets of the answer have come
	recovery.Limit
	Retries    uint8 // retries without progress
	RnrRetries uint8
	Paused     bool // waits for the RNR timer
	Rewound    bool // sends again from UNA on already, because of a gap
	Draining   bool // the queue pair is in SQD, and the event that it has drained is still to come
}

// A Message is a WQE that is sent in packets, until it is acknowledged.
type Message struct {
	Head     Head
	Index    uint64 // count of blocks of the send queue before its WQE
	Total    uint64 // bytes
	PSN      uint32 // PSN of the first packet
	PSNs     uint32 // number of PSNs: one for each packet, or for each packet of the answer
	Answered uint32 // READ or atomic: packets of the answer that have come
	Part     uint32 // READ: packets of the answer to one request
	Blocks   uint8  // number of blocks of the WQE
	Answers  bool   // the message is a READ or an atomic, whose answer carries data
}

// An Inbound is the receiving side of a queue pair on a wire.
type Inbound struct {
	PSN  uint32 // the PSN that is expected
	Data uint32 // PSN of the latest SEND or WRITE packet before PSN, which acknowledgements name
	MSN  uint32 // number of messages so far
	Job  *Job   // the message under way, of which packets are still to come; nil: none

	Writes bool   // the message of Job is a WRITE
	Entry  []byte // if the message of Job is a SEND: a private copy of the receive that it uses
	Unit   int    // offset in Entry of the first data segment that is not in Job.Dst yet
	Room   uint64 // number of bytes in Job.Dst

	Fatal       uint8 // the NAK of packet PSN with which the queue pair went to error; 0: none
	NAKDue      bool  // the NAK Fatal is still to be sent, after the answers that are due
	Refusing    bool  // a request is being executed: if the queue pair goes to error, the answers stay due
	Missed      bool  // a packet was dropped that may have been expected, because the path was closed
	Silent      bool  // a NAK was sent, and later packets are dropped until the expected one comes
	ACKDue      bool  // an acknowledgement is due, and the wire is among Port.ACKs
	Established bool  // a request has come, and the client was notified of it

	Reads     []AnswerDue // ring of the answers that are due; the oldest is at FirstDue
	FirstDue  int
	Due       int
	Fresh     int  // number of answers due that were requested only once
	AnswerJob *Job // job of the oldest answer due, if it answers a READ and some packets of it were sent

	Results    []Result // ring of the results of the latest atomics
	LastResult int
}

// An AnswerDue is the answer of a READ or an atomic that the responder is to send. Answers are sent
// in the order of their requests. A READ's memory is read when its answer is sent.
type AnswerDue struct {
	PSN    uint32 // PSN of the request, which is also that of the first packet of the answer
	MSN    uint32
	Addr   uint64
	Length uint32
	Sent   uint32 // packets sent so far
	RKey   uint32
	SRQN   uint32
	Atomic bool
	Again  bool   // the answer was requested before
	Copy   uint8  // number of the copy of the request, 0 if it was sent once
	Value  uint64 // if the request is an atomic: the old value
}

// A Result is what an atomic has found. It is kept, because an atomic that was executed must not be
// executed again when its answer is lost.
type Result struct {
	PSN   uint32
	Valid bool
	Value uint64
}

// A PathGuard watches a path by which packets come to reliable connections. A stranger who can send by
// that path and does not know the PSN that a queue pair expects tries all of them. The guard counts
// packets whose PSNs are far from what is expected, and when there are too many closes the path for
// most of the time, so that such a scan takes hours (package scan). All queue pairs of a user on the path
// share one guard, so a stranger who tries PSNs of a thousand queue pairs has no more tries. Different users
// have different guards, because a client can make its own queue pairs send with any PSNs, and so close
// the path for the queue pairs at the other end.
//
// While a path is closed, all its packets are dropped before their PSNs are checked, because a packet with
// the expected PSN may be part of the scan. So a scan delays the connection, and the state of the queue
// pair stays as it is. When the path opens, the responder sends the peer a NAK for the packet that it
// expects, if a packet was dropped that may have been the expected one.
//
// While the path is open in between, a packet with the expected PSN is dropped once if packets with
// PSNs near it came just before: a scan in ascending or descending order looks like that when it hits.
// The peer gets a NAK for the packet.
//
// Requests and answers are counted and limited apart, so a scan in one direction does not delay the other.
type PathGuard struct {
	Requests, Answers direction
	Alarm             bool    // the path is closed in a direction, and the scan is not over
	Wires             []*Wire // the wires that are on the path
}

// A direction is what a guard knows about requests, or about answers.
type direction struct {
	scan.Limiter
	Reported bool // the present scan has been counted and explained
}

// A guardKey names a guard: a path, and the user of the queue pairs to which its packets come.
type guardKey struct{ path, uid uint32 }

// A Port leads to queue pairs of other devices. It is a pair of rings of packets: at their
// other ends is a carrier, which sends the packets over a network, or another device. The
// first shard's thread serves all ports.
//
// The protocol is the InfiniBand transport. wire.go says how a queue pair uses a port.
type Port struct {
	Settings nic.PortConfig
	Shard    *Shard
	Number   uint32                  // of the port in events; the first is 1
	Watched  int                     // number of wires that are Watched
	Packet   packetring.Packet       // the packet that is being served
	BTH      packet.BTH              // header of Packet
	known    [portCache]*QP          // queue pairs of recent packets, by the low bits of their numbers
	ACKs     []*Wire                 // wires with an acknowledgement due at the end of this batch
	Resumed  []*Wire                 // wires that are Resuming, the next one first
	Users    int                     // number of queue pairs that use the port
	Guards   map[guardKey]*PathGuard // guards of the paths by which packets come to these queue pairs
	Paths    recovery.Paths
	Looks    recovery.Looks
	Up       bool
	Dead     bool   // closed, or the other side has written something that cannot be right
	Left     int    // bytes that are left of the budget of this batch
	Hot      bool   // polled in each step, because packets have come or gone lately
	Idle     uint32 // number of polls since packets have come or gone
	Woken    uint64 // number of packets sent when the carrier was woken last
	Stats    nic.PortStats
	Inbox    chan [ManagementSize]byte
	Stopped  sync.Once
	Away     *Port // a port that is down, for the wires of this port that are cut; nil: none has been
	Home     *Port // of such a port: the port from which its wires come
}

const (
	// portCache is how many queue pairs a port finds without looking into the device's table.
	portCache = 256

	// ManagementSize is room for a path number, the length, and a packet for QP 1: headers, a GRH and
	// a MAD of 256 bytes.
	ManagementSize = 8 + 24 + GRHSize + 256

	GRHSize = 40
)
