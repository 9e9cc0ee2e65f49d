package engine

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// ErrClosed reports a request by a client that has been closed.
var ErrClosed = errors.New("engine: client is closed")

// Config says how an engine behaves. The zero value is right for most.
type Config struct {
	// CPUs lists the cores that the engine's thread may run on. Nil leaves the
	// choice to the kernel.
	CPUs []int

	// DMACores lists cores on each of which a worker copies what is long, while the
	// engine's thread goes on with other queues. The engine's thread stays off them.
	// Nil means none.
	DMACores []int

	// Idle says what Run does while there is no work. Zero is IdleNap.
	Idle Idle

	// Burst is the most WQEs taken from one queue in a Step. Zero means 32.
	Burst int

	// Slice is the most bytes moved for one queue in a Step before the others
	// get their turn. Zero means 65536.
	Slice int

	// Limits bound what one client may take. Zero fields mean the defaults.
	Limits Limits

	// Log receives what the device has to say about faults and clients. Nil
	// means that nothing is said.
	Log *slog.Logger
}

// Limits bound what one client may take.
type Limits struct {
	Regions, PDs, MRs, CQs, QPs, Channels int
	Bytes                                 uint64 // of all regions together
}

// DefaultLimits are the limits of a Config that sets none.
var DefaultLimits = Limits{
	Regions:  1 << 12,
	PDs:      1 << 12,
	MRs:      1 << 16,
	CQs:      1 << 14,
	QPs:      1 << 14,
	Channels: 1 << 10,
	Bytes:    1 << 40,
}

// Limits of the formats and of this device.
const (
	maxLogSQ       = 15 // blocks: half of the 16-bit index space
	maxLogRQ       = 15 // entries
	maxLogRQStride = 9  // bytes: 32 scatter entries
	maxLogCQ       = 22 // entries
	maxRdAtomic    = 16
	maxMessageLog  = 30 // bytes: 1 GiB, as ports of hardware have it
	uarPages       = 4
)

// An Engine is one device. Step and Run belong to the thread that
// steps it; the other methods may be called from anywhere.
type Engine struct {
	cfg  Config
	guid uint64

	// The device's tables.
	keys    keyTable
	qps     map[uint32]*qp // by number; control path and first use of a peer only
	cqs     map[uint32]*cq // likewise
	srqs    map[uint32]*srq
	running []*qp // QPs that are not in RST
	stalled []*qp // QPs that wait for their peer
	next    int   // of stalled: who was looked at last
	armable []*cq // CQs with a completion channel
	armed   int   // of armable: who is looked at next
	armLap  uint  // how often all of them have been
	unswept int   // of running: how many sweep has still to look at
	swept   int   // in running: whom sweep has looked at last
	clients map[*Client]struct{}

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
	epoch   uint64 // of keys: how many changes of them there have been
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

	logged struct { // explanations in the log, this second
		until   uint64
		n, held uint32
	}

	past          Stats // of clients that are gone
	published     uint64
	publishCycles uint64
	journal       journal
	shares        *shares
	discarded     discard

	mail       mailbox
	bed        *bed          // where Run sleeps; nil: nobody runs it
	asleep     atomic.Bool   // it sleeps, or is about to
	sleepBound time.Duration // tests: of a sleep that nothing ends; 0: the usual
	stopBound  time.Duration // tests: of either part of a stop; 0: the usual
	calm       bool          // tests: no cores are taken for crowded
}

// New returns an engine that nobody steps yet.
func New(cfg Config) (*Engine, error) {
	if cfg.Burst == 0 {
		cfg.Burst = 32
	}
	if cfg.Slice == 0 {
		cfg.Slice = 64 << 10
	}
	if cfg.Burst < 1 || cfg.Slice < wqe.BlockSize {
		return nil, errors.New("engine: Burst must be at least 1, Slice at least 64")
	}
	cfg.Limits.fill()
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:     cfg,
		guid:    binary.LittleEndian.Uint64(b[:]),
		keys:    newKeyTable(),
		qps:     make(map[uint32]*qp),
		cqs:     make(map[uint32]*cq),
		srqs:    make(map[uint32]*srq),
		clients: make(map[*Client]struct{}),
		now:     new(job),
		flame:   new(shm.Block)[:],
		part:    cutVisits,
		journal: journal{log: cfg.Log},
		shares:  newShares(),
		few:     fewQueues,
		worth:   usualWorth,
		beyond:  beyondCaches(shm.CacheSize()),
	}
	e.cfg.Idle = cfg.Idle.policy(shm.CanMonitor(), allowance(os.DirFS("/")), &e.journal)
	e.alone.wqes = min(cfg.Burst, math.MaxInt/aloneShare) * aloneShare
	e.alone.bytes = min(cfg.Slice, math.MaxInt/aloneShare) * aloneShare
	e.publishCycles = clock.Cycles(publishTime) // the clock is calibrated here, not in the middle of work
	return e, nil
}

func (l *Limits) fill() {
	d := DefaultLimits
	for _, f := range []struct{ v, def *int }{
		{&l.Regions, &d.Regions}, {&l.PDs, &d.PDs}, {&l.MRs, &d.MRs},
		{&l.CQs, &d.CQs}, {&l.QPs, &d.QPs}, {&l.Channels, &d.Channels},
	} {
		if *f.v == 0 {
			*f.v = *f.def
		}
	}
	if l.Bytes == 0 {
		l.Bytes = d.Bytes
	}
}

// Step visits the queues that have had work lately, in turn, and executes at most
// Burst WQEs and about Slice bytes from each. It looks at some of the others,
// whether they have work now. It returns how many WQEs it completed or moved on
// with, and how many queues it found with work. It never waits and, while the
// work is good, never allocates.
//
// Not safe for concurrent use: one thread owns an engine.
func (e *Engine) Step() (done int) {
	if e.mail.waiting.Load() {
		e.mail.serve()
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
	return done
}

// clock returns the device clock, read once in a step that needs it.
func (e *Engine) clock() uint64 {
	if e.ticks == 0 {
		e.ticks = clock.Now()
	}
	return e.ticks
}

// GUID returns the number that tells this engine from others.
func (e *Engine) GUID() uint64 { return e.guid }

// welcome says who the device is and what a client may take.
func (e *Engine) welcome(features uint64) *control.Welcome {
	l := e.cfg.Limits
	return &control.Welcome{
		Major: control.Major, Minor: control.Minor,
		UARPages: uarPages, Features: features, GUID: e.guid,
		MaxRegions: uint32(l.Regions), MaxPDs: uint32(l.PDs), MaxMRs: uint32(l.MRs),
		MaxCQs: uint32(l.CQs), MaxQPs: uint32(l.QPs), MaxChannels: uint32(l.Channels),
		MaxBytes: l.Bytes,
		MaxLogSQ: maxLogSQ, MaxLogRQ: maxLogRQ, MaxLogCQ: maxLogCQ,
		MaxRdAtomic: maxRdAtomic, MaxMessageLog: maxMessageLog,
	}
}
