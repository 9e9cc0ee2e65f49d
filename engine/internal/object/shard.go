//go:build linux && (amd64 || arm64)

package object

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// This file assigns clients to shards. Traffic within a shard runs in parallel with the
// traffic of other shards. Traffic between two shards holds the locks of both. So clients
// that talk to each other should be in one shard, and all others in different shards. A new
// client is assigned to the shard with the least load. When the client is then connected to
// a client of another shard, it moves to that shard, unless it is also connected to another
// client outside that shard.

// Load estimates how much a shard has to do.
func (sh *Shard) Load() int { return len(sh.Running) + len(sh.Clients) }

// LeastLoaded returns the shard with the least load. If several have the least load, it
// returns the first of them.
func (e *Device) LeastLoaded() *Shard {
	return slices.MinFunc(e.Shards, func(a, b *Shard) int { return a.Load() - b.Load() })
}

// A Part is a part of a step. When a fault of memory ends a step early, the next step
// continues after the point at which the fault ended it. So the faults of one client do
// not keep the device from other clients: the device still visits every queue pair and
// retries every stalled one.
type Part uint8

const (
	Whole     Part = iota // the step was not ended early
	CutVisits             // ended in visitClients; sched.from is the index of the client after the faulting one
	CutRetry              // ended in the retries of stalled queues
	CutLast               // ended in polls of cold queues or arm words, or in diagnose
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
	Stalled     int    // number of QPs whose next WQE waits: see stall.go
	Sched       schedule
	Arm         arming
	Fault       faultPoint
	Scratch     scratch
	Ticks       uint64  // device clock, as last read in this step; 0: not yet read in this step
	Ports       []*Port // ports to other devices; the first shard serves them
	HotPorts    int     // how many of them are polled in each step
	PortChanges uint64  // how often ports were added, removed, or their links changed
	RingFull    bool    // a packet has found no room in the ring of a port since the idler looked last
	Timers      Wheel

	Sleeper atomic.Pointer[sleep.Sleeper] // what the shard's thread sleeps on; nil while no thread runs the shard. Carriers read it, too
	Asleep  atomic.Bool                   // the thread sleeps or is about to
	Hooks   shardHooks
}

// A schedule says which queues a step visits; see loop/active.go.
type schedule struct {
	Active   []*Client // clients that have warm queues, or had some a step ago
	From     int       // index in active of the client to visit next; 0 between whole steps
	Warm     int       // number of warm queues
	Patience uint32    // idle visits after which a queue turns cold
	Few      int       // a shard with at most this many queues keeps all warm: fewQueues, except in tests
	Watchers roster    // clients that have watches; there is a watch for each QP in running
	Quiet    int       // steps since there was work
	Worked   uint64    // device clock of the last step that worked
	Unswept  int       // number of QPs in running that sweep has still to check
	Swept    int       // index in running of the QP that sweep checked last

	Alone       struct{ WQEs, Bytes int } // budget of a client in one step while no other client works
	LastWorker  *Client                   // client that worked last
	LastWorked  uint32                    // turn in which LastWorker worked
	RivalsUntil uint32                    // turn up to which several clients count as working
	Turn        uint32                    // counts steps, for work that is done only in every nth step
	Spent       int                       // budget used by the last visit, in bytes
	Effort      int                       // budget that this visit has used for work other than moving bytes
}

// An arming says which CQs the shard polls for arms; see arm.go.
type arming struct {
	Armers roster // clients with CQs that have a completion channel
	CQs    int    // number of these CQs
	Held   int    // number of events that wait; see completion/moderate.go
}

// A faultPoint records which queue's memory is being touched, and in which part of a step.
// A fault of that memory becomes an error of that queue. If the fault ends the step early,
// the next step begins after that part.
type faultPoint struct {
	QP      *QP
	CQ      *CQ
	Port    *Port // the port whose packet is being served
	Answers bool  // memory is being read for an answer of qp to its peer on a wire
	Part    Part  // part of the step that is being executed
	Cut     Part  // part in which a fault has ended the last step; whole: the next step begins at its start
}

// A scratch is the private memory in which one WQE is judged and executed.
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
	Level    uint8         // its service level; on Ethernet the kind of packet
	Reaches  bool          // its address leads to the port of its receiver
	Unmapped unmappedScratch
	Gap      Gap // memory that transfer could not reach
}

// shardHooks are for tests.
type shardHooks struct {
	NoFastPath  bool          // no WQE takes the fast path
	Uncontended bool          // cores never count as contended
	ExplainAll  bool          // no explanation is held back
	HeldClock   uint64        // the device clock, which a test holds here, for all that depends on time; 0: it runs
	SleepBound  time.Duration // longest sleep without a wakeup; 0: SleepTime
}

// Init makes a shard of a new device.
func (sh *Shard) Init(e *Device, number int) {
	sh.Device, sh.Number, sh.Several = e, number, len(e.Settings.Cores) > 1
	sh.Clients = make(map[*Client]struct{})
	sh.Everyone, sh.Stallers = roster{kind: ofClients}, roster{kind: ofStalls}
	sh.Sched = schedule{Few: fewQueues, Watchers: roster{kind: ofWatches}}
	sh.Sched.Alone.WQEs = min(e.Settings.Burst, math.MaxInt/AloneShare) * AloneShare
	sh.Sched.Alone.Bytes = min(e.Settings.Slice, math.MaxInt/AloneShare) * AloneShare
	sh.Arm = arming{Armers: roster{kind: ofArms}}
	sh.Fault = faultPoint{Part: CutVisits}
	sh.Scratch = scratch{Job: new(Job), Block: new(shm.Block)[:]}
}

// Clock returns the device clock as it was last read in this step, by an earlier call or by
// started. If it has not been read in this step, clock reads it.
func (sh *Shard) Clock() uint64 {
	if sh.Ticks == 0 {
		sh.Ticks = clock.Now()
	}
	return sh.Ticks
}

// Now is clock for all that depends on time. It differs from clock only if a test holds the clock.
func (sh *Shard) Now() uint64 { return sh.Hooks.Hold(sh.Clock()) }

// Hold returns where a test holds the device clock, or now.
func (h *shardHooks) Hold(now uint64) uint64 {
	if h.HeldClock != 0 {
		return h.HeldClock
	}
	return now
}
