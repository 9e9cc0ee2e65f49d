//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// A mover finds memory by keys and moves bytes.
type mover struct {
	completion.Completer
	Null nullKeys
	DMA  DMA
}

// links is the transport over links, as the execution of work requests sees it.
type links interface {
	LeaveWire(q *object.QP)
	StopWire(q *object.QP)
	RewindQueue(q *object.QP)
	Doubted(q *object.QP) bool
	RouteAway(q *object.QP, av *wqe.AV) bool
	SendDatagram(q *object.QP, j *object.Job, av *wqe.AV) object.Verdict
	DetourDatagram(q *object.QP, send func())
}

// A queues keeps the states of queue pairs: transitions, stalls, flushes.
type queues struct {
	mover
	Links links
}

// A responder serves the requests of peers on this device.
type responder struct{ queues }

// An injector does what rules of faults say of WQEs.
type injector struct {
	responder
	Commands []inject.Command // what is to be done before the next step
}

// A requester checks WQEs.
type requester struct{ injector }

// An Executor executes WQEs.
type Executor struct {
	requester
	series series    // the series that the fast path is executing
	apart  nic.Flows // WRITEs and READs of this burst that traffic.Odd has counted
}

// A DMA holds the workers that copy long transfers, and the least sizes of transfers that are
// offloaded to workers; see dma.go.
type DMA struct {
	Workers []*Worker
	Sizes   OffloadSizes // UsualOffloadSizes, except in tests
	Beyond  uint64       // transfers of at least this many bytes are copied past the caches
}

// An OffloadSizes holds the least number of bytes that a transfer must have to be offloaded,
// and the least number that one piece of it must have.
type OffloadSizes struct{ Transfer, Piece uint64 }

// A nullKeys has two keys without a client, which stand for the null key: one where it is read,
// and one where it is written. Each is a list that repeats the same bytes. Every shard has its
// own, so no two shards write the same bytes.
type nullKeys struct{ zeros, sink object.Mkey }

// A series is what the shard knows of the WQEs that it is executing together.
type series struct {
	done     int    // number of WQEs that have been executed; 0: there is no series
	signaled uint64 // bit n: of the WQEs executed, the one n before the last is signaled
	op       wqe.Opcode
	bytes    uint64 // payload of each WQE
}
