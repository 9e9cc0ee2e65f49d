//go:build linux && (amd64 || arm64)

package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A shard is one thread of the device, with the clients whose queues that thread executes.
// Each client belongs to one shard, and a client's queues are only on the lists of its
// shard. Usually there is one shard. How several shards share the device is in crossing.go.
type shard struct {
	*device
	number  int
	several bool // there are other shards
	crossing
	progress

	clients     map[*client]struct{}
	everyone    roster // all clients
	running     []*qp  // QPs that are not in RST
	stallers    roster // clients with stalled QPs
	stalled     int    // number of QPs whose next WQE waits: see stall.go
	sched       schedule
	arm         arming
	fault       faultPoint
	scratch     scratch
	ticks       uint64  // device clock, as last read in this step; 0: not yet read in this step
	ports       []*port // ports to other devices; the first shard serves them
	hotPorts    int     // how many of them are polled in each step
	portChanges uint64  // how often ports were added, removed, or their links changed
	ringFull    bool    // a packet has found no room in the ring of a port since the idler looked last
	timers      wheel

	sleeper atomic.Pointer[sleep.Sleeper] // what the shard's thread sleeps on; nil while no thread runs the shard. Carriers read it, too
	asleep  atomic.Bool                   // the thread sleeps or is about to
	hooks   shardHooks
}

// A schedule says which queues a step visits; see active.go.
type schedule struct {
	active   []*client // clients that have warm queues, or had some a step ago
	from     int       // index in active of the client to visit next; 0 between whole steps
	warm     int       // number of warm queues
	patience uint32    // idle visits after which a queue turns cold
	few      int       // a shard with at most this many queues keeps all warm: fewQueues, except in tests
	watchers roster    // clients that have watches; there is a watch for each QP in running
	quiet    int       // steps since there was work
	worked   uint64    // device clock of the last step that worked
	unswept  int       // number of QPs in running that sweep has still to check
	swept    int       // index in running of the QP that sweep checked last

	alone       struct{ wqes, bytes int } // budget of a client in one step while no other client works
	lastWorker  *client                   // client that worked last
	lastWorked  uint32                    // turn in which lastWorker worked
	rivalsUntil uint32                    // turn up to which several clients count as working
	turn        uint32                    // counts steps, for work that is done only in every nth step
	spent       int                       // budget used by the last visit, in bytes
	effort      int                       // budget that this visit has used for work other than moving bytes
}

// An arming says which CQs the shard polls for arms; see arm.go.
type arming struct {
	armers roster // clients with CQs that have a completion channel
	cqs    int    // number of these CQs
	held   int    // number of events that wait; see moderate.go
}

// A faultPoint records which queue's memory is being touched, and in which part of a step.
// A fault of that memory becomes an error of that queue. If the fault ends the step early,
// the next step begins after that part.
type faultPoint struct {
	qp      *qp
	cq      *cq
	port    *port // the port whose packet is being served
	answers bool  // memory is being read for an answer of qp to its peer on a wire
	part    part  // part of the step that is being executed
	cut     part  // part in which a fault has ended the last step; whole: the next step begins at its start
}

// A scratch is the private memory in which one WQE is judged and executed.
type scratch struct {
	job      *job
	spare    []*job
	wqe      [wqe.MaxBlocks * wqe.BlockSize]byte
	recv     [1 << maxLogRQStride]byte
	block    []byte  // snapshot of a WQE from a BlueFlame register; one block
	old      [8]byte // value that an atomic found
	runs     [maxListEntries]run
	grh      [grhSize]byte // header of a datagram
	global   bool          // the datagram has a GRH
	level    uint8         // its service level; on Ethernet the kind of packet
	reaches  bool          // its address leads to the port of its receiver
	unmapped unmappedScratch
	gap      gap // memory that transfer could not reach
}

// A dma holds the workers that copy long transfers, and the least sizes of transfers that are
// offloaded to workers; see dma.go.
type dma struct {
	workers []*worker
	sizes   offloadSizes // usualOffloadSizes, except in tests
	beyond  uint64       // transfers of at least this many bytes are copied past the caches
}

// shardHooks are for tests.
type shardHooks struct {
	noFastPath  bool          // no WQE takes the fast path
	uncontended bool          // cores never count as contended
	explainAll  bool          // no explanation is held back
	heldClock   uint64        // the device clock, which a test holds here, for all that depends on time; 0: it runs
	sleepBound  time.Duration // longest sleep without a wakeup; 0: sleepTime
}

// init makes a shard of a new device.
func (sh *shard) init(e *device, number int) {
	sh.device, sh.number, sh.several = e, number, len(e.cfg.cores) > 1
	sh.clients = make(map[*client]struct{})
	sh.everyone, sh.stallers = roster{kind: ofClients}, roster{kind: ofStalls}
	sh.sched = schedule{few: fewQueues, watchers: roster{kind: ofWatches}}
	sh.sched.alone.wqes = min(e.cfg.burst, math.MaxInt/aloneShare) * aloneShare
	sh.sched.alone.bytes = min(e.cfg.slice, math.MaxInt/aloneShare) * aloneShare
	sh.arm = arming{armers: roster{kind: ofArms}}
	sh.fault = faultPoint{part: cutVisits}
	sh.scratch = scratch{job: new(job), block: new(shm.Block)[:]}
}

// Step is Engine.Step for this shard.
func (sh *threadLoop) Step() (done int) {
	if sh.mail.waiting.Load() && sh.number == 0 {
		sh.passed()
		sh.mail.serve()
		sh.restart()
	}
	if sh.several {
		sh.acquire()
	}
	sh.ticks = 0
	if sh.fault.cut <= cutVisits {
		done = sh.visitClients()
	}
	sh.fault.qp = nil
	if sh.stalled > 0 && sh.fault.cut <= cutVisits {
		sh.fault.part = cutRetry
		done += sh.retry()
		sh.fault.part = cutVisits
	}
	if sh.hotPorts+sh.timers.armed > 0 && sh.fault.cut <= cutVisits {
		done += sh.servePorts(false)
	}
	if sh.sched.unswept > 0 {
		done += sh.sweep()
	}
	if sh.sched.warm < len(sh.running) {
		done += sh.patrol(sh.patrolBudget(done))
	}
	if sh.sched.turn++; sh.sched.turn%hintTurns == 0 {
		done += sh.serveColdPorts()
		sh.fault.part = cutLast
		done += sh.observeArms(armPolls)
		sh.diagnose()
		sh.fault.part = cutVisits
	}
	if sh.fault.cut != whole {
		sh.fault.cut = whole
	}
	if sh.several {
		done += sh.visitPostponed(done == sh.crossed)
		sh.release()
	}
	return done
}

// clock returns the device clock as it was last read in this step, by an earlier call or by
// started. If it has not been read in this step, clock reads it.
func (sh *shard) clock() uint64 {
	if sh.ticks == 0 {
		sh.ticks = clock.Now()
	}
	return sh.ticks
}

// now is clock for all that depends on time. It differs from clock only if a test holds the clock.
func (sh *shard) now() uint64 { return sh.hooks.hold(sh.clock()) }

// hold returns where a test holds the device clock, or now.
func (h *shardHooks) hold(now uint64) uint64 {
	if h.heldClock != 0 {
		return h.heldClock
	}
	return now
}
