package torture

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// What runs at once: few processes, because each shares two cores with all.
const (
	pairs      = 2
	chaosSlots = 4
	// longSlot is of chaos clients that take their time: those that use up what there
	// is, or need many tries. They are killed less often.
	longSlot = chaosSlots - 1
)

// A Deed is what an Action does.
type Deed uint8

// Deeds. A process that is killed is killed by SIGKILL and replaced at once.
const (
	KillChaos  Deed = iota // the chaos client in Slot; Chaos says what comes next there
	KillClient             // the correct client in Slot: pair Slot/2, end Slot%2
	KillEngine
	StopEngine  // SIGTERM, then another engine
	PauseChaos  // SIGSTOP for the Length, then SIGCONT: the chaos client in Slot
	PauseClient // the correct client in Slot
	PausePair   // both ends of pair Slot
	deeds
)

// String returns what is done, for progress.
func (d Deed) String() string {
	return [deeds]string{"kill chaos client", "kill client", "kill engine", "stop engine", "pause chaos client", "pause client", "pause pair"}[d]
}

// An Action is a step of a Plan.
type Action struct {
	Pause time.Duration // after the action before, if the machine keeps up
	Deed  Deed
	Slot  int
	Chaos Chaos
	Seed  uint64 // of the process that is started

	Length time.Duration // of a pause of processes
}

// A Plan is everything that is done to the processes of a run.
type Plan struct {
	Seed    uint64
	Chaos   [chaosSlots]Action // who runs from the beginning
	Actions []Action
}

const (
	leastPause = 60 * time.Millisecond
	mostPause  = 220 * time.Millisecond
	leastStops = 2
	stopEvery  = 15 * time.Second

	leastLength = 50 * time.Millisecond
	mostLength  = 2 * time.Second
)

// NewPlan returns the plan for a run of length d, which follows from the seed.
// It ends an engine at least twice, by SIGKILL the first two times, then also
// in order.
func NewPlan(seed uint64, d time.Duration) Plan {
	r := rand.New(rand.NewPCG(seed, 0x746f7274757265))
	p := Plan{Seed: seed}
	for i := range p.Chaos {
		p.Chaos[i] = Action{Slot: i, Chaos: Chaos(r.IntN(int(chaosKinds))), Seed: r.Uint64()}
	}
	slow := r.IntN(int(chaosKinds - Puncher)) // they take turns
	nextSlow := func() Chaos {
		slow++
		return Puncher + Chaos(slow)%(chaosKinds-Puncher)
	}
	p.Chaos[longSlot].Chaos = nextSlow()
	stops := max(leastStops, int(d/stopEvery))
	stopped := 0
	for at := time.Duration(0); ; {
		a := Action{Pause: leastPause + time.Duration(r.Int64N(int64(mostPause-leastPause))), Seed: r.Uint64()}
		if at += a.Pause; at > d && stopped == stops {
			return p
		}
		switch n := r.IntN(100); {
		case stopped < stops && at >= d*time.Duration(stopped+1)/time.Duration(stops+1):
			a.Deed = KillEngine
			if stopped >= leastStops && n < 50 {
				a.Deed = StopEngine
			}
			stopped++
		case n < 36:
			a.Deed, a.Slot = KillClient, r.IntN(2*pairs)
		case n < 46:
			a.Deed = PauseChaos + Deed(r.IntN(int(deeds-PauseChaos)))
			a.Slot = r.IntN(map[Deed]int{PauseChaos: chaosSlots, PauseClient: 2 * pairs, PausePair: pairs}[a.Deed])
			// As often short as long.
			most := max(leastLength, min(mostLength, d/4))
			a.Length = time.Duration(float64(leastLength) * math.Pow(float64(most)/float64(leastLength), r.Float64()))
		case n < 52:
			a.Deed, a.Slot, a.Chaos = KillChaos, longSlot, nextSlow()
		default:
			a.Deed, a.Slot, a.Chaos = KillChaos, r.IntN(longSlot), Chaos(r.IntN(int(chaosKinds)))
		}
		p.Actions = append(p.Actions, a)
	}
}

// Hash is a number that plans have in common only if they are the same.
func (p *Plan) Hash() uint64 {
	h := fnv.New64a()
	word := func(v uint64) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, v)) }
	action := func(a *Action) {
		for _, v := range [...]uint64{uint64(a.Pause), uint64(a.Deed), uint64(a.Slot), uint64(a.Chaos), a.Seed, uint64(a.Length)} {
			word(v)
		}
	}
	word(p.Seed)
	for i := range p.Chaos {
		action(&p.Chaos[i])
	}
	for i := range p.Actions {
		action(&p.Actions[i])
	}
	return h.Sum64()
}
