package engine

// What a client makes costs memory of the device's own. It is counted when it is
// made, at the most that it can come to, so that no client can fill the device with
// objects that cost it nothing.

// maxMemory is for all users together. A key costs so much that indices cannot
// run short either, nor can numbers of queues: an eighth of them is in use at
// the most, and a free one is found by trying.
const maxMemory = 1 << 30

// Costs in bytes, with what tables and the garbage collector add.
const (
	clientCost = 128 << 10 // its goroutine, and answers that it does not read (server)
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

// socketBill is what an event socket takes.
var socketBill = bill{descriptors: 1, memory: socketCost}

// refund gives back the memory of an object that is gone.
func (c *client) refund(cost int) { c.e.shares.give(c.uid, bill{memory: cost}) }

// trim drops spare jobs that the queue pairs left over cannot need.
func (sh *shard) trim() {
	if keep := len(sh.qps); len(sh.scratch.spare) > keep {
		clear(sh.scratch.spare[keep:])
		sh.scratch.spare = sh.scratch.spare[:keep]
	}
}
