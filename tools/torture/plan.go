//go:build linux && (amd64 || arm64)

package torture

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// How many processes of each kind run at once. They are few, because a machine may have only
// two cores.
const (
	pairs        = 2
	hostileSlots = 4
	// longSlot is the slot of attacks that need time to use something up or to make many
	// tries. Clients in this slot are killed less often.
	longSlot = hostileSlots - 1
)

// An ActionKind is what an Action does.
type ActionKind uint8

// Kinds of actions. Kills are by SIGKILL, and a killed process is replaced at once.
const (
	KillHostile ActionKind = iota // the hostile client in Slot; the next client makes Attack
	KillClient                    // the correct client in Slot: pair Slot/2, end Slot%2
	KillEngine
	StopEngine   // SIGTERM, then another engine
	PauseHostile // SIGSTOP to the hostile client in Slot, and SIGCONT after Length
	PauseClient  // the same to the correct client in Slot
	PausePair    // the same to both ends of pair Slot
	actionKinds
)

// String returns the action in words, for progress.
func (d ActionKind) String() string {
	return [actionKinds]string{"kill hostile client", "kill client", "kill engine", "stop engine",
		"pause hostile client", "pause client", "pause pair"}[d]
}

// An Action is a step of a Plan.
type Action struct {
	Pause  time.Duration // time from the previous action to this one, if the machine keeps up
	Kind   ActionKind
	Slot   int
	Attack Attack
	Seed   uint64 // seed of the process that is started

	Length time.Duration // how long processes are stopped
}

// A Plan is everything that is done to the processes of a run.
type Plan struct {
	Seed    uint64
	Hostile [hostileSlots]Action // the starts of the first hostile clients
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

// NewPlan returns the plan for a run of length d. It is determined by d and the seed. It ends an
// engine at least twice: the first two times by SIGKILL, later by SIGKILL or SIGTERM.
func NewPlan(seed uint64, d time.Duration) Plan {
	r := rand.New(rand.NewPCG(seed, 0x746f7274757265))
	p := Plan{Seed: seed}
	for i := range p.Hostile {
		p.Hostile[i] = Action{Slot: i, Attack: Attack(r.IntN(int(attackKinds))), Seed: r.Uint64()}
	}
	slow := r.IntN(int(attackKinds - Puncher)) // the long attacks take turns
	nextSlow := func() Attack {
		slow++
		return Puncher + Attack(slow)%(attackKinds-Puncher)
	}
	p.Hostile[longSlot].Attack = nextSlow()
	stops := max(leastStops, int(d/stopEvery))
	stopped := 0
	for at := time.Duration(0); ; {
		a := Action{Pause: leastPause + time.Duration(r.Int64N(int64(mostPause-leastPause))),
			Seed: r.Uint64()}
		at += a.Pause
		if at > d && stopped == stops {
			return p
		}
		n := r.IntN(100)
		switch {
		case stopped < stops && at >= d*time.Duration(stopped+1)/time.Duration(stops+1):
			a.Kind = KillEngine
			if stopped >= leastStops && n < 50 {
				a.Kind = StopEngine
			}
			stopped++
		case n < 36:
			a.Kind, a.Slot = KillClient, r.IntN(2*pairs)
		case n < 46:
			a.Kind = PauseHostile + ActionKind(r.IntN(int(actionKinds-PauseHostile)))
			a.Slot = r.IntN(map[ActionKind]int{PauseHostile: hostileSlots, PauseClient: 2 * pairs,
				PausePair: pairs}[a.Kind])
			// The lengths are evenly distributed on a logarithmic scale.
			most := max(leastLength, min(mostLength, d/4))
			a.Length = time.Duration(
				float64(leastLength) * math.Pow(float64(most)/float64(leastLength), r.Float64()))
		case n < 52:
			a.Kind, a.Slot, a.Attack = KillHostile, longSlot, nextSlow()
		default:
			a.Kind, a.Slot, a.Attack = KillHostile, r.IntN(longSlot), Attack(r.IntN(int(attackKinds)))
		}
		p.Actions = append(p.Actions, a)
	}
}

// Hash returns a hash of the whole plan.
func (p *Plan) Hash() uint64 {
	h := fnv.New64a()
	word := func(v uint64) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, v)) }
	action := func(a *Action) {
		for _, v := range [...]uint64{uint64(a.Pause), uint64(a.Kind), uint64(a.Slot), uint64(a.Attack),
			a.Seed, uint64(a.Length)} {
			word(v)
		}
	}
	word(p.Seed)
	for i := range p.Hostile {
		action(&p.Hostile[i])
	}
	for i := range p.Actions {
		action(&p.Actions[i])
	}
	return h.Sum64()
}
