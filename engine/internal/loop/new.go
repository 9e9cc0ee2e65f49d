//go:build linux && (amd64 || arm64)

package loop

import (
	"io"
	"log/slog"
	"time"

	"github.com/nicless/nicless/engine/internal/cgroup"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/cpu"
)

// NewRunner returns the loops of a new device. It takes keys and numbers from the source random. Two
// devices whose sources are equal give out the same keys and numbers for the same requests.
func NewRunner(cfg object.Settings, log *slog.Logger, random io.Reader) (*Runner, error) {
	e, err := object.NewDevice(cfg, log, random)
	if err != nil {
		return nil, err
	}
	e.Settings.Idle = IdlePolicy(cfg.Idle, cpu.CanMonitor(), cgroup.CPUQuota(object.SystemRoot), e.Journal)
	r := &Runner{Device: e, Made: time.Now()}
	for n := range max(1, len(cfg.Cores)) {
		sh := newLoop(r, n)
		r.Loops, e.Shards = append(r.Loops, sh), append(e.Shards, &sh.Shard)
	}
	return r, nil
}

// Step steps each thread once, and returns how much there was to do.
func (e *Runner) Step() (done int) {
	for _, sh := range e.Loops {
		done += sh.Step()
	}
	return done
}
