//go:build linux && (amd64 || arm64)

package object

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/recent"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/internal/shm"
)

// RequestMemory is the memory that a request is about, if any.
type RequestMemory struct {
	// Region is memory that was made for a new region (OpCreateRegion).
	Region *shm.Region

	// InProcess is for requests that register memory (OpRegMR, OpReregMR). It says that the
	// addresses are those of memory of the client's process (ShareProcess), even if a region
	// is placed at these addresses: the process may have mapped other memory there since.
	InProcess bool

	// OnDemand is for requests that register memory of the client's process. It says that the
	// process need not have mapped anything at the addresses yet.
	OnDemand bool
}

// A Client is one connection to the device, with all objects made through it. These objects are destroyed
// with the client. Call and Close are safe for concurrent use; they run one at a time.
type Client struct {
	Device *Device
	Shard  *Shard // changes only while all shards are stopped
	Name   string // shown in the log: what the kernel says of the client, then the name from hello in quotes
	UID    uint32 // the user to whom the client's resources are charged

	Program string // name of the client's process, as the kernel has it; empty: unknown

	Mu     sync.Mutex // held during a call: calls run one at a time
	Closed bool
	UAR    *shm.Region
	Status *shm.Region
	Page   statusPage
	Hosted nic.Hosted    // what the server that hosts the client asks for
	Local  bool          // the client is part of this process, and makes its regions' memory itself
	Banks  []*shm.Region // banks of UAR pages in addition to UAR
	Paid   quota.Charge  // charge for the client itself

	// The following fields belong to the shard: only its thread and functions in Do touch them.
	Regions       map[uint32]*Region
	Unplaced      map[uint32]*Region // created and not placed yet
	Process       *process.Process   // the process whose memory is registered outside regions; nil: none is
	ProcessRegion *Region            // the region of all keys of that memory; has all addresses
	PDs           map[uint32]*PD
	MRs           map[uint32]*Mkey // by index, because the variant can change
	CQs           map[uint32]*CQ
	QPs           map[uint32]*QP
	SRQs          map[uint32]*SRQ
	XRCDs         map[uint32]*XRCD
	Channels      map[uint32]*Channel
	Sched         clientSchedule
	seats         [rosterKinds]int // index of the client on each roster, plus 1; 0: not on it
	Pass          ClientPass       // what is still to be looked at in this pass; see loop/look.go
	Arms          clientArms       // the CQs that can be armed
	Greeted       bool
	Events        *Notifier // the socket of events and explanations; nil: not open
	Wake          clientWake
	Quiet         codes.Limiter
	Reasons       *reason.Writer
	Logged        nic.Speaker      // counts the client's explanations in the log
	Recent        *recent.List     // the last explanations; nil: there were none
	Bytes         uint64           // size of all regions together, placed or not
	Late          eventsocket.Late // of its objects, because the socket Events was full
	Count         Counts
	Traffic       nic.Tally      // what the client's queue pairs send and receive
	Copier        copying.Copier // copies long transfers past the caches
	Offloaded     int            // number of the client's copy tasks that workers have
	After         []func()       // work of a request for after it, off the engine's thread; see Finish
	Added         uint64         // number of regions that AddRegion has made, or tried to make
	NextID        uint32         // for the next region, PD or channel; each client has ids of its own
	Number        uint32         // of the client in events
	Watch         *Watcher       // what the client watches, or nil
	Follows       uint32         // the watches of all that the client does: a bit for each
	Watched       uint32         // Follows, and the watches of single queues of the client
	Linked        int            // queue pairs whose peer is on another device
	GIDs          []nic.GID      // GID table; nil: the client has only Hosted.GID
	Sources       []nic.Source   // addresses of the client's datagrams that go or come over links
}

// A clientSchedule says which of a client's queues a step visits; see loop/active.go.
type clientSchedule struct {
	Warm      []*QP   // queues that have had work lately
	Next      int     // index in Warm of the queue to visit next
	Active    bool    // the client is in Shard.Sched.Active
	Watches   []Watch // one for each queue pair of the client that is not in RST
	Patrolled int     // index in Watches of the watch that patrol polled last
	Stalled   []*QP   // queue pairs whose next WQE waits; see execution/stall.go
	Retried   int     // index in Stalled of the queue pair that was retried last
}

// A clientWake is how a client wakes the device; see request/wake.go.
type clientWake struct {
	FD     *os.File // an eventfd; nil: the client cannot wake the device
	Always bool     // all its posters wake the device
	Steps  bool     // its posters may run steps in place of the thread
}

// Portion is how many objects are destroyed between two steps. Other clients wait during that time.
const Portion = 64

