package record

import (
	"io"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A process is one that has written a raw file.
type process struct {
	in      io.ReaderAt
	reader  *rawReader
	objects map[uint64]*object
	ended   bool // in order
	cut     bool // its file ends within a record
	last    uint64
}

// An object is what a process has made: a device that it has opened, a queue or a key.
type object struct {
	kind    uint8 // rawContext, rawCQ, …
	process *process
	context *object
	number  uint32
	client  uint32 // of a context: its number in the trace
	left    bool   // it is not in the trace
	own     bool   // the program reads or writes its ring itself, or that of a queue which it uses
	gone    bool
	before  *object // had the same number, and is gone although no earlier record says so
	pd      uint32

	gid    [16]byte // of a context
	name   string   // of its device
	queues []*object

	entries, size uint32 // of CQs, SRQs, receives: number and bytes

	key trace.KeyInfo
	// rights of a key, without those that say how the memory is to be treated
	rights uint16
	from   uint64

	list []*completion // of a CQ
	next int           // first of list that is not written

	// qp is the life of a queue pair that the records, and then the events, have come to.
	qp           *queue
	userIndex    uint32
	wasUserIndex bool
	scatter      uint8
}

// A queue is a life of a queue pair: from when it was made, or reset, to when it is reset or destroyed. Then
// its counts begin again, and it may have another peer.
type queue struct {
	*object
	from, to            uint64 // times; to is math.MaxUint64 if it did not end
	next                *queue // the life after this one
	transport           trace.Transport
	sendCQ, recvCQ, srq *object
	blocks              uint32
	now                 attributes // while the events are gone through
	peer                *queue     // RC and UC
	dest                uint32     // the number of its peer, 0: it was not connected
	works               []*work
	byIndex             map[uint16]int // of the latest WQE at an index
	rest                []byte         // blocks of a WQE of which others are to come
	restTime            uint64
	nextIndex           uint16
	gap                 bool // blocks are missing: what follows in this life is not known
	known               int  // how many of works are known to have been executed
	receives            []*completion
	written             int // how many of works are in the trace
}

// attributes are struct nr_qp_attributes.
type attributes struct {
	peer, mtu, rqPSN, sqPSN, access, qkey                                uint32
	maxRd, maxDestRd, minRNR, rnrRetry, retryCount, timeout, port, state uint8
}

const attributesSize = 32

func parseAttributes(b []byte) (a attributes) {
	for i, p := range []*uint32{&a.peer, &a.mtu, &a.rqPSN, &a.sqPSN, &a.access, &a.qkey} {
		*p = le.Uint32(b[4*i:])
	}
	for i, p := range []*uint8{&a.maxRd, &a.maxDestRd, &a.minRNR, &a.rnrRetry, &a.retryCount, &a.timeout,
		&a.port, &a.state} {
		*p = b[24+i]
	}
	return a
}

// A work is a WQE that was posted.
type work struct {
	queue    *queue
	time     uint64 // before it was posted
	order    int    // in its queue
	index    uint16
	blocks   []byte
	ctrl     wqe.Ctrl
	length   uint64 // of its message, as its data segments say
	dest     uint32 // UD: number of the destination
	payload  []piece
	executed bool
	flushed  bool
	failed   bool
	taken    *completion // of the receive that its message has taken
	done     *completion // its own
	busy     bool        // it waits for others
	out      bool        // it is in the trace
}

// A piece is n bytes of a message, from a place on. They are in data or, if that is nil, in the file of the
// process.
type piece struct {
	data  []byte
	at    int64
	place uint64
	n     int
}

// A completion is one that was copied from its queue.
type completion struct {
	time    uint64
	cq      *object
	qp      *queue // nil: unknown
	entry   [cqe.Size]byte
	wc      cqe.WC
	receive []byte // the entry of the receive
	grh     []byte
	work    *work
	dropped bool // it is not in the trace
	written bool
}

// A happening is what is gone through in the order of times.
type happening struct {
	time   uint64
	kind   uint8 // rawContext … rawGone, rawCQE
	object *object
	attr   attributes
	reset  bool // a new life begins with attr
	c      *completion
}
