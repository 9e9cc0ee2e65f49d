//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/announce"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
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
	Failed    bool           // a WQE has failed since RST: later WQEs with ce 1 have no error completions
	Faulted   cqe.Syndrome   // syndrome of the WQE at the head, if its work has faulted
	RNRLeft   uint8          // see RNRIndex
	Postponed bool           // the visit is postponed to the end of the step
	Aside     bool           // a visit is not the usual one: q is on a wire, watched or faulty; see SetAside
	OnlyWire  bool           // Aside is true for no other reason than that q is on a wire

	StalledIndex int32  // index in Client.Sched.Stalled while Stall says that q is stalled
	FastOps      uint64 // bit n: opcode n may be executed, and may take the fast path
	Allowed      uint64 // bit n: opcode n may be executed

	Sched qpSchedule
	Life  uint32 // grows whenever q ends transfers of its peers

	Watched uint32            // the watches that record what q does: a bit for each
	Faults  *inject.QueuePair // what rules of faults do to q; nil: no rule has to do with q
	SQ      SendQueue
	Job     *Job // a transfer that is being done slice by slice, or nil
	RQ      ReceiveQueue

	Serial uint64 // never given to another queue pair; the first is 1
	Conn   connection
	Wire   *Wire // if the peer is on another device: how q reaches it
	Stall  Stall

	// The WQE at block RNRIndex-1 has stopped waiting because a receive was posted, and has RNRLeft RNR
	// retries left. If another queue pair takes the receive first, the WQE waits again, with the retries
	// that it has left.
	RNRIndex uint64

	Suspicion Suspicion
	Regions   [3]*Region // the regions that hold the send queue, the receive queue and the records

	XRC       *Extended  // on XRC
	DC        *Dynamic   // if q is a DCI or a DCT
	Datagrams *Datagrams // on UD

	Source *announce.Source // if not the record alone announces work; nil: it does
}

// An Extended is what a queue pair has for XRC.
type Extended struct {
	Domain *XRCD     // of a target
	Others []*Client // of a target: the clients that have opened it, besides QP.Client
	SRQ    *SRQ      // of a sender: the XSRQ that its last request has named; looked up again if gone
	Awaits *SRQ      // of a sender: while Stall.Kind is NotReady, the XSRQ that has no receive
}

// Target returns the XRC domain of q if q is a target, otherwise nil.
func (q *QP) Target() *XRCD {
	if q.XRC == nil {
		return nil
	}
	return q.XRC.Domain
}

// A SendQueue is the send queue of a queue pair. Counts are cut to 16 bits where that is compared.
type SendQueue struct {
	Blocks    shm.Ring
	Mask      uint64 // number of blocks - 1
	Done      uint64 // blocks executed
	WQEs      uint64 // WQEs executed since the queue pair was made; flushed ones do not count
	Moved     uint64 // bytes of payload that these WQEs have moved
	Enabled   uint64 // if managed: the queue may execute blocks until the count Done reaches this count
	Record    *shm.BE32
	CQ        *CQ
	Registers *shm.Region // the bank that holds the UAR page of the queue
	BlueFlame *blueFlame  // the queue's own BlueFlame register, or nil
	Ahead     uint16      // blocks executed from BlueFlame that the record has not announced yet
	inline    uint8       // results of READs and atomics of at most this many bytes are put into the CQE
	Managed   bool        // the queue executes only what a SEND_EN has enabled
}

// A ReceiveQueue is the receive queue of a queue pair.
type ReceiveQueue struct {
	Ring   []byte
	Mask   uint64 // entries - 1
	Done   uint64 // entries consumed
	Record *shm.BE32
	CQ     *CQ
	SRQ    *SRQ  // the shared receive queue in place of Ring, or nil
	Stride uint8 // log2 of the bytes of one entry
	Inline uint8 // messages of at most this many bytes are put into the CQE
}

// A connection names the peer of a queue pair.
type connection struct {
	Path  *nic.Path // the path to a peer on another device; nil: the peer is on this device
	Set   *SetPeer  // the peer that the client has set by set_peer; nil: none
	Bound uint64    // serial of the peer that the connection was made with; 0: none
	Peer  *QP       // the peer's queue pair: found at first use, looked up again if dead
}

