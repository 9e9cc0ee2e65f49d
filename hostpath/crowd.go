package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/wqe"
)

// A CrowdSQ is a send queue that any number of goroutines, lanes or threads post
// to at once. Its bytes are those of an SQ: who posts one request after another
// leaves the same in the ring, the record and the register.
//
// All methods but Reset are safe for concurrent use, and none of them waits for
// another caller. Work is executed in the order in which its room was reserved,
// so it starts once everything reserved before it is committed too. Who posts
// must ring before it waits for room: others may wait for what it has committed.
type CrowdSQ struct {
	SendRing
	seq sequence
}

// NewCrowdSQ returns a send queue as NewSQ does.
func NewCrowdSQ(c SQConfig) (*CrowdSQ, error) {
	q := new(CrowdSQ)
	if err := q.setUp(c); err != nil {
		return nil, err
	}
	q.seq.init(q.size)
	return q, nil
}

// Post reserves room, writes the WQE of wr there and commits it; the device
// learns of it by the next Ring of any poster. Refusals are those of SQ.Post.
func (q *CrowdSQ) Post(wr *SendWR) error {
	f, n, err := q.judge(wr)
	if err != nil {
		return err
	}
	first, left, ok := q.seq.reserve(n, leaves(wr), &q.freed)
	if !ok {
		return ErrFull
	}
	q.lay(first, f, n, wr, fenceAfter(left))
	q.seq.commit(first, first+n)
	return nil
}

// Blocks returns how many blocks of 64 bytes the work requests take, or why the
// first that cannot be posted cannot.
func (q *CrowdSQ) Blocks(wrs []SendWR) (blocks uint64, err error) {
	for i := range wrs {
		_, n, err := q.judge(&wrs[i])
		if err != nil {
			return 0, err
		}
		blocks += n
	}
	return blocks, nil
}

// PostList posts the work requests as one reservation, so that no other
// poster's work comes between them, and rings. All of them are posted, or, with
// an error, none: ErrFull until there is room for all.
func (q *CrowdSQ) PostList(wrs []SendWR) (n int, err error) {
	blocks, err := q.Blocks(wrs)
	switch {
	case err != nil || len(wrs) == 0:
		return 0, err
	case blocks > q.size:
		return 0, q.tooLong(blocks)
	}
	first, left, ok := q.seq.reserve(blocks, leaves(&wrs[len(wrs)-1]), &q.freed)
	if !ok {
		return 0, ErrFull
	}
	at := first
	for i := range wrs {
		f, n, _ := q.judge(&wrs[i])
		q.lay(at, f, n, &wrs[i], fenceAfter(left))
		left = leaves(&wrs[i])
		at += n
	}
	q.seq.commit(first, at)
	q.Ring()
	return len(wrs), nil
}

// tooLong says why a list of so many blocks can never be posted.
func (q *CrowdSQ) tooLong(blocks uint64) error {
	return fmt.Errorf("hostpath: a list of %d blocks of 64 bytes; the queue has %d", blocks, q.size)
}

// leaves returns the mark of a reservation that ends with wr: whether the WQE
// after it must be fenced.
func leaves(wr *SendWR) uint64 {
	if ops[wr.Op].leaves != 0 {
		return mark
	}
	return 0
}

// fenceAfter returns the fence that follows from the mark of the WQE before.
func fenceAfter(left uint64) uint8 {
	if left != 0 {
		return wqe.FenceSmall
	}
	return 0
}

// Ring makes the device see everything that is committed without a gap before
// it, by whomever: record, then register, as SQ.Ring does. If another caller is
// about that, it will see to the rest, and Ring returns at once.
func (q *CrowdSQ) Ring() {
	for q.seq.due() && q.seq.begin() {
		end := q.seq.written()
		if end != q.seq.rung.Load() {
			q.publish(end, q.begins(end))
		}
		q.seq.end(end)
	}
}

// Index returns how many blocks have been rung: see SQ.Index. It wraps.
func (q *CrowdSQ) Index() uint32 { return uint32(q.seq.rung.Load()) }

// Reserved returns the count of the first block that nobody has reserved.
func (q *CrowdSQ) Reserved() uint64 { return q.seq.next.Load() &^ mark }

// Free returns how many blocks of 64 bytes nobody has reserved, at least.
func (q *CrowdSQ) Free() int {
	freed := q.freed.Observe()
	return int(freed + q.size - q.Reserved())
}

// Reset begins again at index 0 and with a record of 0. Nobody may post, ring
// or poll meanwhile.
func (q *CrowdSQ) Reset() {
	q.seq.reset()
	q.clear()
}
