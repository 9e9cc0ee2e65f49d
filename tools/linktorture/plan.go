//go:build linux && (amd64 || arm64)

package linktorture

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// A Kind is what a hostile process does.
type Kind uint8

// Kinds, named after the processes.
const (
	Flooder       Kind = iota // sends junk, wrong ICRCs, unknown QPs and connection requests to the RoCE port
	Scanner                   // sends WRITEs in the peer's name, with one PSN after the other
	Forger                    // sends ACKs, NAKs, CNPs, DREQs and copies of packets in the peer's name
	PoolScribbler             // is a node of the pool, and writes wrong words wherever a node may write
	Stranger                  // connects to the UCX port and sends junk
	kinds
)

// kind is what the table says of a Kind.
type kind struct {
	name   string
	attack func(*hostile) error // one piece of the attack, of some milliseconds; it is repeated
}

// table has all kinds. It is a function, because the attacks use the kinds.
func table() [kinds]kind {
	return [kinds]kind{
		Flooder:       {"flooder", (*hostile).flood},
		Scanner:       {"scanner", (*hostile).scan},
		Forger:        {"forger", (*hostile).forge},
		PoolScribbler: {"pool scribbler", (*hostile).scribble},
		Stranger:      {"stranger", (*hostile).stranger},
	}
}

func (k Kind) String() string { return table()[k].name }

// A Step is the life of one hostile process.
type Step struct {
	Kind   Kind
	Seed   uint64
	Length time.Duration
}

// slots is how many hostile processes run at once.
const slots = 2

// A Plan is all that is done to the links. The steps of a slot follow each other.
type Plan struct {
	Seed  uint64
	Slots [slots][]Step
}

// NewPlan returns the plan for a run of length d. It is determined by d and the seed. Every kind has
// its turn before one has its second, and each has at least one.
func NewPlan(seed uint64, d time.Duration) (p Plan) {
	r := rand.New(rand.NewPCG(seed, 0x6c696e6b73))
	p.Seed = seed
	var deck []int
	length := max(d*slots/time.Duration(2*kinds), 200*time.Millisecond)
	for at := [slots]time.Duration{}; ; {
		slot := 0
		for i := range at {
			if at[i] < at[slot] {
				slot = i
			}
		}
		if len(deck) == 0 {
			if at[slot] >= d-length/2 {
				return p
			}
			deck = r.Perm(int(kinds))
		}
		s := Step{Kind: Kind(deck[0]), Seed: r.Uint64(),
			Length: length*3/4 + time.Duration(r.Int64N(int64(length/2)))}
		deck = deck[1:]
		at[slot] += s.Length
		p.Slots[slot] = append(p.Slots[slot], s)
	}
}

// Hash returns a hash of the whole plan.
func (p *Plan) Hash() uint64 {
	h := fnv.New64a()
	word := func(v uint64) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, v)) }
	word(p.Seed)
	for _, steps := range p.Slots {
		word(uint64(len(steps)))
		for _, s := range steps {
			word(uint64(s.Kind))
			word(s.Seed)
			word(uint64(s.Length))
		}
	}
	return h.Sum64()
}
