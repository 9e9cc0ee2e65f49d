package nicless

// The functions of this file return the shared memory of a queue, for dumps and
// demonstrations; nil after Close. The bytes must not be written. They are valid until
// the queue is closed. While work is under way, they change, and may be a mixture of
// states.

// SendRing returns the ring of the send queue, whole blocks of 64 bytes.
func (q *QP) SendRing() []byte {
	if !q.open() {
		return nil
	}
	return q.sends.Memory()
}

// RecvRing returns the ring of the receive queue, entries of one stride; nil if
// receives come from an SRQ.
func (q *QP) RecvRing() []byte {
	if q.rq == nil || !q.open() {
		return nil
	}
	return q.rq.Memory()
}

// Record returns the doorbell record, 8 bytes: the count of receives, then that
// of send blocks.
func (q *QP) Record() []byte {
	if !q.open() {
		return nil
	}
	return q.rec.mem[:8:8]
}

// open reports whether the queue pair's memory is its own.
func (q *QP) open() bool { return q.c != nil && !q.closed.Load() && !q.c.closed.Load() }

// Register returns the two halves of the UAR register that the send queue
// rings in turn, as big-endian numbers; zeros after Close. Queues can share a
// register.
func (q *QP) Register() (halves [2]uint64) {
	if !q.open() {
		return halves
	}
	halves, _ = q.sends.Register()
	return halves
}

// Ring returns the ring of the completion queue, entries of 64 or 128 bytes.
func (q *CQ) Ring() []byte {
	if q.open() != nil {
		return nil
	}
	return q.cq.Memory()
}

// Record returns the doorbell record, 8 bytes: the consumer index, then the
// arm word.
func (q *CQ) Record() []byte {
	if q.open() != nil {
		return nil
	}
	return q.rec.mem[:8:8]
}