// A qpSchedule is what the scheduler knows of a queue pair; see loop/active.go.
type qpSchedule struct {
	RunningIndex int32  // index in Shard.Running
	WatchIndex   int32  // index in Client.Sched.Watches
	Warm         int32  // index in Client.Sched.Warm, plus 1; 0: cold
	IdleVisits   uint32 // idle visits since the last visit that found work
	With         *Shard // the other shard whose lock the postponed visit needs
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

// Cost returns how much memory q takes of its user's limit, beside a Wire.
func (q *QP) Cost() int { return QPCost + q.Source.Bytes() }

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

// Connected reports whether q may send to p, which is nil or q's BoundPeer. q may send if p
// takes messages and is itself connected with q.
func (q *QP) Connected(p *QP) bool {
	return p != nil && !p.Dead && p.Transport == q.Transport && p.Listens() && p.Conn.Bound == q.Serial
}

// SetPath returns the path that q.Conn has, or the zero path.
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

// A blueFlame is the BlueFlame register of a queue pair that has one of its own. A WQE that the device
// finds in the register is executed before the record announces it. Then only one cache line moves between
// the processors, instead of two (ring and record). Only the record is authoritative; the register is a
// hint. A WQE that was overwritten in the register before the device saw it, or that is unusual in any way,
// is executed from the ring.
type blueFlame struct {
	Half [2]*shm.Block
	Seen [2]uint64 // the first word of each half when it was last read
	Next uint8     // half in which the next WQE is expected; posters alternate between the halves
	Hot  uint8     // number of further visits that read only the half Next
}

// A Datagrams is what only a UD queue pair has.
type Datagrams struct {
	Away   AwayPath  // how the latest datagram to another device was sent
	Groups []*Group  // the multicast groups that the queue pair has joined
	Cast   CastPoint // the datagram to a group that is being delivered
}

// An AwayPath is the path to which the address vectors of a UD queue pair have led last.
type AwayPath struct {
	Address nic.Address
	When    uint64 // device clock when the path was queried
	Routes  uint64 // value of Device.Routes when the path was queried; 0: never queried
	Path    nic.Path
	Err     error
	PSN     uint32
}

// A Dynamic is what a queue pair has for DC.
type Dynamic struct {
	Key uint64 // of a DCT: the access key

	To        wqe.AV   // of a DCI: the address vector of the WQE that was checked last
	Tolerance int      // of a DCI: how many streams have failed when the queue pair fails
	Errored   []uint16 // of a DCI: the streams that have failed
}

// A Suspicion is what a queue pair has been suspected of since RST. It also holds what has
// been explained, so that no mistake is explained twice.
type Suspicion struct {
	Record    uint32 // value of the last send record that was explained, if Recorded
	Recorded  bool
	Suspected codes.Code
	Since     uint64 // device clock at which Suspected was first found; 0: no suspicion
	Explained bool   // Suspected has been explained
	Index     bool   // a wrong index in a control segment has been explained
	QPN       bool   // a wrong QPN in a control segment has been explained
	Waits     bool   // it has been explained that the queue waits for ever
	Receive   bool   // a receive record in host byte order has been explained
	WasReset  bool   // the ring may hold WQEs from before a reset
}

// A Stall says why the next WQE of a queue waits. It also counts and times the tries. A
// requester on a wire sends again each time the timer runs out. Without a wire the device
// sees at once when the reason is gone, and the timer only counts the tries.
type Stall struct {
	Kind     StallKind
	Left     uint8  // remaining tries
	Forever  bool   // tries are not counted
	Index    uint32 // if Kind is BehindCQ: the producer index that CQ must reach
	Since    uint64 // device clock when the wait began
	Interval uint64 // time between tries, in cycles
	Deadline uint64 // end of this try, on the device clock
	CQ       *CQ    // if Kind is BehindCQ: the completion queue whose producer index must reach Index
	Again    uint64 // device clock at which a peer in another shard is tried again
}

type StallKind uint8

const (
	NoStall  StallKind = iota
	NoPeer             // transport retry: the peer is absent, not ready, or connected to another QP
	NotReady           // RNR retry: the peer has no receive posted
	BehindCQ           // WAIT: a completion queue has not reached an index
	Held               // a rule of faults holds the WQE back until Deadline, or Forever
	Kept               // the sanitizer holds it back until Deadline
)

// A SetPeer is the peer of a queue pair, as set_peer has set it.
type SetPeer struct {
	GUID    uint64 // the peer's device
	Path    nic.Path
	Release func() // ends the use of the path
}

// A CastPoint says how far a datagram to a group has come.
type CastPoint struct {
	WQE    uint64 // the WQE's block, plus 1; 0: none
	After  uint64 // number of the last member that was served or passed over
	Served bool   // a member was served
}

// A Job is one WQE that has been checked: which bytes go where, and what is reported
// afterwards. A short job is done at once, in the shard's scratch. A long job is kept by
// its queue pair and moves its bytes slice by slice, so that other queues need not wait.
type Job struct {
	Head    Head
	Blocks  int // number of blocks of the WQE
	Request Request
	Src     List
	Dst     List
	findings
	Index uint16 // index of the receive that was opened
	Epoch uint64 // epoch in which the job's keys were last found unchanged
	Life  uint32 // value of Peer.Life when the job was kept

	// These fields are for pieces that workers copy; see execution/dma.go.
	Offloaded  int // number of pieces that workers have
	LastWorker int // index of the worker that was given the last piece

	inline  [wqe.MaxBlocks*wqe.BlockSize + GRHSize]byte
	Carried [cqe.MaxInline64]byte
}

// The type findings has those fields of a job that are zero when the job begins.
type findings struct {
	Total    uint64  // bytes to move
	Moved    uint64  // bytes moved so far
	Cast     uint64  // of a datagram to a multicast group: the number of the member Peer; otherwise 0
	Fault    uintptr // address of memory without a page that a worker touched; 0: none
	Peer     *QP     // nil if the operation has none
	Next     *Job    // of a WQE after it that is moved at the same time; see execution/inject_order.go
	SRQ      *SRQ    // the SRQ from which a receive is taken; nil: the peer's own queue
	Shared   *SRQ    // the SRQ while a receive is taken from it and not consumed; nil: no receive is
	Recv     bool    // a receive of the peer is consumed
	Local    bool    // the job is a datagram without a GRH
	Carries  bool    // the bytes go to Carried, and from there into the CQE
	Lost     bool    // the responder does not get the message
	Recalled bool    // a piece was taken back from a worker before it was copied
	NoPlace  uint16  // byte of the WQE at which a data segment is that has no place for the answer; 0: none
}

// A Request is what a requester sends to a responder. It holds what the headers of packets would carry.
type Request struct {
	Op             wqe.Opcode
	Solicited      bool
	FromQPN, ToQPN uint32 // QPNs of the requester and the responder
	Imm            uint32 // the immediate, or the key to invalidate, depending on Op
	QKey           uint32 // if the request is a datagram: its queue key
	SL             uint8  // if the request is a datagram of InfiniBand: its service level
	SRQN           uint32 // on XRC: number of the responder's XSRQ
	RKey           uint32 // key of the responder's memory
	Addr           uint64 // first address of the responder's memory
	Length         uint64 // bytes of the message, at most wqe.MaxMessage
	Operand        []byte // if the request is an atomic: the bytes of the atomic segment in the WQE
}

// A Piece is N bytes and the key that gives access to them. Key is nil for inline data. Mem is nil if the
// key is a list or a key for unmapped memory. The piece is then the N bytes of the key that begin at the
// offset off. If the key is a list, these bytes are found run by run; a run is an entry of the list.
type Piece struct {
	Mem []byte
	Key *Mkey
	off uint64
	N   uint64
}

// A List is pieces in order, and a position in them.
type List struct {
	N, Current int                     // number of pieces; index of the piece in which the position is
	Off        uint64                  // the position in the piece Current, in bytes
	Spot       spot                    // the position in the piece Current, if the key of the piece is a list
	Unmapped   bool                    // some of the memory is unmapped
	Piece      [wqe.MaxUnits + 1]Piece // one more than a WQE has units, for a GRH
}

// A spot is a place in a list key: off bytes into one of the key's runs, in one of its rounds.
type spot struct {
	run   int
	round uint64
	off   uint64
}

// A Head is the control segment of a WQE as two big-endian words. The methods cut its
// fields out of these words where they are needed. A struct of small fields would be stored
// in parts and loaded as a whole, and such a load waits for all the stores.
type Head struct {
	First  wqe.OpWord
	Second wqe.FlagWord
}
