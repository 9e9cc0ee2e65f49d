package accel

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/hostpath"
)

// A Queue is a queue pair for kernels. Any number of devices can share a Queue. Its methods
// are safe for concurrent use.
type Queue struct {
	x Export
}

// An Export is a queue pair of the host API, as QP.Export returns it.
type Export = hostpath.Export

// NewQueue makes a queue pair usable by kernels. x is the result of QP.Export of a
// Concurrent queue pair, or describes queues that the program has made in another way, for
// instance by firmware commands (include/testdata/devxposter). The host may continue to post
// to the queue pair, but its requests must be Signaled, because Quiet waits for them too.
func NewQueue(x Export) (*Queue, error) {
	if x.Send == nil || x.SendCQ == nil || x.Wake == nil || x.Err == nil {
		return nil, errNoQueue
	}
	return &Queue{x}, nil
}

var errNoQueue = errors.New("accel: queue without a queue pair: take what QP.Export returns")

// Err returns the error of the first request that failed, among those whose completions have
// been polled. If there is none, Err returns why no further request will complete, or nil.
func (q *Queue) Err() error {
	if q.x.Send == nil {
		return errNoQueue
	}
	if err := q.x.Send.Failed(); err != nil {
		return err
	}
	return q.x.Err()
}

// done reports whether the wait for the first count blocks of the queue is over: either all
// of these blocks are complete, or they never will be.
func (q *Queue) done(p *processor, count uint64) bool {
	if q.x.Send.Done() >= count {
		return true
	}
	q.x.SendCQ.TryPoll(p.polled[:])
	return q.x.Send.Done() >= count || q.Err() != nil
}

// room reports whether the wait for n free blocks is over: either n blocks are free, or they
// never will be.
func (q *Queue) room(p *processor, n uint64) bool {
	q.x.SendCQ.TryPoll(p.polled[:])
	return uint64(max(0, q.x.Send.Free())) >= n || q.Err() != nil
}

// refused is the cause of a KernelError when a request cannot be posted. The kernel ends, as
// it would after a fault on other accelerators, but with a reason.
type refused struct {
	what string
	err  error
}

func (e *refused) Error() string { return e.what + ": " + e.err.Error() }
func (e *refused) Unwrap() error { return e.err }

// post waits for room, posts the requests as one reservation, and rings. The last request is
// signaled, so that Quiet can tell when all of them are complete.
func (t *Thread) post(what string, q *Queue, wrs []hostpath.SendWR) {
	wrs[len(wrs)-1].Flags |= hostpath.Signaled
	wrs[0].Flags |= t.fence
	t.fence = 0
	for {
		_, err := q.x.Send.PostList(wrs)
		if err == nil {
			q.x.Wake()
			return
		}
		blocks, _ := q.x.Send.Blocks(wrs)
		t.retry(what, q, blocks, err)
	}
}

// postWrites is post for the puts of a warp. Each put takes one block. postWrites uses as few
// reservations as the ring allows. first has the flags of the first put.
func (t *Thread) postWrites(q *Queue, list []hostpath.WriteWR, first hostpath.Flags) {
	for len(list) > 0 {
		n := min(len(list), q.x.Send.Size())
		if err := q.x.Send.PostWrites(list[:n], first); err != nil {
			t.retry("PutWarp", q, uint64(n), err)
			continue
		}
		q.x.Wake()
		list, first = list[n:], 0
	}
}

// retry handles err, the refusal of requests. If err is ErrFull, retry waits until there is
// room for that many blocks. After any other error, or if there will never be room, it ends
// the kernel.
func (t *Thread) retry(what string, q *Queue, blocks uint64, err error) {
	if errors.Is(err, hostpath.ErrFull) {
		if err = q.Err(); err == nil {
			t.lane.queue, t.lane.count = q, blocks
			t.lane.pause(forRoom)
			return
		}
	}
	panic(&refused{fmt.Sprintf("%s through QP 0x%06x", what, q.x.Send.QPN()), err})
}

// Quiet waits until all requests posted to q so far, by any lane, device or host thread,
// are complete (nvshmem_quiet). If requests have failed, it returns the error of the first.
func (t *Thread) Quiet(q *Queue) error {
	t.drainPuts()
	if count := q.x.Send.Reserved(); !q.done(t.lane.proc, count) {
		t.lane.queue, t.lane.count = q, count
		t.lane.pause(forDone)
	}
	return q.Err()
}

// Fence makes the next request of this lane wait until all earlier requests in its queue are
// complete (IBV_SEND_FENCE). A Fence is needed after a Get or an atomic. Puts of one queue
// are executed in order without a Fence.
func (t *Thread) Fence() {
	t.drainPuts()
	t.fence = hostpath.Fence
}
