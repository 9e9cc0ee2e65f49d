//go:build linux && (amd64 || arm64)

package loop

import (
	"io"
	"log/slog"
	"math"

	"github.com/nicless/nicless/engine/internal/cgroup"
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/cpu"
)

// A Loop is all of them, and visits queues.
type Loop struct {
	transport.PortServer
	r      *Runner
	Pass   object.Pass
	pauser cores.Pauser // lets other threads have the core, if the thread has a real-time policy
}

// A Runner has the loops of all threads.
type Runner struct {
	*object.Device
	Loops []*Loop
}

// NewRunner returns the loops of a new device. It takes keys and numbers from the source random. Two
// devices whose sources are equal give out the same keys and numbers for the same requests.
func NewRunner(cfg object.Settings, log *slog.Logger, random io.Reader) (*Runner, error) {
	e, err := object.NewDevice(cfg, log, random)
	if err != nil {
		return nil, err
	}
	e.Settings.Idle = IdlePolicy(cfg.Idle, cpu.CanMonitor(), cgroup.CPUQuota(object.SystemRoot), e.Journal)
	r := &Runner{Device: e}
	for n := range max(1, len(cfg.Cores)) {
		sh := newLoop(r, n)
		r.Loops, e.Shards = append(r.Loops, sh), append(e.Shards, &sh.Shard)
	}
	return r, nil
}

func newLoop(r *Runner, number int) *Loop {
	sh := &Loop{r: r}
	sh.Shard.Init(r.Device, number)
	sh.Pace.Bound = math.MaxUint64
	sh.Null = execution.NewNullKeys()
	sh.DMA = execution.DMA{Sizes: execution.UsualOffloadSizes, Beyond: copying.Threshold(cpu.CacheSize())}
	sh.Links = sh
	return sh
}

// Step steps each thread once, and returns how much there was to do.
func (e *Runner) Step() (done int) {
	for _, sh := range e.Loops {
		done += sh.Step()
	}
	return done
}
