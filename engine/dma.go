//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/internal/cpu"

// Workers, if the engine has any, copy the pieces of long transfers while the engine's own
// thread goes on with other queues. Judging and reporting stay on that thread. The job
// stays with its queue pair, whose next WQE and completion wait until all tasks of the job
// are done. A request that revokes what a job was judged by, such as a key, recalls its
// tasks first; so no worker touches memory that must no longer be touched.

// An offloadSizes is the bytes from which on a transfer is offloaded, and a piece of it.
type offloadSizes struct{ transfer, piece uint64 }

var usualOffloadSizes = offloadSizes{transfer: 256 << 10, piece: 4 << 10}

// clientTasks is how many tasks one client may have for each worker, so that other clients
// find room too.
const clientTasks = workerRing / 2

// offload is job.move with workers: pieces that they have been given count as moved. It
// copies short pieces itself. From now on the job stays with q.
//
// A scattered destination is written in order, since its pieces may overlap: one worker
// gets all pieces of such a job, and the short ones too while it still has some.
func (sh *shard) offload(q *qp, j *job, budget int) (used int) {
	if q.job == nil {
		sh.keepJob(q)
	}
	sh.collectTasks()
	for used < budget && j.moved < j.total && j.fault == 0 {
		most := min(uint64(max(budget-used, indivisible)), j.total-j.moved)
		dst, src := j.dst.next(most), j.src.next(most)
		n := min(len(dst), len(src))
		if uint64(n) < sh.dma.sizes.piece && (j.offloaded == 0 || !j.dst.scattered()) {
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

// assign gives a piece of a job to the worker with the fewest tasks, or to the one that has
// the rest of a scattered job. It returns false if there is no room.
func (sh *shard) assign(j *job, c *client, dst, src []byte) bool {
	if c.offloaded >= clientTasks*len(sh.dma.workers) {
		return false
	}
	w := sh.dma.workers[0]
	for _, other := range sh.dma.workers[1:] {
		if other.given-other.seen < w.given-w.seen {
			w = other
		}
	}
	if j.offloaded > 0 && j.dst.scattered() {
		w = j.lastWorker
	}
	if w.given-w.seen == workerRing {
		return false
	}
	r := &w.ring[w.given%workerRing]
	r.dst, r.src, r.job, r.client, r.pastCaches = dst, src, j, c, j.total >= sh.dma.beyond
	r.keys[0], r.keys[1] = j.dst.touched()
	r.keys[2], r.keys[3] = j.src.touched()
	w.given++
	j.lastWorker = w
	j.offloaded++
	c.offloaded++
	r.state.Store(taskGiven)
	w.wake()
	return true
}

// scattered reports whether the list is more than one stretch of memory, or may be.
func (l *list) scattered() bool { return l.n > 1 || l.piece[0].mem == nil }

// touched returns the key of the bytes that next has returned and, if that key is a list,
// the key of the entry.
func (l *list) touched() (k, within *mkey) {
	p := &l.piece[l.at]
	if p.mem == nil {
		within = p.key.list[l.spot.run].found
	}
	return p.key, within
}

// collectTasks takes back the tasks that workers have done, in order.
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
				j.offloaded--
				if state == taskFaulted {
					j.fault = r.fault
				}
			}
			r.job, r.client, r.dst, r.src, r.keys = nil, nil, nil, nil, [4]*mkey{}
		}
	}
}

// recallTasks takes back the tasks of job j, those that touch memory of key k, and those
// whose peer is p; each may be nil. It waits for a task that a worker has begun, which
// takes some microseconds. It goes from the last task to the first, so that no worker
// begins one meanwhile. A job with a recalled task is judged again, from its first byte.
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
			r.job.offloaded--
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

// spinsBeforeYield is how often waitDone polls a task before it yields, because the worker
// may be waiting for this core.
const spinsBeforeYield = 1 << 12

// waitDone waits until a worker has done a task that it has taken.
func (r *copyTask) waitDone() {
	for spins := 0; r.state.Load() == taskTaken; spins++ {
		if spins < spinsBeforeYield && !cpu.Uniprocessor() {
			cpu.Relax(1)
		} else {
			cpu.Yield()
		}
	}
}

// useWorkers starts workers on the DMA cores; end stops them.
func (sh *shard) useWorkers() (end func(), err error) {
	workers, stop, err := startWorkers(sh.cfg.DMACores)
	if err != nil {
		return nil, err
	}
	sh.dma.workers = workers
	return func() { sh.releaseWorkers(stop) }, nil
}

// releaseWorkers stops the workers. Their tasks are recalled, and the jobs judged again if
// the engine is stepped again. A worker may have ended before it came to a recalled task.
func (sh *shard) releaseWorkers(stop func()) {
	for _, q := range sh.running {
		if q.job != nil {
			sh.recallTasks(q.job, nil, nil)
		}
	}
	stop()
	for _, w := range sh.dma.workers {
		for i := w.seen; i < w.given; i++ {
			w.ring[i%workerRing].state.CompareAndSwap(taskRecalled, taskDone)
		}
	}
	sh.collectTasks()
	sh.dma.workers = nil
}
