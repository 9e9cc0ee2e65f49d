//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/engine/internal/quota"

// The objects that a client makes take memory of the device's process. Each object is charged
// to the client's user when it is made, with the most memory that it can ever take. So no
// client can fill the device with objects for which nobody is charged.

// These constants are the memory that objects take, in bytes. They include what tables and
// the garbage collector add.
const (
	clientCost = 128 << 10 // the client's goroutine, and answers that the client has not read (server)
	pdCost     = 128
	regionCost = 512
	keyCost    = 512
	runCost    = 64 // an entry of a list
	cqCost     = 1 << 10
	srqCost    = 1 << 10
	entryCost  = 2        // for each entry of an SRQ, because transfers may put all entries back unused
	qpCost     = 10 << 10 // mostly for the job that a queue pair may have
	wireCost   = 40 << 10 // of a queue pair on a link beyond qpCost: messages on the way, and up to four jobs
	socketCost = 216 << 10
)

// eventBuffer is the size in bytes that is set for the send buffer of an event socket. The
// kernel allows twice as much. The buffer holds the events that a client has not read.
const eventBuffer = 104 << 10

func (k *mkey) cost() int { return keyCost + k.room*runCost }

func (s *srq) cost() int { return srqCost + (int(s.mask)+1)*entryCost }

// clientCharge is what a client needs to exist: a connection and two pages.
var clientCharge = quota.Charge{quota.Mappings: 2, quota.Descriptors: 2, quota.Connections: 1, quota.Memory: clientCost}

// socketCharge is what an event socket takes.
var socketCharge = quota.Charge{quota.Descriptors: 1, quota.Memory: socketCost}

// refund refunds the memory of an object that is gone.
func (c *client) refund(cost int) { c.e.ledger.Refund(c.uid, quota.Charge{quota.Memory: cost}) }

// trim frees those spare jobs that exceed the number of queue pairs. Most queue pairs keep no job, some
// keep one, and those on links up to five.
func (sh *shard) trim() {
	if keep := len(sh.qps); len(sh.scratch.spare) > keep {
		clear(sh.scratch.spare[keep:])
		sh.scratch.spare = sh.scratch.spare[:keep]
	}
}
