package hostpath

// The functions of this file show the shared memory of a queue as it lies, for
// dumps and demonstrations. The bytes must not be written, are gone with the
// queue, and while work is under way need not belong together.

// SendRing returns the ring of the send queue, whole blocks of 64 bytes.
func (q *QP) SendRing() []byte { return q.sq.Memory() }

// RecvRing returns the ring of the receive queue, entries of one stride; nil if
// receives come from an SRQ.
func (q *QP) RecvRing() []byte {
	if q.rq == nil {
		return nil
	}
	return q.rq.Memory()
}

// Record returns the doorbell record, 8 bytes: the count of receives, then that
// of send blocks.
func (q *QP) Record() []byte { return q.rec.mem[:8:8] }

// Register returns the two halves of the UAR register that the send queue
// rings in turn, as big-endian numbers. Queues can share a register.
func (q *QP) Register() [2]uint64 {
	halves, _ := q.sq.Register()
	return halves
}

// Ring returns the ring of the completion queue, entries of 64 or 128 bytes.
func (q *CQ) Ring() []byte { return q.cq.Memory() }

// Record returns the doorbell record, 8 bytes: the consumer index, then the
// arm word.
func (q *CQ) Record() []byte { return q.rec.mem[:8:8] }
