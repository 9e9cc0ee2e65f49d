//go:build linux && (amd64 || arm64)

package object

import (
	"os"
	"sync"

	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// RequestMemory is the memory that a request is about, if any.
type RequestMemory struct {
	// region is memory that was made for a new region (OpCreateRegion).
	Region *shm.Region

	// InProcess is for requests that register memory (OpRegMR, OpReregMR). It says that the
	// addresses are those of memory of the client's process (ShareProcess), even if a region
	// is placed at these addresses: the process may have mapped other memory there since.
	InProcess bool

	// OnDemand is for requests that register memory of the client's process. It says that the
	// process need not have mapped anything at the addresses yet.
	OnDemand bool
}

// A Client is one connection to the device, with all objects made through it. These objects
// are destroyed with the client. Call and Close are safe for concurrent use; they run one
// at a time.
type Client struct {
	Device *Device
	Shard  *Shard // changes only while all shards are stopped
	Name   string // for the log: what the kernel says of the client, then its name from hello in quotes
	UID    uint32 // the user that its resources are charged to

	Mu     sync.Mutex // one call at a time
	Closed bool
	UAR    *shm.Region
	Status *shm.Region
	Page   statusPage
	Hosted nic.Hosted    // what the server that hosts the client asks for
	Local  bool          // the client is part of this process, and makes its regions' memory itself
	Banks  []*shm.Region // banks of UAR pages in addition to uar
	posted uint32        // its number in the announcements; 0: it has announced nothing yet. bulletin.mu guards it
	Paid   quota.Charge  // charge for the client itself

	// The following fields belong to the shard: only its thread and functions in Do touch them.
	Regions   map[uint32]*Region
	Unplaced  map[uint32]*Region // created and not placed yet
	Process   *Process           // owner of memory registered outside regions; nil: such memory is refused
	PDs       map[uint32]*PD
	MRs       map[uint32]*Mkey // by index, because the variant can change
	CQs       map[uint32]*CQ
	QPs       map[uint32]*QP
	SRQs      map[uint32]*SRQ
	XRCDs     map[uint32]*XRCD
	Channels  map[uint32]*Channel
	Sched     clientSchedule
	seats     [rosterKinds]int // its places on the rosters of its shard, plus 1; 0: it is not on that roster
	Pass      ClientPass       // what the shard's looks have still to look at; see loop/look.go
	Arms      clientArms       // its CQs that can be armed
	Greeted   bool
	Events    *Notifier // of events and explanations; nil: none is open
	Wake      clientWake
	Quiet     explainer
	Said      nic.Speaker // counts the client's explanations in the log
	Bytes     uint64      // size of all regions together, placed or not
	Count     Counts
	Copier    copying.Copier // copies long transfers past the caches
	Offloaded int            // number of the client's copy tasks that workers have
	After     []func()       // what is left to do off the engine's thread after a request; see finish
	Added     uint64         // number of calls of AddRegion that have made a region, or tried to
	NextID    uint32         // for the next region, PD or channel; each client has ids of its own
	Linked    int            // queue pairs whose peer is on another device
	GIDs      []nic.GID      // GID table; nil: the client has only hosted.GID
	Sources   []nic.Source   // of its datagrams that go over links and come over them
}

// A clientSchedule says which of a client's queues a step visits; see loop/active.go.
type clientSchedule struct {
	Warm      []*QP   // queues that have had work lately
	Next      int     // index in warm of the queue to visit next
	Active    bool    // the client is in shard.sched.active
	Watches   []Watch // one for each of its queue pairs that is not in RST
	Patrolled int     // index in watches of the watch that patrol polled last
	Stalled   []*QP   // its queue pairs whose next WQE waits; see stall.go
	Retried   int     // index in stalled of the queue pair that was retried last
}

// A clientWake is how a client wakes the device; see request/wake.go.
type clientWake struct {
	FD     *os.File // an eventfd; nil: the client cannot wake the device
	Always bool     // all its posters wake the device
}

// Portion is how many objects are destroyed between two steps. Other clients wait during
// that time.
const Portion = 64

// Destroy removes objects of one kind, at most *left, and counts *left down.
func Destroy[T any](have map[uint32]T, remove func(T), left *int) {
	for n, x := range have {
		if *left == 0 {
			return
		}
		remove(x)
		delete(have, n)
		*left--
	}
}

func NotFound(kind string, id uint32) error {
	return control.Errorf(control.CodeNotFound, "%s %#x: this client has none with that number", kind, id)
}

// Busy refuses to destroy an object that other objects use. users is their number. one and
// many name their kind, in the singular and in the plural.
func Busy(kind string, id uint32, users int, one, many string) error {
	by := many
	if users == 1 {
		by = one
	}
	return control.Errorf(control.CodeBusy, "%s %#x: still used by %d %s", kind, id, users, by)
}

func (c *Client) String() string { return "client " + c.Name }

func TooMany(kind string, limit int) error {
	return control.Errorf(control.CodeLimit, "%s: this client has %d, which is its limit", kind, limit)
}

// A PD is a protection domain: a key and a QP work together only if both are of the same
// pd.
type PD struct {
	ID    uint32
	Users int
}
