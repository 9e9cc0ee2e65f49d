//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/engine/internal/quota"

// What a client makes takes memory of the device's own. It is charged when it is made, at the
// most that it can come to, so that no client can fill the device with objects that cost it
// nothing.

// Memory that objects take, in bytes, with what tables and the garbage collector add.
const (
	clientCost = 128 << 10 // its goroutine, and answers that it has not read (server)
	pdCost     = 128
	regionCost = 512
	keyCost    = 512
	runCost    = 64 // an entry of a list
	cqCost     = 1 << 10
	srqCost    = 1 << 10
	entryCost  = 2        // an entry of an SRQ that may come back
	qpCost     = 10 << 10 // mostly the job that it may have under way
	socketCost = 216 << 10
)

// eventBuffer is the send buffer of an event socket in bytes, of which the kernel makes
// twice as much: events that a client does not read lie there.
const eventBuffer = 104 << 10

func (k *mkey) cost() int { return keyCost + k.room*runCost }

func (s *srq) cost() int { return srqCost + (int(s.mask)+1)*entryCost }

// clientCharge is what a client needs to exist: a connection and two pages.
var clientCharge = quota.Charge{quota.Mappings: 2, quota.Descriptors: 2, quota.Connections: 1, quota.Memory: clientCost}

// socketCharge is what an event socket takes.
var socketCharge = quota.Charge{quota.Descriptors: 1, quota.Memory: socketCost}

// refund refunds the memory of an object that is gone.
func (c *client) refund(cost int) { c.e.ledger.Refund(c.uid, quota.Charge{quota.Memory: cost}) }

// trim drops spare jobs beyond the number of queue pairs, which can need no more.
func (sh *shard) trim() {
	if keep := len(sh.qps); len(sh.scratch.spare) > keep {
		clear(sh.scratch.spare[keep:])
		sh.scratch.spare = sh.scratch.spare[:keep]
	}
}
