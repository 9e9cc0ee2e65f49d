package hostpath

import "fmt"

// A SharedSQ is a send queue with any number of posters, which are goroutines or lanes of an
// accelerator. Requests that are posted one after another leave the same bytes in the ring,
// the record and the register as they would on an SQ.
//
// All methods except Reset are safe for concurrent use, and none of them waits for another
// caller. Work is executed in the order in which its blocks were reserved. A request can
// start only when it and all requests with earlier blocks are committed. A poster must ring
// before it waits for free blocks, because another poster may be waiting for work that the
// first poster has committed.
type SharedSQ struct {
	SendRing
	seq sequence
}

// NewSharedSQ returns a send queue whose indices begin at 0, as NewSQ does.
func NewSharedSQ(c SQConfig) (*SharedSQ, error) {
	q := new(SharedSQ)
	if err := q.setUp(c); err != nil {
		return nil, err
	}
	q.seq.init(q.size)
	return q, nil
}

// Post reserves blocks, writes the WQE of wr into them and commits it. The next Ring of any
// poster announces the WQE to the device. The errors are those of SQ.Post.
func (q *SharedSQ) Post(wr *SendWR) error {
	f, n, err := q.plan(wr)
	if err != nil {
		return err
	}
	first, previous, ok := q.seq.reserve(n, nextMark(wr), &q.freed)
	if !ok {
		return ErrFull
	}
	q.lay(first, f, n, wr, fenceFor(previous))
	q.seq.commit(first, first+n)
	return nil
}

// Blocks returns how many blocks of 64 bytes the work requests take. The error says why the
// first request that cannot be posted is refused.
func (q *SharedSQ) Blocks(wrs []SendWR) (blocks uint64, err error) {
	for i := range wrs {
		_, n, err := q.plan(&wrs[i])
		if err != nil {
			return 0, err
		}
		blocks += n
	}
	return blocks, nil
}

// PostList posts the work requests as one reservation, so that no other poster's work comes
// between them, and rings. After an error none of them is posted. The error is ErrFull while
// there is not enough room for all of them.
func (q *SharedSQ) PostList(wrs []SendWR) (n int, err error) {
	blocks, err := q.Blocks(wrs)
	switch {
	case err != nil || len(wrs) == 0:
		return 0, err
	case blocks > q.size:
		return 0, q.tooLong(blocks)
	}
	first, previous, ok := q.seq.reserve(blocks, nextMark(&wrs[len(wrs)-1]), &q.freed)
	if !ok {
		return 0, ErrFull
	}
	at := first
	for i := range wrs {
		f, n, _ := q.plan(&wrs[i])
		q.lay(at, f, n, &wrs[i], fenceFor(previous))
		previous = nextMark(&wrs[i])
		at += n
	}
	q.seq.commit(first, at)
	q.Ring()
	return len(wrs), nil
}

// tooLong returns the error for a list that is longer than the ring.
func (q *SharedSQ) tooLong(blocks uint64) error {
	return fmt.Errorf("hostpath: a list of %d blocks of 64 bytes; the queue has %d", blocks, q.size)
}

// Ring notifies the device of all work, of any poster, before the first block that is not
// committed. Like SQ.Ring it writes the record, then the register. While another caller is
// ringing, Ring returns at once, and the other caller rings for both.
func (q *SharedSQ) Ring() {
	for q.seq.due() && q.seq.begin() {
		end := q.seq.written()
		if end != q.seq.rung.Load() {
			q.publish(end, q.lastWQE(end))
		}
		q.seq.end(end)
	}
}

// Index returns how many blocks have been rung: see SQ.Index. Index wraps.
func (q *SharedSQ) Index() uint32 { return uint32(q.seq.rung.Load()) }

// Reserved returns the count of the first block that is not reserved.
func (q *SharedSQ) Reserved() uint64 { return q.seq.next.Load() &^ mark }

// Free returns how many blocks of 64 bytes are not reserved. The result can be too low, but
// never too high.
func (q *SharedSQ) Free() int {
	freed := q.freed.Observe()
	return int(freed + q.size - q.Reserved())
}

// Reset sets index and record to 0. No post, ring or poll may run at the same
// time.
func (q *SharedSQ) Reset() {
	q.seq.reset()
	q.clear()
}
