//go:build linux && (amd64 || arm64)

package object

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

// Aside calls f on a goroutine that closes descriptors for user uid (a closer; see
// discard.go), and reports whether f has returned within asideTime.
func (e *Device) Aside(uid uint32, f func()) bool {
	done := make(chan struct{})
	e.Discard(uid, 0, func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return true
	case <-time.After(asideTime):
		return false
	}
}

// asideTime is how long aside waits for f. f takes unread events back out of a program's
// socket, and the program can block that.
const asideTime = 100 * time.Millisecond

// ErrClosed is the error of a request of a client that has been closed.
var ErrClosed = errors.New("engine: client is closed")

// These are limits of the formats and of this device. The first four are logarithms to the
// base 2.
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

	Keys     keyTable
	QPs      map[uint32]*QP // by number; not read for a WQE whose peer is known
	CQs      map[uint32]*CQ // by number
	SRQs     map[uint32]*SRQ
	XRCDs    map[uint32]*XRCD
	Numbers  struct{ QP, CQ, SRQ *numbers.Sequence }
	Serial   uint64 // serial number of the newest queue pair
	LastXRCD uint32 // number of the newest XRC domain
	Served   uint64 // number of requests so far
	Stopped  bool   // no shard works: a request is being served

	Epoch         atomic.Uint64 // number of changes of keys so far
	Past          Counts        // the counters of closed clients
	PublishCycles uint64
	Journal       *journal.Journal
	Spoken        *journal.Budget // limits log lines about connections
	Explained     *journal.Budget // limits explanations in the log
	Ledger        *quota.Ledger
	Discarded     discards
	Mail          mailbox
	Watchdog      watchdog
	Hooks         hooks
	Groups        map[[16]byte]*Group // multicast groups, by GID
	Joined        uint64              // number of the newest membership
	Router        nic.Router          // finds paths to other devices; nil: there are none
	Routes        uint64              // number of changes of the router's paths; at least 1
	Held          heldPaths           // by queue pairs of clients that have set their peers
	Bulletin      bulletin            // what clients announce
}

// hooks are for tests.
type hooks struct {
	Unpinned  bool          // no thread is pinned to its core
	SendsNow  bool          // events of users who may stop the device's thread are never sent by closers
	StopBound time.Duration // longest time of each of the two parts of a stop; 0: stopTime
}

// SystemRoot has the files of the kernel that say what this process may use. Tests, which make thousands of
// engines, read each file once.
var SystemRoot fs.FS = os.DirFS("/")

// NewDevice returns a device without threads. It takes keys and numbers from the source random.
func NewDevice(cfg Settings, log *slog.Logger, random io.Reader) (*Device, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, err
	}
	e := &Device{
		Settings: cfg,
		GUID:     binary.LittleEndian.Uint64(b[:]),
		Keys:     NewKeyTable(random),
		QPs:      make(map[uint32]*QP),
		Groups:   make(map[[16]byte]*Group),
		CQs:      make(map[uint32]*CQ),
		SRQs:     make(map[uint32]*SRQ),
		XRCDs:    make(map[uint32]*XRCD),
		Journal:  journal.New(log),
		Ledger:   quota.New(SystemRoot),

		Spoken:    connectionLines(),
		Explained: explanationLines(),
	}
	e.Bulletin.Users = users{e.Ledger.Payer, userns.Read()}
	e.Numbers.QP, e.Numbers.CQ, e.Numbers.SRQ = numbers.New(random), numbers.New(random), numbers.New(random)
	e.PublishCycles = clock.Cycles(publishTime) // this calibrates the clock, which takes too long for a step
	return e, nil
}
