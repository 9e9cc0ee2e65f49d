//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/userns"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/nic"
)

// errClosed is the error of a request of a client that has been closed.
var errClosed = errors.New("engine: client is closed")

// These are limits of the formats and of this device. The first four are logarithms to the
// base 2.
const (
	maxLogSQ       = 15 // blocks in a send queue; this is half of the 16-bit index space
	maxLogRQ       = 15 // entries in a receive queue
	maxLogRQStride = 9  // bytes in an entry of a receive queue; these hold 32 scatter entries
	maxLogCQ       = 22 // entries in a completion queue
	maxRdAtomic    = 16
	uarPages       = 4
)

// A device is the state that all threads share. It changes only between steps, while no
// shard works; see crossing.go.
type device struct {
	cfg    settings
	guid   uint64
	shards []*shard // one or more; the first serves the mailbox

	keys     keyTable
	qps      map[uint32]*qp // by number; not read for a WQE whose peer is known
	cqs      map[uint32]*cq // by number
	srqs     map[uint32]*srq
	xrcds    map[uint32]*xrcd
	numbers  struct{ qp, cq, srq *numbers.Sequence }
	serial   uint64 // serial number of the newest queue pair
	lastXRCD uint32 // number of the newest XRC domain
	served   uint64 // number of requests so far
	stopped  bool   // no shard works: a request is being served

	epoch         atomic.Uint64 // number of changes of keys so far
	past          counts        // the counters of closed clients
	publishCycles uint64
	journal       *journal.Journal
	spoken        *journal.Budget // limits log lines about connections
	explained     *journal.Budget // limits explanations in the log
	ledger        *quota.Ledger
	discarded     discards
	mail          mailbox
	watchdog      watchdog
	hooks         hooks
	groups        map[[16]byte]*group // multicast groups, by GID
	joined        uint64              // number of the newest membership
	router        nic.Router          // finds paths to other devices; nil: there are none
	routes        uint64              // number of changes of the router's paths; at least 1
	held          heldPaths           // by queue pairs of clients that have set their peers
	bulletin      bulletin            // what clients announce
}

// hooks are for tests.
type hooks struct {
	unpinned  bool          // no thread is pinned to its core
	sendsNow  bool          // events of users who may stop the device's thread are never sent by closers
	stopBound time.Duration // longest time of each of the two parts of a stop; 0: stopTime
}

// systemRoot has the files of the kernel that say what this process may use. Tests, which make thousands of
// engines, read each file once.
var systemRoot fs.FS = os.DirFS("/")

// newDevice returns a device without threads. It takes keys and numbers from the source random.
func newDevice(cfg settings, log *slog.Logger, random io.Reader) (*device, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, err
	}
	e := &device{
		cfg:     cfg,
		guid:    binary.LittleEndian.Uint64(b[:]),
		keys:    newKeyTable(random),
		qps:     make(map[uint32]*qp),
		groups:  make(map[[16]byte]*group),
		cqs:     make(map[uint32]*cq),
		srqs:    make(map[uint32]*srq),
		xrcds:   make(map[uint32]*xrcd),
		journal: journal.New(log),
		ledger:  quota.New(systemRoot),

		spoken:    connectionLines(),
		explained: explanationLines(),
	}
	e.bulletin.users = users{e.ledger.Payer, userns.Read()}
	e.numbers.qp, e.numbers.cq, e.numbers.srq = numbers.New(random), numbers.New(random), numbers.New(random)
	e.publishCycles = clock.Cycles(publishTime) // this calibrates the clock, which takes too long for a step
	return e, nil
}
