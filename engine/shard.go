package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A shard is one thread of the device, with the clients that it works for: their
// queues are on its lists and nobody else's. With one shard, which is the usual
// case, that is all there is. How several share the device is in crossing.go.
type shard struct {
	*Engine
	number  int
	several bool // there are other shards
	crossing

	clients     map[*Client]struct{}
	running     []*qp // QPs that are not in RST
	stalled     []*qp // QPs that wait for their peer
	nextStalled int   // of stalled: the one that was looked at last
	diagnosed   int   // of running: the one that was diagnosed last
	sched       schedule
	arm         arming
	fault       faultPoint
	scratch     scratch
	dma         dma
	ticks       uint64 // the device clock when this step began to do work
	pace               // what the shard knows of its own progress

	published uint64      // when the status pages were written last
	sleeper   *sleeper    // where Run sleeps; nil: nobody runs the shard
	asleep    atomic.Bool // it sleeps, or is about to
	hooks     shardHooks
}

// A schedule says which queues a step visits; see active.go.
type schedule struct {
	active    []*Client // clients that have warm queues, or had some a step ago
	from      int       // of active: the next one's turn; 0 between whole steps
	warm      int       // number of warm queues
	patience  uint32    // visits for nothing until a queue turns cold
	few       int       // so many queues are all kept warm: fewQueues, but in tests
	watches   []watch   // of running, in the same order
	patrolled int       // of watches: the one that patrol looked at last
	quiet     int       // steps since there was work
	worked    uint64    // ticks of the last step that worked
	unswept   int       // of running: how many sweep has still to look at
	swept     int       // of running: the one that sweep looked at last

	alone       struct{ wqes, bytes int } // what a client gets of a step while no other works
	lastWorker  *Client                   // client that worked last
	lastWorked  uint32                    // turn in which that was
	rivalsUntil uint32                    // turn up to which several clients work
	turn        uint32                    // steps, to do some things only now and then
	spent       int                       // bytes, or what is worth them, of the last visit
	effort      int                       // of this visit, beside the bytes moved, and worth so many
}

// An arming goes round the CQs that can be armed; see channel.go.
type arming struct {
	cqs  []*cq // with a completion channel
	next int   // of cqs: the one that is looked at next
	lap  uint  // how often all of them have been looked at
}

// A faultPoint says whose memory is being touched, and where in a step: a fault
// of memory is that one's, and the next step goes on behind it.
type faultPoint struct {
	qp   *qp
	cq   *cq
	part part // of the step at work
	cut  part // in which the last step was cut off
}

// A scratch is what the WQE in execution needs, private to the device.
type scratch struct {
	job      *job
	spare    []*job
	wqe      [wqe.MaxBlocks * wqe.BlockSize]byte
	recv     [1 << maxLogRQStride]byte
	block    []byte  // snapshot of a WQE that lay in a register; one block
	old      [8]byte // what an atomic found
	runs     [maxListEntries]run
	grh      [grhSize]byte
	unmapped unmappedScratch
}

// A dma is the workers that copy long transfers, and which transfers are theirs;
// see dma.go.
type dma struct {
	workers []*worker
	sizes   offloadSizes // usualOffloadSizes, but in tests
	beyond  uint64       // bytes from which on a transfer goes by its client's copier
}

// shardHooks are for tests.
type shardHooks struct {
	noFastPath bool          // nothing goes by the fast path
	uncrowded  bool          // cores are never taken to be crowded
	explainAll bool          // no explanation is held back
	sleepBound time.Duration // of a sleep that nothing ends; 0: the usual
}

func newShard(e *Engine, number int) *shard {
	l := &shard{
		Engine:  e,
		number:  number,
		several: len(e.cfg.Cores) > 1,
		clients: make(map[*Client]struct{}),
		sched:   schedule{few: fewQueues},
		fault:   faultPoint{part: cutVisits},
		scratch: scratch{job: new(job), block: new(shm.Block)[:]},
		dma:     dma{sizes: usualOffloadSizes, beyond: beyondCaches(cpu.CacheSize())},
		pace:    pace{bound: math.MaxUint64},
	}
	l.sched.alone.wqes = min(e.cfg.Burst, math.MaxInt/aloneShare) * aloneShare
	l.sched.alone.bytes = min(e.cfg.Slice, math.MaxInt/aloneShare) * aloneShare
	return l
}

// Step is a step of this shard.
func (sh *shard) Step() (done int) {
	if sh.mail.waiting.Load() && sh.number == 0 {
		sh.passed()
		sh.mail.serve()
		sh.restart()
	}
	if sh.several {
		sh.begin()
	}
	sh.ticks = 0
	if sh.fault.cut <= cutVisits {
		done = sh.visitClients()
	}
	sh.fault.qp = nil
	if len(sh.stalled) > 0 && sh.fault.cut <= cutVisits {
		sh.fault.part = cutRetry
		done += sh.retry()
		sh.fault.part = cutVisits
	}
	if sh.sched.unswept > 0 {
		done += sh.sweep()
	}
	if sh.sched.warm < len(sh.sched.watches) {
		done += sh.patrol(sh.rounds(done))
	}
	if sh.sched.turn++; sh.sched.turn%hintTurns == 0 {
		sh.fault.part = cutLast
		done += sh.observeArms()
		sh.diagnose()
		sh.fault.part = cutVisits
	}
	if sh.fault.cut != whole {
		sh.fault.cut = whole
	}
	if sh.several {
		done += sh.visitPostponed(done == sh.crossed)
		sh.end()
	}
	return done
}

// clock returns the device clock, read once in a step that needs it.
func (sh *shard) clock() uint64 {
	if sh.ticks == 0 {
		sh.ticks = clock.Now()
	}
	return sh.ticks
}
