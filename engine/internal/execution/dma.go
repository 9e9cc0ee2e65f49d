//go:build linux && (amd64 || arm64)

package execution

import (
	"sync/atomic"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/worker"
	"github.com/nicless/nicless/internal/cpu"
)

// Workers, if the engine has any, copy the pieces of long transfers while the engine's own thread serves
// other queues. The engine's thread still checks WQEs and writes completions. The job stays with its queue
// pair. The job's completion and the queue pair's next WQE wait until all copy tasks of the job are done.
// When the WQE was checked, so were keys and other objects. A control request that revokes one of these
// objects first recalls the job's tasks, so no worker touches memory that must no longer be touched.

// A piece is what the device knows of a task.
type piece struct {
	job    *object.Job    // nil: the task was recalled
	client *object.Client // the client whose share of the workers' tasks this task uses
	keys   [4]*object.Mkey
}

// A Worker copies pieces.
type Worker = worker.Worker[piece]

var UsualOffloadSizes = OffloadSizes{Transfer: 256 << 10, Piece: 4 << 10}

// ClientTasks is how many tasks one client may have for each worker. The rest of a worker's
// ring is for other clients.
const ClientTasks = worker.Ring / 2

// assign gives a piece of a job to a worker: to the worker that has the other pieces of the
// job if the job's destination is scattered, otherwise to the worker with the fewest tasks.
// assign returns false if the worker has no room or the client has too many tasks.
func (sh *mover) assign(j *object.Job, c *object.Client, dst, src []byte) bool {
	if c.Offloaded >= ClientTasks*len(sh.DMA.Workers) {
		return false
	}
	n := 0
	for i, other := range sh.DMA.Workers {
		if w := sh.DMA.Workers[n]; other.Given-other.Seen < w.Given-w.Seen {
			n = i
		}
	}
	if j.Offloaded > 0 && j.Dst.Scattered() {
		n = j.LastWorker
	}
	w := sh.DMA.Workers[n]
	if w.Given-w.Seen == worker.Ring {
		return false
	}
	r := &w.Ring[w.Given%worker.Ring]
	r.Dst, r.Src, r.PastCaches = dst, src, j.Total >= sh.DMA.Beyond
	r.Of.job, r.Of.client = j, c
	r.Of.keys[0], r.Of.keys[1] = j.Dst.Touched()
	r.Of.keys[2], r.Of.keys[3] = j.Src.Touched()
	w.Given++
	j.LastWorker = n
	j.Offloaded++
	c.Offloaded++
	r.State.Store(worker.Given)
	w.Wake()
	return true
}

// CollectTasks takes back, in order, the tasks that workers have finished.
func (sh *mover) CollectTasks() {
	for _, w := range sh.DMA.Workers {
		for w.Seen < w.Given {
			r := &w.Ring[w.Seen%worker.Ring]
			state := r.State.Load()
			if state > worker.Faulted {
				break
			}
			w.Seen++
			r.Of.client.Offloaded--
			if j := r.Of.job; j != nil {
				j.Offloaded--
				if state == worker.Faulted {
					j.Fault = r.Fault
				}
			}
			r.Dst, r.Src, r.Of = nil, nil, piece{}
		}
	}
}

// recallTasks takes back the tasks of job j, the tasks that touch memory of key k, and the
// tasks whose peer is p. Each of j, k and p may be nil. If a worker has already begun a task,
// recallTasks waits until the task is done, which takes some microseconds. It goes from the
// last task to the first, because workers begin tasks in the opposite order. A job with a
// recalled task is checked again, and moved again from its first byte.
func (sh *mover) recallTasks(j *object.Job, k *object.Mkey, p *object.QP) {
	for _, w := range sh.DMA.Workers {
		for i := w.Given; i > w.Seen; i-- {
			r := &w.Ring[(i-1)%worker.Ring]
			if r.Of.job == nil {
				continue
			}
			affected := r.Of.job == j || (p != nil && r.Of.job.Peer == p) || (k != nil && r.Of.touches(k))
			if !affected {
				continue
			}
			if !r.State.CompareAndSwap(worker.Given, worker.Recalled) {
				waitDone(&r.State)
			}
			r.Of.job.Offloaded--
			r.Of.job.Recalled = true
			r.Of.job = nil
		}
	}
}

func (p *piece) touches(k *object.Mkey) bool {
	for _, used := range p.keys {
		if used == k {
			return true
		}
	}
	return false
}

// spinsBeforeYield is how often waitDone polls a task before it yields the core. It yields
// because the worker may be waiting for this core.
const spinsBeforeYield = 1 << 12

// waitDone waits until the task of a state is done, if a worker has begun it.
func waitDone(state *atomic.Uint32) {
	for spins := 0; state.Load() == worker.Taken; spins++ {
		if spins < spinsBeforeYield && !cpu.Uniprocessor() {
			cpu.Relax(1)
		} else {
			cpu.Yield()
		}
	}
}

// UseWorkers starts workers on the DMA cores; end stops them.
func (sh *mover) UseWorkers() (end func(), err error) {
	workers, stop, err := worker.Start[piece](sh.Settings.DMACores)
	if err != nil {
		return nil, err
	}
	sh.DMA.Workers = workers
	return func() { sh.ReleaseWorkers(stop) }, nil
}

// ReleaseWorkers recalls the tasks of the workers and stops the workers. If the engine is
// stepped again, the jobs are checked again. A worker may have ended before it came to a
// recalled task; ReleaseWorkers marks such a task done.
func (sh *mover) ReleaseWorkers(stop func()) {
	for _, q := range sh.Running {
		if q.Job != nil {
			sh.recallTasks(q.Job, nil, nil)
		}
	}
	stop()
	for _, w := range sh.DMA.Workers {
		for i := w.Seen; i < w.Given; i++ {
			w.Ring[i%worker.Ring].State.CompareAndSwap(worker.Recalled, worker.Done)
		}
	}
	sh.CollectTasks()
	sh.DMA.Workers = nil
}
