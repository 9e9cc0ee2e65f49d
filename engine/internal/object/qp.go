//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// A QP is the device's side of a queue pair. Thousands of queue pairs may be idle, so its size has a
// bound: memory-qp in docs/figures.txt. State that only some kinds of queue pair have is behind
// pointers, which are set when the queue pair is made.
type QP struct {
	Num       uint32
	UIDX      uint32
	Client    *Client
	PD        *PD
	Attr      control.QPAttr // state and all attributes
	Signed    bool           // WQEs carry a signature
	FastPath  bool           // WQEs may take the fast path
	Transport uint8          // control.QPType*
	Dead      bool           // destroyed; pointers to it may remain
	Failed    bool           // a WQE has failed since RST: error completions of later WQEs with ce 1 are suppressed
	Faulted   cqe.Syndrome   // syndrome of the WQE at the head, if its work met a fault of memory
	RNRLeft   uint8          // see RNRIndex
	Postponed bool           // the visit is postponed to the end of the step
	FastOps   uint64         // bit n: opcode n may be executed, and may take the fast path
	Allowed   uint64         // bit n: opcode n may be executed

	Sched qpSchedule
	Life  uint32 // grows whenever q ends transfers of its peers
	SQ    SendQueue
	Job   *Job // a transfer that is being done slice by slice, or nil
	RQ    ReceiveQueue

	Serial uint64 // never given to another queue pair; the first is 1
	Conn   connection
	Wire   *Wire // if the peer is on another device: how q reaches it
	Stall  Stall

	// While the WQE at block RNRIndex-1 does not wait, it has RNRLeft RNR retries left. It has
	// stopped waiting because a receive was posted, but another queue pair may take this receive
	// first. Then it waits again, with the retries that it had left.
	RNRIndex uint64

	Suspicion Suspicion
	Regions   [3]*Region // those that hold the send queue, the receive queue and the records

	XRCD      *XRCD      // if q is a target: its XRC domain
	XRC       *Extended  // on XRC
	DC        *Dynamic   // if q is a DCI or a DCT
	Datagrams *Datagrams // on UD
}

// An Extended is what a queue pair has for XRC.
type Extended struct {
	Others []*Client // if it is a target: the clients that have it, besides client
	SRQ    *SRQ      // if it sends: the XSRQ that the last request has named; looked up again if gone
}

// A SendQueue is the send queue of a queue pair. Counts have 64 bits here and are cut to 16
// bits where they are compared with a record or a WQE.
type SendQueue struct {
	Blocks    shm.Ring
	Mask      uint64 // number of blocks - 1
	Done      uint64 // blocks executed
	Enabled   uint64 // if managed: the queue may execute blocks until the count done reaches this count
	Record    *shm.BE32
	CQ        *CQ
	Registers *shm.Region // the bank that holds the UAR page of the queue
	BlueFlame *blueFlame  // the queue's own BlueFlame register, or nil
	Ahead     uint16      // blocks executed from that register that the record has not announced yet
	inline    uint8       // results of READs and atomics of at most this many bytes are put into the CQE
	Managed   bool        // executes only what a SEND_EN has enabled
}

// A ReceiveQueue is the receive queue of a queue pair.
type ReceiveQueue struct {
	Ring   []byte
	Mask   uint64 // entries - 1
	Done   uint64 // entries consumed
	Record *shm.BE32
	CQ     *CQ
	SRQ    *SRQ  // the shared receive queue in place of ring, or nil
	Stride uint8 // log2 of the bytes of one entry
	Inline uint8 // messages of at most this many bytes are put into the CQE
}

// A connection names the peer of a queue pair.
type connection struct {
	Path  *nic.Path // how to reach the peer on another device; nil: it is on this one
	Set   *SetPeer  // what the client has set by set_peer; nil: nothing
	Bound uint64    // serial of the peer that the connection was made with; 0: none
	Peer  *QP       // found at first use; looked up again if dead
}

// A qpSchedule is what the scheduler knows of a queue pair; see loop/active.go.
type qpSchedule struct {
	At         int32  // index in shard.running
	Watch      int32  // index in client.sched.watches
	Warm       int32  // index in client.sched.warm, plus 1; 0: cold
	IdleVisits uint32 // idle visits since the last visit that found work
	With       *Shard // the other shard whose lock the postponed visit needs
}

// CountCQs adds n to the users of q's completion queues. If one completion queue serves
// both sides of q, it counts q once.
func (q *QP) CountCQs(n int) {
	q.SQ.CQ.Users += n
	if q.RQ.CQ != q.SQ.CQ {
		q.RQ.CQ.Users += n
	}
}

// Listens reports whether q takes messages.
func (q *QP) Listens() bool {
	switch q.Attr.State {
	case control.StateRTR, control.StateRTS, control.StateSQD, control.StateSQE:
		return true
	}
	return false
}

// Reliable reports whether q's transport has acknowledgements.
func (q *QP) Reliable() bool {
	return q.Transport == control.QPTypeRC || q.Transport >= control.QPTypeXRC
}

// HasPeer reports whether q is connected with one peer.
func (q *QP) HasPeer() bool {
	switch q.Transport {
	case control.QPTypeUD, control.QPTypeDCI, control.QPTypeDCT:
		return false
	}
	return true
}

// SendsOnly reports whether queue pairs of this type have no receives.
func SendsOnly(transport uint8) bool {
	return transport == control.QPTypeXRC || transport == control.QPTypeDCI
}

// BoundPeer returns the queue pair that bind has connected q with. It returns nil if there
// was none or if that queue pair has ended.
func (e *Device) BoundPeer(q *QP) *QP {
	if p := e.QPs[q.Attr.DestQPN]; p != nil && p.Serial == q.Conn.Bound {
		return p
	}
	return nil
}

// Connected reports whether q may send to p, which is nil or q's BoundPeer. q may send if p
// takes messages and is itself connected with q.
func (q *QP) Connected(p *QP) bool {
	return p != nil && !p.Dead && p.Transport == q.Transport && p.Listens() && p.Conn.Bound == q.Serial
}

// SetPath returns the path that q.conn has, or the zero path.
func (q *QP) SetPath() nic.Path {
	if q.Conn.Path == nil {
		return nic.Path{}
	}
	return *q.Conn.Path
}

// Posted returns how many receives are announced and not yet consumed.
//
// Observe: receive record. Published by hostpath.RQ.Ring.
func (q *QP) Posted() uint16 {
	if q.RQ.SRQ != nil {
		return q.RQ.SRQ.Ready()
	}
	if q.RQ.Ring == nil {
		return 0
	}
	n := uint16(q.RQ.Record.Observe()) - uint16(q.RQ.Done)
	if uint64(n) > q.RQ.Mask+1 {
		return 0 // some clients set the record back; like a send record out of range, it announces nothing
	}
	return n
}
