package torture

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"

	"github.com/nicless/nicless"
)

// A Spec is the first line that a process reads: what it is.
type Spec struct {
	Role   string // "engine", "client", "visitor" or "chaos"
	Socket string
	Seed   uint64
	Pair   int    // client
	End    int    // client: 0 or 1
	Chaos  Chaos  // chaos
	Others []Lane // chaos: of correct clients
	Cores  []int  // engine
	Stay   bool   // engine
	User   int    // engine and chaos: who it becomes; 0: who it is

	Orphans []Orphan // chaos: of the visitor
}

// An Order is a further line that a process reads.
type Order struct {
	Do    string
	Ready int    // client: the Ready report that it answers; others are out of date
	Epoch int    // "connect": number of the connection
	Peer  []Lane `json:",omitempty"` // "connect"

	Orphans []Orphan `json:",omitempty"` // "orphans"
}

// Orders.
const (
	doConnect = "connect" // client: with the lanes of Peer
	doGo      = "go"      // client: the peer is connected too
	doAgain   = "again"   // client: the peer is gone before the go
	doStop    = "stop"    // client: finish what is begun, post nothing new
	doClose   = "close"   // client: close everything and end
	doHold    = "hold"    // engine: report what it holds
	doOrphans = "orphans" // chaos: the visitor has others now
)

// A Lane is what a peer must know of one queue pair.
type Lane struct {
	QP     nicless.Descriptor
	Target nicless.RemoteMemory
	Source nicless.RemoteMemory
	Words  nicless.RemoteMemory
	Window uint32 // rkey of a part of Target, as it is opened first
}

// A Report is a line that a process writes.
type Report struct {
	Is    string
	At    int64  // unix time in nanoseconds
	Ready int    `json:",omitempty"`
	Epoch int    `json:",omitempty"`
	Lanes []Lane `json:",omitempty"`
	Text  string `json:",omitempty"`
	Count *Count `json:",omitempty"`
	Holds *Holds `json:",omitempty"`
	Begin int64  `json:",omitempty"` // "refused"
	Stall *Stall `json:",omitempty"`

	Orphans []Orphan `json:",omitempty"`
}

// Reports.
const (
	isReady     = "ready"     // to be connected; engine: for clients
	isConnected = "connected" //
	isCount     = "count"     // now and then, so that little is forgotten of who is killed
	isPeerLost  = "peer lost" // transport retries were used up
	isGone      = "gone"      // the device is
	isQuiet     = "quiet"     // stopped; all that was posted is acknowledged
	isClosed    = "closed"    // and nothing is left
	isFault     = "fault"     // what must not happen
	isHolds     = "holds"
	isStall     = "stall"   // of a correct client
	isRefused   = "refused" // visitor: its visit that began at Begin
	isOrphans   = "orphans" // visitor: it has them from now on
)

// Count is what one process has done. Its numbers only grow.
type Count struct {
	Operations  uint64 `json:"operations"`
	Bytes       uint64 `json:"bytes"`
	Completions uint64 `json:"completions"`
	Checked     uint64 `json:"bytes_checked"`
	Corruptions uint64 `json:"corruptions"`
	Wrong
	PeersLost   uint64            `json:"peers_lost"`
	DevicesGone uint64            `json:"devices_gone"`
	Stall       int64             `json:"longest_stall_ns"` // longest wait for the engine
	Mischief    uint64            `json:"mischief"`         // chaos: things done wrong
	Lives       uint64            `json:"lives"`            // chaos: connections made
	ByOp        map[string]uint64 `json:"by_operation"`
	Explained   map[string]uint64 `json:"explained"` // correct clients: by code
	Log         Log               `json:"engine_log"`
}

func (c *Count) add(o *Count) {
	c.Operations += o.Operations
	c.Bytes += o.Bytes
	c.Completions += o.Completions
	c.Checked += o.Checked
	c.Corruptions += o.Corruptions
	c.Wrong.add(o.Wrong)
	c.PeersLost += o.PeersLost
	c.DevicesGone += o.DevicesGone
	c.Stall = max(c.Stall, o.Stall)
	c.Mischief += o.Mischief
	c.Lives += o.Lives
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

// Holds is what a process has at a moment.
type Holds struct {
	Descriptors int    `json:"descriptors"`
	Mappings    int    `json:"mappings"` // of shared memory
	Goroutines  int    `json:"goroutines"`
	Heap        uint64 `json:"heap_bytes"` // live, after a collection
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

// say writes a report.
func (w *wire) say(r Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.At = now()
	_ = w.out.Encode(&r)
}
