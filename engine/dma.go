package engine

import "github.com/nicless/nicless/internal/cpu"

// Workers, if the engine has any, copy the pieces of long transfers while its own
// thread goes on with other queues. What is judged, reported and looked after stays
// here: the job stays with its queue pair, whose next WQE and completion wait, until
// all its tasks are over. A thread that changes what a job was judged by recalls its
// tasks first, so that nothing touches memory which must no longer be touched.

// An offloadSizes is from how many bytes on a transfer goes by workers, and a piece of it.
type offloadSizes struct{ transfer, piece uint64 }

var usualOffloadSizes = offloadSizes{transfer: 256 << 10, piece: 4 << 10}

// clientTasks is how many tasks of each worker one client may have: others find
// room beside it.
const clientTasks = workerRing / 2

// offload is job.move with workers: what they have been given counts as moved. What is
// short it copies itself. The job stays with q from now on, where it is found.
//
// Bytes that are scattered are so in order, since pieces may lie over each other: one
// worker has all that is lent of such a job, and what is short too while it has some.
func (sh *shard) offload(q *qp, j *job, budget int) (used int) {
	if q.job == nil {
		sh.keepJob(q)
	}
	sh.collectTasks()
	for used < budget && j.moved < j.total && j.fault == 0 {
		most := min(uint64(max(budget-used, indivisible)), j.total-j.moved)
		dst, src := j.dst.next(most), j.src.next(most)
		n := min(len(dst), len(src))
		if uint64(n) < sh.dma.sizes.piece && (j.lent == 0 || !j.dst.scattered()) {
			copy(dst[:n], src)
		} else if !sh.assign(j, q.client, dst[:n], src[:n]) {
			break
		}
		j.src.advance(n)
		j.dst.advance(n)
		j.moved += uint64(n)
		used += max(n, pieceCost)
	}
	return used
}

// assign gives a piece of a job to the worker that has least to do, or that has to have
// it, if there is room.
func (sh *shard) assign(j *job, c *Client, dst, src []byte) bool {
	if c.offloaded >= clientTasks*len(sh.dma.workers) {
		return false
	}
	w := sh.dma.workers[0]
	for _, other := range sh.dma.workers[1:] {
		if other.given-other.seen < w.given-w.seen {
			w = other
		}
	}
	if j.lent > 0 && j.dst.scattered() {
		w = j.by
	}
	if w.given-w.seen == workerRing {
		return false
	}
	r := &w.ring[w.given%workerRing]
	r.dst, r.src, r.job, r.client, r.pastCaches = dst, src, j, c, j.total >= sh.dma.beyond
	r.keys[0], r.keys[1] = j.dst.touched()
	r.keys[2], r.keys[3] = j.src.touched()
	w.given++
	j.by = w
	j.lent++
	c.offloaded++
	r.state.Store(taskGiven)
	w.wake()
	return true
}

// scattered reports whether the list is more than one stretch of memory.
func (l *list) scattered() bool { return l.n > 1 || l.piece[0].mem == nil }

// touched returns the key of what next returned and, if it is a list, that of the
// memory in it.
func (l *list) touched() (k, within *mkey) {
	p := &l.piece[l.at]
	if p.mem == nil {
		within = p.key.list[l.spot.run].found
	}
	return p.key, within
}

// collectTasks looks which tasks are over.
func (sh *shard) collectTasks() {
	for _, w := range sh.dma.workers {
		for w.seen < w.given {
			r := &w.ring[w.seen%workerRing]
			state := r.state.Load()
			if state > taskFaulted {
				break
			}
			w.seen++
			r.client.offloaded--
			if j := r.job; j != nil {
				j.lent--
				if state == taskFaulted {
					j.fault = r.fault
				}
			}
			r.job, r.client, r.dst, r.src, r.keys = nil, nil, nil, nil, [4]*mkey{}
		}
	}
}

// recallTasks takes back the tasks of a job, or those that touch a key's memory or the
// peer p; what is not asked for is nil. One that has been begun it waits for: that
// is a slice, some microseconds. The last comes first, so that no worker begins
// another meanwhile. A job of which something was taken back is judged anew, from
// its first byte on.
func (sh *shard) recallTasks(j *job, k *mkey, p *qp) {
	for _, w := range sh.dma.workers {
		for i := w.given; i > w.seen; i-- {
			r := &w.ring[(i-1)%workerRing]
			if r.job == nil || !(r.job == j || p != nil && r.job.peer == p || k != nil && r.touches(k)) {
				continue
			}
			if !r.state.CompareAndSwap(taskGiven, taskRecalled) {
				r.waitDone()
			}
			r.job.lent--
			r.job.recalled = true
			r.job = nil
		}
	}
}

func (r *copyTask) touches(k *mkey) bool {
	for _, used := range r.keys {
		if used == k {
			return true
		}
	}
	return false
}

// patientLooks is how often a piece that is being copied is looked at before the
// worker may be what waits for this core.
const patientLooks = 1 << 12

// waitDone waits until a worker is done with an task.
func (r *copyTask) waitDone() {
	for looks := 0; r.state.Load() == taskTaken; looks++ {
		if looks < patientLooks && !cpu.Uniprocessor() {
			cpu.Relax(1)
		} else {
			cpu.Yield()
		}
	}
}

// useWorkers has workers copy from now on, until end.
func (sh *shard) useWorkers() (end func(), err error) {
	workers, gone, err := startWorkers(sh.cfg.DMACores)
	if err != nil {
		return nil, err
	}
	sh.dma.workers = workers
	return func() { sh.releaseWorkers(gone) }, nil
}

// releaseWorkers has no workers any more. What they had is done by the device, anew, if it is
// stepped again. A worker may be gone before it has passed what was taken back.
func (sh *shard) releaseWorkers(gone func()) {
	for _, q := range sh.running {
		if q.job != nil {
			sh.recallTasks(q.job, nil, nil)
		}
	}
	gone()
	for _, w := range sh.dma.workers {
		for i := w.seen; i < w.given; i++ {
			w.ring[i%workerRing].state.CompareAndSwap(taskRecalled, taskDone)
		}
	}
	sh.collectTasks()
	sh.dma.workers = nil
}
