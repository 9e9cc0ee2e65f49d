//go:build linux && (amd64 || arm64)

package object

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nicless/nicless/engine/internal/boxes"
	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/engine/internal/outage"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/engine/internal/tap"
	"github.com/nicless/nicless/engine/internal/ticketlock"
	"github.com/nicless/nicless/engine/internal/wheel"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// ErrClosed is the error of a request of a client that has been closed.
var ErrClosed = errors.New("engine: client is closed")

// These are limits of the formats and of this device. The first four are logarithms to the base 2.
const (
	MaxLogSQ       = 15 // blocks in a send queue; this is half of the 16-bit index space
	MaxLogRQ       = 15 // entries in a receive queue
	MaxLogRQStride = 9  // bytes in an entry of a receive queue; these hold 32 scatter entries
	MaxLogCQ       = 22 // entries in a completion queue
	MaxRdAtomic    = 16
	UARPages       = 4
)

// A Device is the state that all threads share. It changes only between steps, while no
// shard works; see crossing.go.
type Device struct {
	Settings Settings
	GUID     uint64
	Shards   []*Shard // one or more; the first serves the mailbox

	Keys    keyTable
	QPs     map[uint32]*QP // by number; not read for a WQE whose peer is known
	CQs     map[uint32]*CQ // by number
	SRQs    map[uint32]*SRQ
	XRCDs   map[uint32]*XRCD
	Numbers numbers.All
	Serial  uint64 // serial number of the newest queue pair
	Served  uint64 // number of requests so far
	Stopped bool   // no shard works: a request is being served

	Epoch           atomic.Uint64 // number of changes of keys so far
	Past            Counts        // the counters of closed clients
	PublishCycles   uint64
	Journal         *journal.Journal
	Spoken          *journal.Budget // limits log lines about connections
	Explained       *journal.Budget // limits explanations in the log
	Ledger          *quota.Ledger
	Discarded       discards
	Mail            mailbox.Mailbox
	Watchdog        watchdog
	Hooks           hooks
	Groups          map[[16]byte]*Group // multicast groups, by GID
	Router          nic.Router          // finds paths to other devices; nil: there are none
	Routes          uint64              // number of changes of the router's paths; at least 1
	Held            heldPaths           // paths that are held by queue pairs whose clients have set the peers
	Bulletin        announcements       // what clients announce
	Boxes           boxes.Office        // what they send each other
	Watches         [tap.Most]*Watcher  // by the number of their bits; nil: there is none
	DatagramsSeen   int                 // number of queue pairs for datagrams that are watched
	WatchesAll      uint32              // the watches of all clients of all users: a bit for each
	WatchesReplay   uint32              // the watches that record what a replay needs,
	WatchesSanitize uint32              // and those that record what the sanitizer needs: some of them
	Outages         outage.Ports        // whether the ports that clients see are up
	Windows         inject.Windows      // of WQEs whose bytes a rule reorders

	Joined                       uint64 // number of the newest membership
	Attached, LastPort, LastXRCD uint32 // numbers of the newest client, link and XRC domain
}

// hooks are for tests.
type hooks struct {
	Unpinned  bool          // no thread is pinned to its core
	SendsNow  bool          // events of users who may stop the device's thread are never sent by closers
	StopBound time.Duration // longest time of each of the two parts of a stop; 0: stopTime
}

// A Part is a part of a step. When a fault of memory ends a step early, the next step continues after the
// point at which the fault ended it. So the faults of one client do not keep the device from other clients:
// the device still visits every queue pair and retries every stalled one.
type Part uint8

const (
	Whole     Part = iota // the step was not ended early
	CutVisits             // ended in visitClients; Sched.From is the index of the next client
	CutRetry              // ended in the retries of stalled queues
	CutLast               // ended in polls of cold queues or arm words, or in Diagnose
)

