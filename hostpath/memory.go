package hostpath

// The memory of queues, for dumps and demonstrations. It is the shared memory
// itself, so it must not be written. Bytes read from it while posters and the device
// are at work need not belong together.

// Memory returns the ring, whole blocks of 64 bytes.
func (q *SendRing) Memory() []byte { return q.ring }

// Register returns the contents of the two halves of the doorbell register, which
// are written in turn. Queues can share a register, and the last one to ring is
// seen. ok is false if the queue has none.
func (q *SendRing) Register() (halves [2]uint64, ok bool) {
	for i, r := range q.reg {
		if r == nil {
			return halves, false
		}
		halves[i] = r.Observe()
	}
	return halves, true
}

// Memory returns the ring, entries of one stride.
func (q *RQ) Memory() []byte { return q.ring }

// Memory returns the ring, entries of 64 or 128 bytes.
func (q *CQ) Memory() []byte { return q.ring }

// Entries returns how many receives the ring holds.
func (q *RQ) Entries() int { return int(q.size) }
