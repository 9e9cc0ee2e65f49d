//go:build linux && (amd64 || arm64)

package loop

import (
	"time"

	"math"
	"sync/atomic"

	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/custody"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/outage"
	"github.com/nicless/nicless/engine/internal/plan"
	"github.com/nicless/nicless/engine/internal/recent"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/nic"
)

// A Loop is a shard's thread with all its layers. It visits queues.
type Loop struct {
	transport.PortServer
	r       *Runner
	Pass    object.Pass    // the pass that the looks continue; see look.go
	copied  copiedQueue    // see watched.go
	Custody custody.Keeper // what belongs to the device, for the sanitizer
	Used    load           // for how long the thread had work
	pauser  cores.Pauser   // lets other threads have the core, if the thread has a real-time policy
}

// A Runner has the loops of all threads.
type Runner struct {
	*object.Device
	Loops  []*Loop   // Loops[n] is the loop of Shards[n]
	Faults []*Faults // rules that the device obeys, in the order in which they were set
	Plan   plan.Plan // what rules do at given times
	Down   downs     // how many outages rules have made of each port

	Obey    func(inject.Command)     // carries out a command of a rule, while no shard works
	Deaths  map[uint32]func()        // what ends a client, by its number
	Refuses atomic.Pointer[Refusals] // nil: no rule of Faults can refuse requests

	RefusalSerial uint64 // of the last Refusals

	PastErrors recent.Past // the last explanations of closed clients

	Made time.Time // when the device was made

	PastTraffic [nic.MaxPorts]nic.Tally // Client.Traffic of closed clients, by port
}

// DeviceNames returns the names of the devices that clients see. They stay.
func (r *Runner) DeviceNames() nic.Names { return nic.Names(r.Settings.Names) }

// Refusals are those of the rules that can refuse requests. They do not change; others take their place.
type Refusals struct {
	Serial uint64 // counts the changes
	Faults []*Faults
}

// downs has a number for each port.
type downs [outage.Most]int

func newLoop(r *Runner, number int) *Loop {
	sh := &Loop{r: r}
	sh.Shard.Init(r.Device, number)
	sh.ProgressMeter.Bound = math.MaxUint64
	sh.Null = execution.NewNullKeys()
	sh.DMA = execution.DMA{Sizes: execution.UsualOffloadSizes, Beyond: copying.Threshold(cpu.CacheSize())}
	sh.Links = sh
	sh.copied = newCopiedQueue()
	sh.Custody = custody.NewKeeper(sh.Settings.Slice)
	return sh
}

// Faults are rules that the device obeys.
type Faults struct {
	*inject.Rules
	Owner *object.Client // who has set them; nil: the configuration
	Down  downs          // how many outages they have made of each port
}

// PortCounts returns what the clients of each port have sent and received, those that are gone too. No shard
// works meanwhile, so one walk serves all ports.
func (r *Runner) PortCounts() []nic.PortCounts {
	var sums [nic.MaxPorts]nic.Tally
	r.Do(func() {
		sums = r.PastTraffic
		for _, sh := range r.Shards {
			for c := range sh.Clients {
				sums[c.Hosted.Port].Add(&c.Traffic)
			}
		}
	})
	counts := make([]nic.PortCounts, len(sums))
	for n := range sums {
		counts[n] = traffic.Sum(&sums[n])
	}
	return counts
}

// EndCustody is called when q is removed, while no shard works. q may have been watched in several shards.
func (e *Runner) EndCustody(q *object.QP) {
	for _, sh := range e.Loops {
		sh.Custody.Drop(q)
	}
}
