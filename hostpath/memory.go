package hostpath

// The methods in this file return the memory of queues, for dumps and demonstrations. It is
// the shared memory itself, and the caller must not write to it. While posters and the
// device are at work, a reader may see some bytes from before a change and some from after
// it.

// Memory returns the ring, which consists of blocks of 64 bytes.
func (q *SendRing) Memory() []byte { return q.ring }

// Register returns the contents of the two halves of the doorbell register. Doorbells are
// written to the two halves alternately. Queues can share a register, which then shows the
// doorbells of the queue that rang last. ok is false if the queue has no register.
func (q *SendRing) Register() (halves [2]uint64, ok bool) {
	for i, r := range q.reg {
		if r == nil {
			return halves, false
		}
		halves[i] = r.Observe()
	}
	return halves, true
}

// Memory returns the ring, which consists of entries of equal size.
func (q *RQ) Memory() []byte { return q.ring }

// Memory returns the ring, which consists of entries of 64 or 128 bytes.
func (q *CQ) Memory() []byte { return q.ring }

// Entries returns how many receives the ring holds.
func (q *RQ) Entries() int { return int(q.size) }
