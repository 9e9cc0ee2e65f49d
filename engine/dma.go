//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/internal/cpu"

// Workers, if the engine has any, copy the pieces of long transfers while the engine's own
// thread serves other queues. The engine's thread still judges WQEs and writes completions.
// The job stays with its queue pair. The job's completion and the queue pair's next WQE wait
// until all copy tasks of the job are done. When the job was judged, keys and other objects
// were checked. A control request that revokes one of these objects first recalls the job's
// tasks, so no worker touches memory that must no longer be touched.

// An offloadSizes holds the least number of bytes that a transfer must have to be offloaded,
// and the least number that one piece of it must have.
type offloadSizes struct{ transfer, piece uint64 }

var usualOffloadSizes = offloadSizes{transfer: 256 << 10, piece: 4 << 10}

// clientTasks is how many tasks one client may have for each worker. The rest of a worker's
// ring is for other clients.
const clientTasks = workerRing / 2

// offload is moveJob with workers. A piece that was given to a worker counts as moved.
// offload copies short pieces itself. From now on the job stays with q.
//
// A scattered destination is written in order, because its pieces may overlap. So all pieces
// of such a job that are offloaded go to the same worker. While this worker still has pieces
// of the job, it gets the short pieces too.
func (sh *executor) offload(q *qp, j *job, budget int) (used int) {
	if q.job == nil {
		sh.keepJob(q)
	}
	sh.collectTasks()
	var at footing
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
		used += at.cost(dst, src, n)
	}
	return used
}

// assign gives a piece of a job to a worker: to the worker that has the other pieces of the
// job if the job's destination is scattered, otherwise to the worker with the fewest tasks.
// assign returns false if the worker has no room or the client has too many tasks.
func (sh *mover) assign(j *job, c *client, dst, src []byte) bool {
	if c.offloaded >= clientTasks*len(sh.dma.workers) {
		return false
	}
	n := 0
	for i, other := range sh.dma.workers {
		if w := sh.dma.workers[n]; other.given-other.seen < w.given-w.seen {
			n = i
		}
	}
	if j.offloaded > 0 && j.dst.scattered() {
		n = j.lastWorker
	}
	w := sh.dma.workers[n]
	if w.given-w.seen == workerRing {
		return false
	}
	r := &w.ring[w.given%workerRing]
	r.dst, r.src, r.job, r.client, r.pastCaches = dst, src, j, c, j.total >= sh.dma.beyond
	r.keys[0], r.keys[1] = j.dst.touched()
	r.keys[2], r.keys[3] = j.src.touched()
	w.given++
	j.lastWorker = n
	j.offloaded++
	c.offloaded++
	r.state.Store(taskGiven)
	w.wake()
	return true
}

// scattered reports whether the list is, or may be, more than one contiguous range of
// memory.
func (l *list) scattered() bool { return l.n > 1 || l.piece[0].mem == nil }

// touched returns the key of the bytes that next has returned. If that key is a list,
// touched also returns within, the key of the list's entry that contains these bytes.
func (l *list) touched() (k, within *mkey) {
	p := &l.piece[l.at]
	if p.mem == nil {
		within = p.key.list[l.spot.run].found
	}
	return p.key, within
}

// collectTasks takes back, in order, the tasks that workers have finished.
func (sh *mover) collectTasks() {
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

// recallTasks takes back the tasks of job j, the tasks that touch memory of key k, and the
// tasks whose peer is p. Each of j, k and p may be nil. If a worker has already begun a task,
// recallTasks waits until the task is done, which takes some microseconds. It goes from the
// last task to the first, because workers begin tasks in the opposite order. A job with a
// recalled task is judged again, and moved again from its first byte.
func (sh *mover) recallTasks(j *job, k *mkey, p *qp) {
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

// spinsBeforeYield is how often waitDone polls a task before it yields the core. It yields
// because the worker may be waiting for this core.
const spinsBeforeYield = 1 << 12

// waitDone waits until the task is done, if a worker has begun it.
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
func (sh *mover) useWorkers() (end func(), err error) {
	workers, stop, err := startWorkers(sh.cfg.dmaCores)
	if err != nil {
		return nil, err
	}
	sh.dma.workers = workers
	return func() { sh.releaseWorkers(stop) }, nil
}

// releaseWorkers recalls the tasks of the workers and stops the workers. If the engine is
// stepped again, the jobs are judged again. A worker may have ended before it came to a
// recalled task; releaseWorkers marks such a task done.
func (sh *mover) releaseWorkers(stop func()) {
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