// Destroy removes objects of one kind, at most *left, and counts *left down. Up to Portion objects go in the
// order of their numbers, so that a run whose numbers are chosen does the same again.
func Destroy[T any](have map[uint32]T, remove func(T), left *int) {
	numbers := make([]uint32, 0, Portion)
	for n := range have {
		if len(numbers) == *left {
			break
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		remove(have[n])
		delete(have, n)
	}
	*left -= len(numbers)
}

func NotFound(kind string, id uint32) error {
	return control.Errorf(control.CodeNotFound, "%s %#x: this client has none with that number", kind, id)
}

// Busy refuses to destroy an object that users other objects use. one and many name their kind.
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

// A PD is a protection domain: a key and a QP work together only if both are of the same PD.
type PD struct {
	ID    uint32
	Users int
}

// A ClientPass says what is left to look at in a pass, of one client. Each list is looked at from its
// last element to its first. If an element is removed, the last element takes its place. The pass has
// looked at that element already, or looks at it later.
type ClientPass struct {
	Number                uint64 // pass for which the other fields hold; in another pass, all is left
	Finished              bool   // nothing of the client is left to look at in the pass
	Queues, Stalled, Arms int    // how many of each are left to look at
}

// A roster lists those clients of a shard that have objects of one kind, for example stalled queues. Clients
// take turns, so that one with many objects does not keep the shard from those of another client.
type roster struct {
	kind    rosterKind
	Clients []*Client
	next    int // index in Clients of the client whose turn it is
	used    int // how many objects the client has got in its present turn
}

type rosterKind uint8

const (
	ofClients rosterKind = iota // all clients of the shard
	ofWatches                   // clients with queue pairs that are not in RST
	ofStalls                    // clients with stalled queues
	ofArms                      // clients with CQs that can be armed
	ofLate                      // clients with events in Late
	rosterKinds
)

// A Watch holds what patrol needs to know of a cold queue pair. Besides it, patrol reads only one cache line
// for the queue pair: that of the send record.
type Watch struct {
	Rec  *shm.BE32 // send record; nil: the queue is warm
	Q    *QP
	Num  uint32 // number of Q
	Word uint64 // value of the record when q was last found to have no work; or UnknownWord
}

// A clientArms holds the CQs of a client that can be armed, which are those with a completion channel.
type clientArms struct {
	CQs       []*CQ
	Polled    int // index in CQs of the CQ whose arm word was read last although its register had not changed
	Turns     int // number of turns so far
	Registers []*armRegister
	Next      int   // index in Registers of the register to poll next
	Held      []*CQ // CQs with an event that waits; see completion/moderate.go and channel.go
	Looked    int   // index in Held of the CQ that was looked at last
}

// A Channel is a completion channel. It reports completions to a client, so that the client need
// not poll. It is a SOCK_SEQPACKET socket that carries one 8-byte record for each event. A socket
// is used rather than an eventfd or a pipe because a single send to a socket need not block
// (MSG_DONTWAIT). An eventfd or a pipe would need O_NONBLOCK, a flag that the client shares. The
// client could clear the flag and thereby block the device.
type Channel struct {
	ID    uint32
	Out   *Notifier
	Users int // number of CQs that use this channel
	Late  int // number of CQs with an event for which there was no room
}

// Counts are the counters of one client, in the order of control.Counter. The client reads
// them in its status page.
type Counts [control.Counters]uint64

// A statusPage is the page of memory in which a client reads the device's state, its clock
// and the client's counters without a request.
type statusPage struct {
	State, hz, clock *shm.Word64
	Asleep           *shm.Word64
	counters         [control.Counters]*shm.Word64
}

// A Region is memory that a client and the device share. The device makes the memory and
// maps it before any other process can reach it. The client maps it too, seals it against
// holes, and then places the region: it sends the device the address of its mapping. Before that
// the device touches no byte of the region, because a thread that touches a page while another
// process punches a hole there has to wait (docs/design/0021).
type Region struct {
	ID    uint32
	base  uint64 // address in the client
	Size  uint64
	Mem   *shm.Region
	Owned bool   // the device made the memory, and unmaps it at the end; false: AddRegion got it
	Added uint64 // if AddRegion made the region: the value of Client.Added then; see At
	Users int    // number of keys and queues that have memory in the region; each counts once
}

// A Notifier sends to one event socket of a client. Before send returns, the kernel notifies everything
// that waits for the socket, and the client decides how much waits: 10^6 watchers (epoll, io_uring) take
// 100 ms. The device's thread sends events itself while a quick send has lately shown that few watchers
// wait. Otherwise it queues the event, and a closer of the client's user (package closers) sends it. Events
// of one socket stay in order.
type Notifier struct {
	e    *Device
	uid  uint32
	FD   int
	Kin  bool   // the client's user may stop the device's thread: a quick send counts until a send is slow
	Seen uint64 // device clock at the last quick send of the device's thread that counts; 0: none does

	// These fields are shared by the device's thread and closers.
	Shown  atomic.Uint64 // device clock at the last quick send of a closer that counts; 0: none does
	queue  chan Notice
	Queued atomic.Bool        // a closer sends the queue, or is about to
	Lost   atomic.Uint32      // events for which the socket had no room when a closer sent them
	start  func()             // starts a closer; made once, so that starting one allocates little
	Paused atomic.Int32       // how many take events out of the socket and put them back: nothing is sent
	Room   eventsocket.Pauses // of the device's thread, while the socket is full

	Mu     sync.Mutex // held during each send of a closer. The device's thread does not take it
	closed bool
	Kept   *Notice            // the next event that closers send: it found no room
	aside  eventsocket.Pauses // of closers, while the socket is full
}

// A Notice is an event that waits for a closer.
type Notice struct {
	Record  uint64 // if message is nil: the value of a record of a completion channel
	message []byte
	CQ      *CQ // the CQ whose completion the record announces
}

// A CQ is the device's side of a completion queue. The device writes one entry for each
// completion. It writes nothing else into the queue, and never reads an entry.
type CQ struct {
	Num     uint32
	Client  *Client
	Region  *Region // holds the buffer
	Records *Region // holds the doorbell record
	Handle  uint64  // what the client calls this queue in events

	Buf       []byte
	Log       uint   // log2 of the number of entries
	LogCQE    uint   // log2 of the size of an entry in bytes: 6 or 7
	Next      uint64 // entries written since creation: the producer index
	Taken     uint64 // consumer index as last observed, never greater than Next
	Seen      uint64 // 2^Log after it the record is read again; Taken, or lower if it is to be read sooner
	Floor     uint64 // consumer index after a resize; used in place of Taken while Taken is lower
	Consumer  *shm.BE32
	Collapsed bool
	Ignore    bool     // overruns are ignored (CQIgnoreOverrun)
	Aside     bool     // a completion is not written as usual: q is collapsed or watched
	Dead      bool     // overrun: no entry is written any more
	Filled    string   // the rule of faults that has taken all room away; empty: none
	Counts    Counting // how the client counts in the record
	Held      uint32   // QPN of the error that stays in a collapsed queue; 0: none
	Session   *Session // what is collected for a compressed queue; nil: the queue is not compressed

	// These fields are for arming; see arm.go.
	Channel   *Channel
	Sent      uint32 // number of events that the device's thread has sent; closers count in SentAside
	Watched   uint32 // the watches that record the queue's completions: a bit for each
	ArmWord   *shm.BE32
	ArmSeen   uint32
	ArmWrites *shm.BE64    // arm register of the UAR page; a hint, shared with other queues
	ArmReg    *armRegister // what the device knows of the arm register
	Armed     bool
	Late      Late   // which events found no room in the channel
	HeldIndex int    // index in Client.Arms.Held, plus 1; 0: no event waits
	Solicited bool   // armed for solicited completions only
	Notified  uint64 // value of Next when the last event was sent; last_notified_index in mlx5
	// LastSolicited is one more than the index of the last solicited or failed completion. The device keeps
	// it because it does not read entries, whose bytes the client may change.
	LastSolicited uint64

	Users         int // number of QPs that use this queue
	ArmsIndex     int // index in Client.Arms.CQs
	RegisterIndex int // index in ArmReg.CQs
	Gone          bool
	Moderation    *Moderation // holds events back; nil: events are sent at once

	SentAside atomic.Uint32 // number of events that closers have sent (notifier)
	Retracted atomic.Bool   // closers send no more events of this queue
}

// An armRegister is the arm register of a UAR page, to which a client writes when it arms one
// of the CQs that use the page. It is a hint.
type armRegister struct {
	Word   *shm.BE64
	Seen   uint64
	CQs    []*CQ // never empty
	Unread int   // how many arm words are still to be read since the register has changed
	Last   int   // index in CQs of the CQ whose arm word was read last
}

// A Moderation holds the events of a completion queue back (completion moderation). An event that is due
// waits until Count completions have come since the client armed the queue, or until it has waited for
// Period. The device looks at events that wait where it looks at arm words, and does not sleep past their
// time. So a completion of a queue without moderation, or of one that is not armed, costs nothing more.
type Moderation struct {
	Count  uint64
	Period uint64 // in cycles
	First  uint64 // value of CQ.Next from which completions count
	Since  uint64 // device clock when the event became due; 0: no event waits
}

// A Session collects completions of a compressed CQ in private memory, until WriteSession puts them into
// the queue as a title CQE and its mini CQEs. They all are completions of one queue pair and of one kind,
// and share the bytes of the title. A session has completions of one call of the fast path only, so no
// completion waits for work that has not been announced. See docs/design/0024.
type Session struct {
	N, Most         int // completions collected, and the most; if N is 0, the fields up to Minis mean nothing
	Rqpn, UIDX, Imm uint32
	Time            uint64
	Tail            cqe.Tail // tail of the first completion, which the title gets
	Minis           [MostMinis]uint64

	Indices uint16 // 0xffff: minis of receives have their index as stride index; 0: they do not
}

// An SRQ is the device's side of a shared receive queue: a linked list in client memory.
// Each entry names the next one. The doorbell record says how many entries are ready.
type SRQ struct {
	Num     uint32
	Client  *Client
	PD      *PD
	Ring    []byte
	Mask    uint16 // entries - 1
	Stride  uint   // log2 of the bytes of one entry
	Cyclic  bool   // the entry after n is n + 1; no links are followed
	Record  *shm.BE32
	Regions [2]*Region // the regions that hold the ring and the record

	Head     uint16   // entry to take next
	Taken    uint64   // entries taken off the list so far
	Returned []uint16 // entries returned because their transfers did not complete
	Limit    uint32   // an event is due when fewer entries than this are ready; 0: no event
	Users    int      // number of QPs that use the queue

	// These fields are of an XSRQ only.
	XRCD *XRCD
	CQ   *CQ // completion queue of its receives
	UIDX uint32
	Gone bool // destroyed; pointers to it may remain
}

// An XRCD is an XRC domain. It ends when no client has it open.
type XRCD struct {
	Num     uint32
	Members map[*Client]*Membership
}

// A Membership is what one client has of a domain.
type Membership struct {
	Opened int // how often the client has opened the domain and not closed it
	Used   int // number of the client's XSRQs and targets in the domain
}

// An Mkey is the object that an lkey or rkey names. It is a range of a client's memory, a
// memory window on such a range, or a list of ranges under other keys. A key has 24 bits of
// index and 8 bits of variant, and all 32 bits must match.
type Mkey struct {
	Key    uint32
	Access uint32 // control.Access*
	PD     *PD    // nil for windows: a window's PD is in Window, see Serves
	Base   uint64 // address of the first byte of the range, as work requests give it
	Size   uint64
	Mem    []byte // the range in the device's mapping; nil for lists, for free keys, and for unmapped memory
	Client *Client

	Region   *Region // if the key is of registered memory: the region of that memory; otherwise nil
	From     uint64  // if of registered memory or a bound window: address of the range in the client
	Windows  int     // number of windows that are bound to this key's memory
	List     []Run   // if the key is a list: its entries; the capacity is the value of the field Room
	PerRound uint64  // if the key is a list: bytes of all entries in one round
	Rounds   uint64  // if the key is a list: rounds through its entries; 1 unless it is interleaved

	Changed uint64 // epoch in which the memory or the rights of this key last changed
	Looked  uint64 // if the key is a list: epoch in which LastChange last read the entries

	Window *Window // if the key is a memory window: what only windows have; otherwise nil
	Free   bool    // a window that is not bound, or a list that is not filled
	Inval  bool    // if the key is a list: a peer may empty it (SEND with invalidate)
	Room   int     // if the key is a list: the largest number of entries that it may have; otherwise 0

	Process  *process.Process // if the memory is unmapped: the process that has it; otherwise nil
	Unmapped bool             // if the key is a list: some of its memory is unmapped
}

// A Run is one entry of a list: N bytes at Addr under another key. An interleaved list repeats its
// entries in rounds. From one round to the next, the address of the N bytes grows by Stride.
type Run struct {
	Key    uint32
	Addr   uint64
	N      uint64
	Stride uint64
	Found  *Mkey // the mkey that Key named when the work request was checked
}

// A Window holds what only an mkey that is a memory window has.
type Window struct {
	Kind   uint8 // 1 or 2
	PD     *PD
	QPN    uint32 // if bound and of type 2: number of the QP that the window belongs to
	Serial uint64 // if bound and of type 2: serial of that QP, whose number another QP may get later
	Parent *Mkey  // if bound: the key of the memory that the window opens; otherwise nil
}

// MostMinis is the most completions in one session. libmlx5 reports it to programs as
// cqe_comp_caps.max_num.
const MostMinis = control.MaxMinis
