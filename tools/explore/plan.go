//go:build linux && (amd64 || arm64)

package explore

import (
	"github.com/nicless/nicless/fault"
)

// A Plan is everything that happens in a run. Its JSON form is what traces carry. Whatever steps are left
// out, the rest is a plan too: a step that makes no sense where it comes does nothing.
type Plan struct {
	Seed    uint64 `json:"seed"` // from which it was drawn; it decides nothing else
	Clients int    `json:"clients"`
	Burst   int    `json:"burst,omitempty"` // of engine.Config; 0: the usual
	Slice   int    `json:"slice,omitempty"`
	Watch   bool   `json:"watch,omitempty"` // a watch records the run; then queues take other paths
	Links   []Link `json:"links"`
	Steps   []Step `json:"steps"`
	Plant   *Plant `json:"plant,omitempty"` // nil: nothing is planted
}

// A Link is two queue pairs that are connected. Queue pair 2*i is the first end of link i, 2*i+1 the
// second.
type Link struct {
	Transport   string `json:"transport"`          // RC, UC or UD
	Ends        [2]int `json:"ends"`               // clients
	Shared      bool   `json:"shared,omitempty"`   // each end takes receives from the shared queue of its client
	Register    bool   `json:"register,omitempty"` // WQEs of one block go through a BlueFlame register, too
	RNRRetry    uint8  `json:"rnr_retry"`
	MinRNRTimer uint8  `json:"min_rnr_timer"`
	RetryCount  uint8  `json:"retry_count"`
	Timeout     uint8  `json:"timeout"`
}

// The things that steps do.
const (
	Post       = "post"       // Work on QP, with one doorbell; with a register, N steps before the record
	Receive    = "receive"    // N receives of Size bytes for QP
	Poll       = "poll"       // at most N completions of QP
	Run        = "run"        // N steps of the device
	StepAll    = "step-all"   // steps until the device has nothing to do
	Advance    = "advance"    // Time passes
	Rules      = "rules"      // the rules of faults are these from now on; none: they end
	Fail       = "fail"       // QP goes to ERR
	Reconnect  = "reconnect"  // the link of QP goes to RST, and is connected again
	Deregister = "deregister" // the key of QP's memory goes
	Kill       = "kill"       // Client is closed
)

// A Step is one thing that happens. Do says what, and which fields count.
type Step struct {
	Do     string       `json:"do"`
	QP     int          `json:"qp,omitempty"`
	N      int          `json:"n,omitempty"`
	Size   int          `json:"size,omitempty"`
	Time   int64        `json:"time,omitempty"` // nanoseconds
	Client int          `json:"client,omitempty"`
	Work   []Work       `json:"work,omitempty"`
	Rules  *fault.Rules `json:"rules,omitempty"`
}

// A Work is a work request.
type Work struct {
	Op      string `json:"op"` // as package wqe names the opcode
	ID      uint32 `json:"id"` // its bytes, and its immediate, depend on it
	N       int    `json:"n"`  // bytes; atomics have 8
	At      int    `json:"at,omitempty"`
	Pieces  int    `json:"pieces,omitempty"` // data segments; 0 and 1 are the same
	Inline  bool   `json:"inline,omitempty"`
	Fence   bool   `json:"fence,omitempty"`
	Silent  bool   `json:"silent,omitempty"` // completes only if it fails
	Operand uint64 `json:"operand,omitempty"`
	Compare uint64 `json:"compare,omitempty"`
}

// A Plant is a fault of the device, or of the one who polls, that the checker is not told of. Tests plant
// faults, to see that the checker finds them.
type Plant struct {
	Rules  *fault.Rules `json:"rules,omitempty"`
	Lose   int          `json:"lose,omitempty"`   // the completion of this number is not seen; the first is 1
	Repeat int          `json:"repeat,omitempty"` // the completion of this number is seen twice
}

// Sizes of everything that a queue pair has. A run has to be short, so that many are made, and everything
// is to wrap around often.
const (
	logBlocks   = 5    // of a send queue
	mostBlocks  = 3    // of a WQE: UD with mostInline
	mostUnasked = 12   // blocks without signal, one after another, so that one more has room
	mostWork    = 16   // work requests of a queue that have not completed
	logReceives = 4    // of a receive queue
	logCQ       = 6    // of a completion queue: room for both
	messageSize = 1024 // the longest message, and the size of a receive
	mostInline  = 96
	targetSize  = 4096 // bytes that the peer writes
	readSize    = 2048 // bytes that the peer reads
	wordCount   = 8    // words for atomics of the peer
)

// Limits of a plan, which may come from a file of others. They keep a run within some seconds and 100 MB.
const (
	MostClients = 8
	MostLinks   = 32
	MostSteps   = 1 << 16
	MostText    = 16 << 20            // bytes of the JSON form
	mostCount   = 1 << 12             // of N: steps of the device, completions
	mostSum     = 1 << 20             // of N of all steps together
	mostTime    = 60 * int64(1e9)     // of a step
	mostAll     = 24 * 3600 * mostOne // of all steps together: a day
	mostOne     = int64(1e9)
	mostList    = 16      // work requests of a step
	mostPosted  = 1 << 16 // work requests of all steps together
	// Comparisons of bytes that the checks of a run may take: some seconds. Those of a seed take at
	// most a hundredth of that.
	mostChecked = 1 << 30
	// Ends of links at one client. Each has a queue pair, a completion queue and two keys, and the client
	// may have a shared receive queue: 61 objects. The device destroys at most 64 objects of a client in
	// the order of their numbers (object.Portion), so that each run is the same.
	mostEnds   = 15
	mostPieces = 4 // data segments
)