// A Shard is one thread of the device, with the clients whose queues that thread executes.
// Each client belongs to one shard, and a client's queues are only on the lists of its
// shard. Usually there is one shard. How several shards share the device is in crossing.go.
type Shard struct {
	*Device
	Number  int
	Several bool // there are other shards
	crossing
	progress

	Clients     map[*Client]struct{}
	Everyone    roster // all clients
	Running     []*QP  // QPs that are not in RST
	Stallers    roster // clients with stalled QPs
	Stalled     int    // number of QPs whose next WQE waits: see execution/stall.go
	Sched       schedule
	Arm         arming
	Fault       faultPoint
	Scratch     scratch
	StepClock   uint64  // device clock, as last read in this step; 0: not yet read in this step
	Ports       []*Port // ports to other devices; the first shard serves them
	HotPorts    int     // how many of the ports are polled in each step
	PortChanges uint64  // how often ports were added, removed, or their links changed
	RingFull    bool    // a packet has found no room in the ring of a port since the idler looked last
	Timers      wheel.Wheel[*Wire]
	Taps        tap.Set // records events of objects that are watched

	Sleeper atomic.Pointer[sleep.Sleeper] // nil while no thread runs the shard. Carriers read it, too
	Asleep  atomic.Bool                   // the thread sleeps or is about to
	Hooks   shardHooks
}

// A schedule says which queues a step visits; see loop/active.go.
type schedule struct {
	Active   []*Client // clients that have warm queues, or had some a step ago
	From     int       // index in Active of the client to visit next; 0 between whole steps
	Warm     int       // number of warm queues
	Patience uint32    // idle visits after which a queue turns cold
	Few      int       // a shard with at most this many queues keeps all warm: fewQueues, except in tests
	Watchers roster    // clients that have watches; there is a watch for each QP in Running
	Quiet    int       // steps since there was work
	Worked   uint64    // device clock of the last step that worked
	Unswept  int       // number of QPs in Running that Sweep has still to check
	Swept    int       // index in Running of the QP that Sweep checked last

	Alone       struct{ WQEs, Bytes int } // budget of a client in one step while no other client works
	LastWorker  *Client                   // client that worked last
	LastWorked  uint32                    // turn in which LastWorker worked
	RivalsUntil uint32                    // turn up to which several clients count as working
	Turn        uint32                    // counts steps, for work that is done only in every nth step
	Slice       int                       // budget of a visit in bytes: Config.Slice unless q is watched
	Spent       int                       // budget used by the last visit, in bytes
	Slow        uint32                    // counts WQEs that did not take the fast path
	Polls       int                       // polls that looks at registers count as, besides those of records
	Effort      int                       // budget that this visit has used for work other than moving bytes
}

// An arming says which CQs the shard polls for arms; see arm.go.
type arming struct {
	Armers roster // clients with CQs that have a completion channel
	CQs    int    // number of CQs that have a completion channel
	Held   int    // number of CQs with events that wait; see completion/moderate.go and channel.go
	Late   roster // clients with events about objects that wait; see late.go
}

// A faultPoint records which queue's memory is being touched, and in which part of a step.
// A fault of that memory becomes an error of that queue. If the fault ends the step early,
// the next step begins after that part.
type faultPoint struct {
	QP        *QP
	CQ        *CQ
	Port      *Port // the port whose packet is being served
	Answering bool  // memory is being read for an answer of QP to its peer on a wire
	Part      Part  // part of the step that is being executed
	Cut       Part  // part in which a fault has ended the last step; Whole: none has
}

// A scratch is the private memory in which one WQE is checked and executed.
type scratch struct {
	Job      *Job
	Spare    []*Job
	WQE      [wqe.MaxBlocks * wqe.BlockSize]byte
	Recv     [1 << MaxLogRQStride]byte
	Block    []byte  // snapshot of a WQE from a BlueFlame register; one block
	Old      [8]byte // value that an atomic found
	Runs     [MaxListEntries]Run
	GRH      [GRHSize]byte // header of a datagram
	Global   bool          // the datagram has a GRH
	Level    uint8         // service level of the datagram; on Ethernet the kind of packet
	Reaches  bool          // the datagram's address leads to the port of the receiver
	Unmapped unmappedScratch
	Gap      Gap // memory that Transfer could not reach
}

// shardHooks are for tests.
type shardHooks struct {
	NoFastPath  bool          // no WQE takes the fast path
	Uncontended bool          // cores never count as contended
	ExplainAll  bool          // no explanation is held back
	HeldClock   uint64        // the device clock, if a test holds it; 0: it runs
	SleepBound  time.Duration // longest sleep without a wakeup; 0: SleepTime
}

// The type crossing holds those fields of a shard that serve crossings.
type crossing struct {
	Ticket      ticketlock.Lock
	Acquired    bool   // this shard's thread holds Ticket
	PeerShard   *Shard // the other shard whose ticket lock this thread holds as well, or nil
	GotWork     bool   // another shard has made a queue of this shard warm
	Postponed   []*QP  // queues to be visited at the end of this step
	Crossed     int    // how many queues were postponed in this step because they have work
	Visiting    []*QP  // postponed queues that are being visited now; nil entries are done or removed
	DueReceives []DueReceive
	DeniedSince uint64      // device clock when this shard first found the other lock taken; 0: not taken
	Refuse      func() bool // for tests: true if the other shard's lock is to seem taken
}

