package nicless

// The methods in this file return the shared memory of a queue, for dumps and
// demonstrations, or nil after Close. The caller must not write to the bytes. They are
// valid until the queue is closed. While work is under way the bytes change, and a reader
// may see some bytes from before a change and some from after it.

// SendRing returns the ring of the send queue, which consists of blocks of 64 bytes.
func (q *QP) SendRing() []byte {
	if !q.open() {
		return nil
	}
	return q.sends.Memory()
}

// RecvRing returns the ring of the receive queue, which consists of entries of equal size.
// It returns nil if receives come from an SRQ.
func (q *QP) RecvRing() []byte {
	if q.rq == nil || !q.open() {
		return nil
	}
	return q.rq.Memory()
}

// Record returns the doorbell record, 8 bytes: the count of receives, then the count of
// send blocks.
func (q *QP) Record() []byte {
	if !q.open() {
		return nil
	}
	return q.rec.mem[:8:8]
}

// open reports whether the queue pair still owns its memory.
func (q *QP) open() bool { return q.c != nil && !q.closed.Load() && !q.c.closed.Load() }

// Register returns the two halves of the UAR register of the send queue, read as big-endian
// numbers, or zeros after Close. Doorbells are written to the two halves alternately.
// Queues can share a register.
func (q *QP) Register() (halves [2]uint64) {
	if !q.open() {
		return halves
	}
	halves, _ = q.sends.Register()
	return halves
}

// Ring returns the ring of the completion queue, which consists of entries of 64 or 128
// bytes.
func (q *CQ) Ring() []byte {
	if q.open() != nil {
		return nil
	}
	return q.cq.Memory()
}

// Record returns the doorbell record of the completion queue, 8 bytes: the consumer index,
// then the arm word.
func (q *CQ) Record() []byte {
	if q.open() != nil {
		return nil
	}
	return q.rec.mem[:8:8]
}
