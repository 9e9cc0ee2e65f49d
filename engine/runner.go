//go:build linux && (amd64 || arm64)

package engine

import (
	"io"
	"log/slog"
	"math"

	"github.com/nicless/nicless/engine/internal/cgroup"
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/internal/cpu"
)

// A threadLoop is all of them, and visits queues.
type threadLoop struct {
	portServer
	r      *runner
	pass   pass
	pauser cores.Pauser // lets other threads have the core, if the thread has a real-time policy
}

// A runner has the loops of all threads.
type runner struct {
	*device
	loops []*threadLoop
}

// newRunner returns the loops of a new device. It takes keys and numbers from the source random. Two
// devices whose sources are equal give out the same keys and numbers for the same requests.
func newRunner(cfg settings, log *slog.Logger, random io.Reader) (*runner, error) {
	e, err := newDevice(cfg, log, random)
	if err != nil {
		return nil, err
	}
	e.cfg.idle = idlePolicy(cfg.idle, cpu.CanMonitor(), cgroup.CPUQuota(systemRoot), e.journal)
	r := &runner{device: e}
	for n := range max(1, len(cfg.cores)) {
		sh := newLoop(r, n)
		r.loops, e.shards = append(r.loops, sh), append(e.shards, &sh.shard)
	}
	return r, nil
}

func newLoop(r *runner, number int) *threadLoop {
	sh := &threadLoop{r: r}
	sh.shard.init(r.device, number)
	sh.pace.bound = math.MaxUint64
	sh.null = newNullKeys()
	sh.dma = dma{sizes: usualOffloadSizes, beyond: copying.Threshold(cpu.CacheSize())}
	sh.links = sh
	return sh
}

// Step steps each thread once, and returns how much there was to do.
func (e *runner) Step() (done int) {
	for _, sh := range e.loops {
		done += sh.Step()
	}
	return done
}