// A DueReceive is a receive that this shard still has to return to a shared receive queue of a client in
// another shard. A transfer has taken the receive and not used it.
type DueReceive struct {
	SRQ   *SRQ
	Index uint16
}

// A progress is the part of a shard that other threads, above all the watchdog's, read at
// any time. Its words are written by the thread that works for the shard.
//
// Publish: Touched, Mark, Busy, Thread. Observed by report.checkShards.
type progress struct {
	_       [64]byte
	Touched shm.Word64 // the queue whose memory is touched: a QPN, or TouchedCQ and a CQN
	Mark    shm.Word64 // device clock when the shard last advanced
	Busy    shm.Word64 // 1: in a batch of steps; 0: the shard touches no memory of clients
	Thread  shm.Word64 // thread id; 0: no thread runs the shard
	_       [64]byte
}

// discards are the descriptors that wait to be closed.
type discards struct{ files, Connections closers.Closers }

// A watchdog holds what the watchdog goroutine reads in addition to Shard.progress, and what it has found.
type watchdog struct {
	Owners  queueOwners
	Request atomic.Pointer[ControlRequest] // the request that is being served; nil: none

	Mu    sync.Mutex
	Stuck []Stuck
}

// A ControlRequest is a request of a client that is being served.
type ControlRequest struct {
	Client, What string
	Since        uint64 // device clock
}

// queueOwners knows the client of each queue. It exists because the watchdog may not read
// the engine's own tables.
type queueOwners struct {
	mu     sync.Mutex
	queues map[uint64]owner // key: progress.Touched while that queue's memory is touched
}

// An owner is the client of a queue.
type owner struct {
	client string
	peer   uint32 // number of the queue pair that the queue is connected to
}

// Stuck says where a thread of the engine is stuck, and for how long.
type Stuck struct {
	Client, Peer string // clients whose memory may be the cause; empty: none is known
	Queue        uint32 // number of Client's queue pair or, if CQ is true, of its completion queue
	CQ           bool
	PeerQueue    uint32        // number of Peer's queue pair
	Request      string        // the request of Client being served; empty: the thread works for a queue
	For          time.Duration // time since the thread last advanced
	Thread       string        // state of the thread, as the kernel reports it
	NoCore       bool          // the thread only waits for a core; all fields except For and Thread are zero
}

// A Group is a multicast group. Members are in the order of their numbers.
type Group struct {
	GID     [16]byte
	Members []Member
}

type Member struct {
	Number uint64 // grows with each Join in the device; never 0
	QP     *QP
	How    nic.Membership
}

// A keyTable finds an mkey by the 32 bits of its key. It is a hash table with open addressing and linear
// probing, at most half full. The index of a key is random, so that no client can find the keys of another
// by trying. For random indices a plain array would need 2^24 entries, which is too large.
type keyTable struct {
	Slots  []KeySlot
	shift  uint // 32 - log2 of len(slots)
	Used   int
	random io.Reader
}

type KeySlot struct {
	Key uint32 // Rekey changes it while other shards search
	M   *Mkey  // nil: the slot is empty
}

// A HeldPath is a path that queue pairs of a user hold. It is charged to the user once.
type HeldPath struct {
	UID uint32
	GID [16]byte
}

// heldPaths counts the queue pairs that hold each path.
type heldPaths struct {
	mu     sync.Mutex
	counts map[HeldPath]int
}

// An unmappedScratch is private memory of the device for transfers of unmapped memory.
type unmappedScratch struct {
	From, To [1 + unmappedPieces]procmem.Vec // the first Vec is for the guard
	Between  []byte                          // bytes on the way between two processes; nil until needed
	Seen     process.Seen
	Touched  byte
}

const (
	unmappedPieces = 32

	// MaxListEntries is the number of list entries that fit into the largest WQE.
	MaxListEntries = 52
)

// A Gap is memory of a process that could not be reached.
type Gap struct {
	Process *process.Process
	Addr    uint64
	Errno   syscall.Errno
	Source  bool // true: the memory is in the job's source; false: in its destination
	Write   bool // true: the memory was to be written; false: it was to be read
}
