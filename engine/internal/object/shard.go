//go:build linux && (amd64 || arm64)

package object

import (
	"math"
	"slices"

	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
)

// Load estimates how much a shard has to do.
func (sh *Shard) Load() int { return len(sh.Running) + len(sh.Clients) }

// LeastLoaded returns the shard with the least load. If several have the least load, it
// returns the first of them.
func (e *Device) LeastLoaded() *Shard {
	return slices.MinFunc(e.Shards, func(a, b *Shard) int { return a.Load() - b.Load() })
}

// Init makes a shard of a new device.
func (sh *Shard) Init(e *Device, number int) {
	sh.Device, sh.Number, sh.Several = e, number, len(e.Settings.Cores) > 1
	sh.Clients = make(map[*Client]struct{})
	sh.Everyone, sh.Stallers = roster{kind: ofClients}, roster{kind: ofStalls}
	sh.Sched = schedule{Few: fewQueues, Slice: e.Settings.Slice, Watchers: roster{kind: ofWatches}}
	sh.Sched.Alone.WQEs = min(e.Settings.Burst, math.MaxInt/AloneShare) * AloneShare
	sh.Sched.Alone.Bytes = min(e.Settings.Slice, math.MaxInt/AloneShare) * AloneShare
	sh.Arm = arming{Armers: roster{kind: ofArms}, Late: roster{kind: ofLate}}
	sh.Fault = faultPoint{Part: CutVisits}
	sh.Scratch = scratch{Job: new(Job), Block: new(shm.Block)[:]}
}

// Clock returns the device clock as it was last read in this step, by an earlier call or by
// Started. If it has not been read in this step, Clock reads it.
func (sh *Shard) Clock() uint64 {
	if sh.StepClock == 0 {
		sh.StepClock = clock.Now()
	}
	return sh.StepClock
}

// Now is Clock for all that depends on time. It differs from Clock only if a test holds the clock.
func (sh *Shard) Now() uint64 { return sh.Hooks.Hold(sh.Clock()) }

// Hold returns where a test holds the device clock, or now.
func (h *shardHooks) Hold(now uint64) uint64 {
	if h.HeldClock != 0 {
		return h.HeldClock
	}
	return now
}

// TouchedCQ is the bit which says that progress.Touched is a CQN.
const TouchedCQ = 1 << 32

// A ProgressMeter measures the progress of a shard.
type ProgressMeter struct {
	Bound      uint64 // SlowTime in cycles; the largest uint64 while no thread runs the shard
	First      uint64 // SQ.Done of the visited queue when the visit began to work (at StepClock)
	TimedUntil uint64 // device clock until which each poll is timed separately; 0: polls are timed together
	Usage      usage.Meter
}

// BoundPeer returns the queue pair that bind has connected q with. It returns nil if there
// was none or if that queue pair has ended.
func (e *Device) BoundPeer(q *QP) *QP {
	if p := e.QPs[q.Attr.DestQPN]; p != nil && p.Serial == q.Conn.Bound {
		return p
	}
	return nil
}

// HasColdPorts reports whether some of the shard's ports are not hot.
func (sh *Shard) HasColdPorts() bool { return sh.HotPorts < len(sh.Ports) }
