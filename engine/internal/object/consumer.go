//go:build linux && (amd64 || arm64)

package object

// The record of a completion queue has the consumer index: the completions that the client has taken,
// modulo 2^24. Some clients store it modulo the size of the queue (NVSHMEM's ibdevx), which a NIC is not
// known to refuse. For them, what 24 bits say becomes wrong after the first lap: a queue that is empty
// seems full, or its index seems to have gone back. docs/design/0066-consumer-index.md has the rule and
// its reasons.

// A Counting says how a client counts in the record of a completion queue.
type Counting uint8

const (
	// Unknown: so far all values have been possible in both ways. While a client's way is unknown, the
	// device reads the record each quarter of a lap, and more often when the queue is nearly full. So a
	// value comes round between two reads only if the client lets the queue become full and then takes a
	// whole lap.
	Unknown Counting = iota
	In24Bits
	ModuloSize
)

// SetSeen sets Seen by Taken and Counts.
func (q *CQ) SetSeen() {
	q.Seen = q.Taken
	size := uint64(1) << (q.Log & 63)
	room := size - (q.Next - q.Taken)
	if q.Counts == Unknown && room-1 < size { // there is room
		q.Seen = q.Next + max(min(size/4, room/2), 1) - size
	}
}

// Room observes the consumer index and reports whether fewer than n completions are unread,
// so that one more fits. A consumer index that the client cannot have reached is ignored.
//
// Observe: consumer index. Published by hostpath.CQ.Poll.
func (q *CQ) Room(n uint64) bool {
	if q.Dead || q.Filled != "" {
		return false // a completion was lost, and none may follow it; or the next one is to be lost
	}
	index := uint64(q.Consumer.Observe()) & 0xffffff
	behind, most, size := (q.Next-index)&0xffffff, q.Next-q.Taken, uint64(1)<<(q.Log&63)
	switch {
	case index >= size:
		if behind > most {
			return false // the index has gone back, or is beyond the entries written
		}
		q.Counts = In24Bits
	case q.Counts == ModuloSize, q.Counts == Unknown && behind > most:
		// Full and empty are one value here. It counts as empty: such a client cannot say that a queue is
		// full.
		behind = (q.Next - index) & (size - 1)
		if behind > most {
			return false
		}
		q.Counts = ModuloSize
	case behind > most:
		return false
	}
	q.Taken = q.Next - behind
	q.SetSeen()
	return q.Unread() < n
}
