package hostpath

// The loop in this file posts the commonest requests, many at a time. It keeps its variables
// in CPU registers, so that there are no other stores between the stores to the ring. More
// cache lines of the ring are then in flight between poster and device at once.

// layRun posts work requests from the beginning of wrs, as long as they are READs or WRITEs
// of one block with one pointer and there is room. It returns how many it posted. The effect
// is the same as a Post of each of them.
func (q *SQ) layRun(wrs []SendWR) int {
	next, n := q.next, 0
	if next+uint64(len(wrs))-q.seen > q.size {
		q.seen = q.freed.Observe()
	}
	room := min(uint64(len(wrs)), q.seen+q.size-next)
	fence := q.nextFence
	for n < int(room) {
		wr := &wrs[n]
		if wr.Op >= numOps || wr.Flags > allFlags {
			break
		}
		op := &ops[wr.Op]
		if !op.raddr || q.form(wr, op) != pointer {
			break
		}
		// The same as layPointer.
		b, sge, second := q.block(next), &wr.SGE[0], q.secondWord(wr, op, fence)
		putMove(b, q.firstWord(next, op), second, &wr.RemoteAddr, &wr.RKey, sge)
		q.slots[next&(q.size-1)] = noted(wr.ID, 1, wr.Op)
		fence = 0
		next++
		n++
	}
	if n > 0 {
		q.next, q.nextFence = next, 0
	}
	return n
}
