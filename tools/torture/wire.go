//go:build linux && (amd64 || arm64)

package torture

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
)

// A Spec is the first line that a process reads. It says what the process does. Where the comment
// of a field begins with roles, only processes of these roles use the field.
type Spec struct {
	Role    string // "engine", "client", "visitor" or "hostile"
	Socket  string
	Seed    uint64
	Pair    int        // client: number of its pair
	End     int        // client: which end of the pair it is, 0 or 1
	Slot    int        // hostile: number of its slot
	Attack  Attack     // hostile: the attack that it makes
	Victims []FlowInfo // hostile: flows of correct clients
	Cores   []int      // engine: the cores that each run a thread; nil: one thread on any core
	Stay    bool       // engine: do not move clients between its threads
	User    int        // engine, hostile: the user to run as; 0: the supervisor's user

	HalfOpen []HalfOpenQP // hostile: the half-open queue pairs of the visitor

	Hang time.Duration // how long posted work, and an answer to a hostile client, may take; 0: hangTime
}

// hang returns how long posted work, and an answer, may take.
func (s *Spec) hang() time.Duration {
	if s.Hang != 0 {
		return s.Hang
	}
	return hangTime
}

// An Order is a line that a process reads after its Spec. Where the comment of a field begins with
// an order in quotes, only that order uses the field.
type Order struct {
	Do    string
	Ready int        // client: number of the ready report that this order answers
	Epoch int        // "connect": number of the connection
	Peer  []FlowInfo `json:",omitempty"` // "connect": the flows of the peer

	HalfOpen []HalfOpenQP `json:",omitempty"` // "half-open": the half-open queue pairs of the visitor
}

// Orders.
const (
	doConnect   = "connect"   // client: connect the queue pairs with those of the flows in Peer
	doGo        = "go"        // client: the peer is connected too
	doAgain     = "again"     // client: start again, because the peer ended before the go
	doStop      = "stop"      // client: finish the operations, post no new ones
	doClose     = "close"     // client: close everything and end
	doResources = "resources" // engine: report its resources
	doHalfOpen  = "half-open" // hostile: the half-open queue pairs of the visitor have changed
)

// A FlowInfo is what a peer must know about a flow.
type FlowInfo struct {
	QP     nicless.Descriptor
	Target nicless.RemoteMemory
	Source nicless.RemoteMemory
	Words  nicless.RemoteMemory
	Window uint32 // rkey that a window on Target has when it is bound for the first time
}

// A Report is a line that a process writes.
type Report struct {
	Is        string
	At        int64          // time of verdict.Now
	Ready     int            `json:",omitempty"`
	Epoch     int            `json:",omitempty"`
	Flows     []FlowInfo     `json:",omitempty"`
	Text      string         `json:",omitempty"`
	Fault     *verdict.Fault `json:",omitempty"`
	Last      bool           `json:",omitempty"` // only in a "fault" report: the process ends because of it
	Count     *Count         `json:",omitempty"`
	Resources *Resources     `json:",omitempty"`
	Begin     int64          `json:",omitempty"` // "refused": verdict.Now when the visit began
	Stall     *Stall         `json:",omitempty"`

	HalfOpen []HalfOpenQP `json:",omitempty"`
}

// Reports.
const (
	isReady     = "ready"     // client: ready to be connected; engine: ready to accept clients
	isConnected = "connected" // client: its queue pairs are connected
	isCount     = "count"     // sent at intervals, so that a killed process loses little of the count
	isPeerLost  = "peer lost" // transport retries were exceeded
	isGone      = "gone"      // the device is gone
	isQuiet     = "quiet"     // stopped; everything that was posted is acknowledged
	isClosed    = "closed"    // everything is closed and no resources are left
	isFault     = "fault"     // an error was found
	isResources = "resources"
	isStall     = "stall"     // a correct client has stalled
	isRefused   = "refused"   // visitor: the visit that began at Begin failed
	isHalfOpen  = "half-open" // visitor: its half-open queue pairs have changed
)

// Count is what one process has done. Its numbers only grow.
type Count struct {
	Operations  uint64 `json:"operations"`
	Bytes       uint64 `json:"bytes"`
	Completions uint64 `json:"completions"`
	Checked     uint64 `json:"bytes_checked"`
	Wrong
	PeersLost          uint64            `json:"peers_lost"`
	DevicesGone        uint64            `json:"devices_gone"`
	Stall              int64             `json:"longest_stall_ns"` // longest wait for the engine
	HostileActions     uint64            `json:"hostile_actions"`
	HostileConnections uint64            `json:"hostile_connections"`
	ByOp               map[string]uint64 `json:"by_operation"`
	Explained          map[string]uint64 `json:"explained"` // explanations to correct clients, by code
	Log                Log               `json:"engine_log"`
}

func (c *Count) add(o *Count) {
	c.Operations += o.Operations
	c.Bytes += o.Bytes
	c.Completions += o.Completions
	c.Checked += o.Checked
	c.Wrong.add(o.Wrong)
	c.PeersLost += o.PeersLost
	c.DevicesGone += o.DevicesGone
	c.Stall = max(c.Stall, o.Stall)
	c.HostileActions += o.HostileActions
	c.HostileConnections += o.HostileConnections
	c.Log.add(o.Log)
	addAll(&c.ByOp, o.ByOp)
	addAll(&c.Explained, o.Explained)
}

func addAll(to *map[string]uint64, from map[string]uint64) {
	for name, n := range from {
		if *to == nil {
			*to = make(map[string]uint64)
		}
		(*to)[name] += n
	}
}

// Resources are the resources that a process holds at one moment.
type Resources struct {
	Descriptors int    `json:"descriptors"`
	Mappings    int    `json:"mappings"` // mappings of shared memory
	Goroutines  int    `json:"goroutines"`
	Heap        uint64 `json:"heap_bytes"` // live bytes, after a garbage collection
	Resident    uint64 `json:"resident_bytes"`
}

// A wire is the process's connection with the supervisor.
type wire struct {
	mu     sync.Mutex
	out    *json.Encoder
	Orders <-chan Order // closed when the supervisor is gone
}

// open reads the Spec and begins to read orders.
func open(in io.Reader, out io.Writer) (*wire, Spec, error) {
	r := json.NewDecoder(bufio.NewReader(in))
	var spec Spec
	if err := r.Decode(&spec); err != nil {
		return nil, spec, err
	}
	orders := make(chan Order, 16)
	go func() {
		defer close(orders)
		for {
			var o Order
			if r.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return &wire{out: json.NewEncoder(out), Orders: orders}, spec, nil
}

// send writes a report.
func (w *wire) send(r Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.At = int64(verdict.Now())
	_ = w.out.Encode(&r)
}
