package sanitize

import (
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/wqe"
)

// Limits of what is kept, whatever the events say. A WQE has some 200 bytes here, a record 200, a receive 100
// for each piece of its list, a completion 48.
const (
	mostRecords     = 1 << 18 // of all memory; the oldest are dropped
	mostWorks       = 1 << 20 // in flight, of all queues; those beyond are not checked
	mostReceives    = 1 << 20 // of all queues; those beyond are not checked
	mostBuffers     = 1 << 20 // pieces of memory of all receives; receives with more are not checked
	mostFound       = 1 << 12 // accesses with which those of a data segment are compared
	mostQueues      = 1 << 20 // queue pairs, and completion queues, and shared receive queues
	mostBlocks      = 1 << 15 // of the ring of a queue pair: its WQEs in flight are no more
	mostTail        = 1 << 10 // of a queue pair that have ended without a completion; older ones are dropped
	mostCompletions = 1 << 16 // of a completion queue that were not taken; older ones count as taken
)

// A process is a program: all clients with one process id. They have one memory, and know what any of
// them knows.
type process struct {
	id      processID
	clients int
	first   *client // which has the name
	memory  tree
	posted  map[span]*record // buffers of receives
	knows   *clock
	seen    *clock // was executed in its memory, which it may poll: it knows that when it posts next
	foreign uint64 // packets that came for it over links
}

// A processID is a process id, or the number of a client whose process id is not known.
type processID struct {
	pid    uint64
	client uint32
}

// A client is one connection of a process to the device.
type client struct {
	number  uint32
	name    objects.Client
	process *process

	queues map[uint32]*queue
	cqs    map[uint32]*cq
	srqs   map[uint32]*srq
}

// A queue is a queue pair. Its slot is its place in clocks: no other queue pair has it at the same time, and
// the numbers of WQEs go on when another one gets it.
type queue struct {
	number   uint32
	client   *client
	slot     uint32
	last     uint64                // number of the WQE that was found last
	done     uint64                // number of the WQE that has ended last
	works    []*work               // found and not ended, in their order: their numbers are consecutive
	begun    int                   // so many of them, from the first, were started
	untaken  uint64                // number before which all that get a receive have got it
	taken    []*work               // have got a receive that has no completion, in the order of that
	ended    uint16                // index of the last block that has ended
	hasEnded bool                  // one has ended since it was reset
	tail     []*work               // ended after the last one that has a completion
	records  map[recordKey]*record // accesses of its WQEs
	fence    uint64                // number of the last WQE that waits for READs before it
	extra    *clock                // what it knows because it has waited (WAIT) or was enabled
	brings   *clock                // what its READs and atomics have brought so far

	receives receives
	signed   bool // its WQEs and receives have signatures
	state    trace.State
	dropped  []*work // in flight when it was reset by the event before, in RTS
	droppedN uint32  // number of that event
}

// A receives is what is known of the receives of a queue.
type receives struct {
	since    uint64 // moment
	posted   map[uint16]*receive
	count    uint64 // were posted
	consumed uint64
}

// A receive is one that was posted.
type receive struct {
	index   uint16
	queue   uint32
	shared  bool
	client  *client
	found   uint64 // moment
	time    uint64
	foreign uint64 // see the method of that name
	list    []part
	taken   bool
	stack   []string
}

// A part is a piece of the list of a receive.
type part struct {
	addr, n uint64
	key     uint32
	records []*record
}

// A work is a WQE that the device has found.
type work struct {
	queue       *queue
	index       uint16
	number      uint64 // WQEs of its queue are counted
	ctrl        wqe.Ctrl
	bytes       []byte // nil after it was started
	time        uint64
	found       uint64 // moment
	started     bool
	moved       bool   // its bytes were moved, and somebody may have seen that
	took        bool   // its message has got a receive
	target      uint32 // WAIT: the completion queue; SEND_EN: the queue pair
	length      uint64
	knows       *clock
	records     []*record
	used        []use  // keys
	foreign     uint64 // see the method of that name
	blind       bool   // it writes to memory that is not known
	stack       []string
	overwritten bool // the device has written some of what it sends, for another WQE
}

// A use is a key that a WQE uses.
type use struct {
	key    uint32
	remote bool
}

// A mode says how a WQE, or a receive, accesses memory.
type mode uint8

const (
	reads   mode = iota // the source of a WQE
	results             // where a READ or an atomic puts what it has read
	fetches             // remote memory, of a READ
	writes              // remote memory
	atomics             // a word of remote memory
	lands               // the buffer of the receive that the message of a WQE has got
	awaits              // the buffer of a receive that was posted
)

var modeNames = [...]string{"read", "write (result)", "read", "write", "atomic", "write (message)", "receive"}

func (m mode) String() string { return modeNames[m] }

// stores reports whether an access changes memory.
func (m mode) stores() bool { return m == results || m == writes || m == atomics || m == lands }

// local reports whether an access is to memory of the program that has posted the WQE.
func (m mode) local() bool { return m == reads || m == results }

// A span is memory: bytes from..end-1 of a process.
type span struct{ from, end uint64 }

// A recordKey tells the accesses of a queue pair apart. WQEs of a queue pair are executed in their order, so
// the last one of several that do the same is enough.
type recordKey struct {
	owner *process
	mode  mode
	span
}

// A record is an access to memory, of the last WQE of a queue pair that makes it; or the buffer of receives
// that were posted, count of them.
type record struct {
	span
	links
	owner *process
	queue *queue // nil: awaits
	mode  mode
	work  *work
	key   uint32
	addr  uint64 // as the WQE has it
	count int
	wrote uint64 // moment at which the device has last written some of it for another WQE
	ours  uint64 // moment at which the program has last posted a WQE with some of it

	older, newer *record // in the order of age
}

// A cq is a completion queue.
type cq struct {
	number  uint32
	client  *client
	since   uint64            // moment
	loose   bool              // collapsed, or ignores overrun: nobody says which completions were taken
	taken   bool              // at least one was, or nobody knows
	known   bool              // no completion was written after the last event that says how many were taken
	good    uint64            // completions without an error that were written
	unread  map[uint32]uint64 // completions of each queue pair, as long as none was taken
	removed uint64            // those of them whose queue pair is gone: libmlx5 removes them
	entries []completion
	all     *clock // of all completions that were written
}

// A completion is one that was not taken.
type completion struct {
	value  uint64 // its producer index
	slot   uint32
	number uint64 // of the last WQE that it completes
	brings *clock
}

// An srq is a shared receive queue.
type srq struct {
	number   uint32
	client   *client
	receives receives
}
