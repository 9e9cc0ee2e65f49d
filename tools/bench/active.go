//go:build linux && (amd64 || arm64)

package bench

import (
	"context"
	"errors"
	"slices"

	"github.com/nicless/nicless"
)

// A rotation is many queue pairs that one poster uses one after another. Each queue pair has
// a batch of 8-byte WRITEs in flight, and gets its next batch when the batch has completed.
type rotation struct {
	queues  []*nicless.QP
	cq      *nicless.CQ
	wrs     [][]nicless.SendWR // work requests of each queue
	flying  []int              // operations in flight on each queue
	done    []int              // operations that have completed on each queue since run began
	buf     [64]nicless.Completion
	largest int // largest batch
}

// newRotation makes n queue pairs and connects them in pairs. Each queue pair writes to its
// peer.
func newRotation(c *nicless.Context, n, batch int) (*rotation, error) {
	r := &rotation{flying: make([]int, n), done: make([]int, n), largest: batch}
	pd, err := c.AllocPD()
	if err != nil {
		return nil, err
	}
	mr, err := pd.RegisterMemory(2*n*64, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	r.cq, err = c.CreateCQ(nicless.CQConfig{Entries: n * batch, PollOnly: true})
	if err != nil {
		return nil, err
	}
	cfg := nicless.QPConfig{SendCQ: r.cq, MaxSendWR: 2 * batch, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1,
		MaxInline: 12}
	for len(r.queues) < n {
		a, b, err := connected(pd, cfg)
		if err != nil {
			return nil, err
		}
		r.queues = append(r.queues, a, b)
	}
	for i := range r.queues {
		wr := nicless.SendWR{ID: uint64(i), Op: nicless.Write, Flags: nicless.Signaled,
			SGE: []nicless.SGE{mr.SGE(i*64, 8)}, RemoteAddr: mr.Addr() + uint64(n+i)*64, RKey: mr.RKey()}
		r.wrs = append(r.wrs, slices.Repeat([]nicless.SendWR{wr}, batch))
	}
	return r, nil
}

// run uses the queues one after another until n more operations have completed.
func (r *rotation) run(ctx context.Context, n, batch int) error {
	clear(r.done)
	for q, done := 0, 0; done < n; q++ {
		if q == len(r.queues) {
			q = 0
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if r.flying[q] == 0 {
			if err := r.post(q, batch); err != nil {
				return err
			}
			if batch < 16 && q%16 != 0 {
				continue
			}
		}
		got, err := r.poll()
		if err != nil {
			return err
		}
		done += got
	}
	return nil
}

func (r *rotation) post(q, batch int) (err error) {
	if batch == 1 {
		err = r.queues[q].PostSend(&r.wrs[q][0])
	} else {
		_, err = r.queues[q].PostSendList(r.wrs[q][:batch])
	}
	r.flying[q] = batch
	return err
}

// poll takes completions and returns how many there were.
func (r *rotation) poll() (int, error) {
	n, err := r.cq.Poll(r.buf[:])
	if err != nil {
		return 0, err
	}
	for i := range r.buf[:n] {
		c := &r.buf[i]
		if err := c.Err(); err != nil {
			return 0, err
		}
		r.flying[c.ID]--
		r.done[c.ID]++
	}
	return n, nil
}

// drain waits for the operations in flight.
func (r *rotation) drain(ctx context.Context) error {
	for slices.ContainsFunc(r.flying, func(n int) bool { return n > 0 }) {
		if _, err := r.poll(); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}

// share returns the number of operations of the queue with the fewest, divided by the number
// that each queue would have if all had the same.
func (r *rotation) share() float64 {
	sum := 0
	for _, n := range r.done {
		sum += n
	}
	return float64(slices.Min(r.done)) * float64(len(r.done)) / float64(sum)
}

// rate returns the rate of n operations with a doorbell for each batch, and the share of
// the queue that made the fewest of them.
func (r *rotation) rate(ctx context.Context, engine *process, n,
	batch int) (s sample, share float64, err error) {
	if err := r.run(ctx, warmUp(n), batch); err != nil {
		return s, 0, err
	}
	t := timed(func() { err = r.run(ctx, n, batch) }, engine.pid())
	share = r.share()
	return t.millions(n), share, errors.Join(err, r.drain(ctx))
}
