//go:build linux && (amd64 || arm64)

package engine

import (
	"math"

	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/wqe"
)

// A thread of the device is built of layers. Each type has the one before it inside and knows nothing of
// those after it. So an import of a later layer cannot be needed, and each layer can become a package.

// A reporter explains faults and delays.
type reporter struct {
	shard
	pace             // how the thread measures its own progress; see progress.go
	trial     bool   // a WQE is judged whose mistakes must not show yet; see fetch
	diagnosed int    // index in running of the QP that was diagnosed last
	published uint64 // device clock when the status pages were written last
}

// A completer writes completions and sends their events.
type completer struct{ reporter }

// A mover finds memory by keys and moves bytes.
type mover struct {
	completer
	null nullKeys
	dma  dma
}

// links is the transport over links, as the execution of work requests sees it.
type links interface {
	leaveWire(q *qp)
	stopWire(q *qp)
	rewindQueue(q *qp)
	doubted(q *qp) bool
	leaves(q *qp, av *wqe.AV) bool
	sendDatagram(q *qp, j *job, av *wqe.AV) verdict
}

// A queues keeps the states of queue pairs: transitions, stalls, flushes.
type queues struct {
	mover
	links links
}

// A responder serves the requests of peers on this device.
type responder struct{ queues }

// A requester judges WQEs.
type requester struct{ responder }

// An executor executes WQEs.
type executor struct{ requester }

// A wires keeps the timers and the state of queue pairs whose peers are on other devices.
type wires struct{ executor }

// A receiver serves their packets.
type receiver struct{ wires }

// A sender turns their WQEs into packets.
type sender struct{ receiver }

// A portServer serves ports.
type portServer struct{ sender }

// A threadLoop is all of them, and visits queues.
type threadLoop struct {
	portServer
	r      *runner
	pass   pass
	pauser cores.Pauser // lets other threads have the core, if the thread has a real-time policy
}

// A runner has the loops of all threads.
type runner struct {
	*device
	loops []*threadLoop
}

// A caller is a client with what its requests need.
type caller struct {
	*client
	r nicDevice
}

func newLoop(r *runner, number int) *threadLoop {
	sh := &threadLoop{r: r}
	sh.shard.init(r.device, number)
	sh.pace.bound = math.MaxUint64
	sh.null = newNullKeys()
	sh.dma = dma{sizes: usualOffloadSizes, beyond: copying.Threshold(cpu.CacheSize())}
	sh.links = sh
	return sh
}

// loop returns the thread to which the client belongs.
func (c *caller) loop() *threadLoop { return c.r.loops[c.shard.number] }
