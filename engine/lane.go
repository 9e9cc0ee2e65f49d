package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A lane is one thread of the device, with the clients that it works for: their
// queues are on its lists and nobody else's. With one lane, which is the usual
// case, that is all there is; how several keep out of each other's way is in
// lanes.go.
type lane struct {
	*Engine
	number  int
	several bool // there are other lanes
	crossing

	clients map[*Client]struct{}
	running []*qp // QPs that are not in RST
	stalled []*qp // QPs that wait for their peer
	next    int   // of stalled: who was looked at last
	armable []*cq // CQs with a completion channel
	armed   int   // of armable: who is looked at next
	armLap  uint  // how often all of them have been
	unswept int   // of running: how many sweep has still to look at
	swept   int   // in running: whom sweep has looked at last

	// Whom a step visits; see active.go.
	active    []*Client // who has warm queues, or had a step ago
	from      int       // of active: whose turn is next; 0 between whole steps
	warmth    int       // how many queues are warm
	patience  uint32    // looks for nothing until one is cold
	alone     struct{ wqes, bytes int }
	spent     int     // bytes, or what is worth them, of the last visit
	worker    *Client // who worked last
	laboured  uint32  // turn in which that was
	rivalry   uint32  // turn up to which several work
	watches   []watch // of running, in the same order
	patrolled int     // of watches: whom patrol has looked at last
	quiet     int     // steps since there was work
	worked    uint64  // ticks of the last step that worked

	// Scratch of the WQE in execution, private to the device.
	now     *job
	spare   []*job
	few     int  // queues that are all kept warm: fewQueues, but in tests
	longWay bool // tests: nothing goes by express
	wqe     [wqe.MaxBlocks * wqe.BlockSize]byte
	recv    [1 << maxLogRQStride]byte
	flame   []byte  // snapshot of a WQE that lay in a register; one block
	old     [8]byte // what an atomic found
	runs    [maxListEntries]run
	beyond  uint64 // bytes from which on a transfer goes by its client's copier
	workers []*worker
	worth   worth // of them, usualWorth but in tests
	grh     [grhSize]byte
	away    away
	cur     *qp    // whose memory is being looked at, for faults of it
	curCQ   *cq    // likewise
	effort  int    // of this visit, beside the bytes moved, and worth so many
	turn    uint32 // steps, to do some things only now and then
	looked  int    // in running: whom the device has looked at last
	part    part   // of the step at work
	cut     part   // in which the last step was cut off
	ticks   uint64 // the device clock when this step began to do work

	pace // what it knows of its own progress

	published  uint64
	bed        *bed          // where Run sleeps; nil: nobody runs it
	asleep     atomic.Bool   // it sleeps, or is about to
	sleepBound time.Duration // tests: of a sleep that nothing ends; 0: the usual
	calm       bool          // tests: no cores are taken for crowded
}

func newLane(e *Engine, number int) *lane {
	l := &lane{
		Engine:  e,
		number:  number,
		several: len(e.cfg.Cores) > 1,
		clients: make(map[*Client]struct{}),
		now:     new(job),
		flame:   new(shm.Block)[:],
		part:    cutVisits,
		pace:    pace{bound: math.MaxUint64},
		few:     fewQueues,
		worth:   usualWorth,
		beyond:  beyondCaches(shm.CacheSize()),
	}
	l.alone.wqes = min(e.cfg.Burst, math.MaxInt/aloneShare) * aloneShare
	l.alone.bytes = min(e.cfg.Slice, math.MaxInt/aloneShare) * aloneShare
	return l
}

// Step is a step of this lane.
func (e *lane) Step() (done int) {
	if e.mail.waiting.Load() && e.number == 0 {
		e.passed()
		e.mail.serve()
		e.restart()
	}
	if e.several {
		e.begin()
	}
	e.ticks = 0
	if e.cut <= cutVisits {
		done = e.attendAll()
	}
	e.cur = nil
	if len(e.stalled) > 0 && e.cut <= cutVisits {
		e.part = cutRetry
		done += e.retry()
		e.part = cutVisits
	}
	if e.unswept > 0 {
		done += e.sweep()
	}
	if e.warmth < len(e.watches) {
		done += e.patrol(e.rounds(done))
	}
	if e.turn++; e.turn%hintTurns == 0 {
		e.part = cutLast
		done += e.observeArms()
		e.look()
		e.part = cutVisits
	}
	if e.cut != whole {
		e.cut = whole
	}
	if e.several {
		done += e.deal(done == e.crossed)
		e.end()
	}
	return done
}

// clock returns the device clock, read once in a step that needs it.
func (e *lane) clock() uint64 {
	if e.ticks == 0 {
		e.ticks = clock.Now()
	}
	return e.ticks
}
