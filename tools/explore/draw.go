//go:build linux && (amd64 || arm64)

package explore

import (
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/wqe"
)

// A drawer draws plans.
type drawer struct {
	*rand.Rand
	plan *Plan
	ids  uint32
}

// Draw returns the plan of a seed: the same one on every machine.
func Draw(seed uint64) *Plan {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0x6e69636c657373)), plan: &Plan{Seed: seed}}
	p := d.plan
	p.Clients = 1 + d.IntN(3)
	p.Burst = pick(d, 1, 2, 3, 0)
	p.Slice = pick(d, 64, 100, 256, 0)
	p.Watch = d.IntN(2) == 0
	for range 1 + d.IntN(3) {
		p.Links = append(p.Links, d.link())
	}
	for qp := range 2 * len(p.Links) {
		if d.IntN(4) > 0 {
			p.Steps = append(p.Steps, Step{Do: Receive, QP: qp, N: 4 + d.IntN(12), Size: messageSize})
		}
	}
	for range 20 + d.IntN(100) {
		p.Steps = append(p.Steps, d.step())
	}
	return p
}

// pick draws one of several values.
func pick[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

func (d *drawer) link() Link {
	ends := [2]int{d.IntN(d.plan.Clients), d.IntN(d.plan.Clients)}
	transport := pick(d, rc, rc, rc, rc, uc, ud)
	return Link{Transport: transport, Ends: ends, Shared: d.IntN(4) == 0,
		Register: transport != ud && d.IntN(3) == 0,
		RNRRetry: pick[uint8](d, 7, 7, 7, 7, 7, 0, 1, 3), MinRNRTimer: uint8(1 + d.IntN(20)),
		RetryCount: uint8(d.IntN(8)), Timeout: uint8(8 + d.IntN(7))}
}

func (d *drawer) step() Step {
	qp := d.IntN(2 * len(d.plan.Links))
	n := d.IntN(100)
	switch {
	case n < 30:
		s := Step{Do: Post, QP: qp, N: d.IntN(8)}
		for range 1 + d.IntN(4) {
			s.Work = append(s.Work, d.work(&d.plan.Links[qp/2]))
		}
		return s
	case n < 42:
		size := messageSize
		if d.IntN(40) == 0 {
			size = d.IntN(messageSize + 1)
		}
		return Step{Do: Receive, QP: qp, N: 1 + d.IntN(6), Size: size}
	case n < 60:
		return Step{Do: Poll, QP: qp, N: 1 + d.IntN(12)}
	case n < 80:
		return Step{Do: Run, N: 1 + d.IntN(8)}
	case n < 84:
		return Step{Do: StepAll}
	case n < 91:
		// Odd times, so that no timer runs out exactly then: machines round times to their own ticks.
		return Step{Do: Advance, Time: 1 | d.Int64N(int64(1)<<(10+d.IntN(20)))}
	case n < 95:
		return Step{Do: Rules, Rules: d.rules()}
	case n < 96:
		return Step{Do: Rules}
	}
	switch d.IntN(16) {
	case 0:
		return Step{Do: Fail, QP: qp}
	case 1:
		return Step{Do: Deregister, QP: qp, N: d.IntN(2)}
	case 2:
		return Step{Do: Kill, Client: d.IntN(d.plan.Clients)}
	}
	return Step{Do: Reconnect, QP: qp} // otherwise most of what is posted would be flushed
}

func (d *drawer) work(l *Link) Work {
	d.ids++
	w := Work{Op: pick(d, operations...), ID: d.ids, N: d.size(), Pieces: d.IntN(mostPieces + 1),
		Fence: d.IntN(8) == 0, Silent: d.IntN(4) == 0}
	if !l.has(opcodes[w.Op]) && d.IntN(40) > 0 {
		w.Op = operations[1] // an operation that the transport does not have would end the queue pair
	}
	w.N = min(w.N, messageSize-l.grh())
	op := opcodes[w.Op]
	room := targetSize
	switch {
	case op == wqe.OpRDMARead:
		room = readSize
	case op.Info().Atomic():
		w.N, w.Pieces = 8, 0
		w.At = 8 * d.IntN(wordCount)
		w.Operand, w.Compare = pick(d, words...), pick(d, words...)
		return w
	case op == wqe.OpNop:
		w.N, w.Pieces = 0, 0
		return w
	case d.IntN(4) == 0:
		w.Inline, w.N = true, min(w.N, 1+d.IntN(mostInline))
	}
	if remote(op) {
		w.At = d.IntN(room - w.N + 1)
	}
	return w
}

// words are what atomics add, compare and swap: sums that carry over and that wrap around, and few enough
// to be met again.
var words = []uint64{0, 0, 1, 1, 2, 1<<32 - 1, 1 << 63, 1<<64 - 1, 0x0123456789abcdef}

// size draws the length of a message: most are short, as in programs.
func (d *drawer) size() int {
	switch d.IntN(8) {
	case 0:
		return messageSize
	case 1, 2:
		return d.IntN(messageSize + 1)
	case 3:
		return 0
	}
	return 1 + d.IntN(128)
}

func (d *drawer) rules() *fault.Rules {
	r := &fault.Rules{Seed: fault.Number(d.Uint32())}
	for range 1 + d.IntN(2) {
		r.Rules = append(r.Rules, d.rule())
	}
	return r
}

// count draws how often something is lost. Most connections survive it.
func (d *drawer) count() fault.Count {
	if d.IntN(6) == 0 {
		return fault.All
	}
	return fault.Count(1 + d.IntN(3))
}

func (d *drawer) rule() (r fault.Rule) {
	switch d.IntN(3) {
	case 0:
		r.Match.Nth = uint64(1 + d.IntN(5))
	case 1:
		r.Match.Every = uint64(2 + d.IntN(5))
	case 2:
		r.Match.Probability = float64(1+d.IntN(8)) / 16
	}
	if d.IntN(2) == 0 {
		r.Match.QP = fault.Number(firstQP + d.IntN(2*len(d.plan.Links)))
	}
	if d.IntN(3) == 0 {
		r.Match.Opcode = fault.Only(opcodes[pick(d, operations[:7]...)])
	}
	span := fault.Duration(1 | d.Int64N(int64(10*time.Millisecond)))
	switch d.IntN(12) {
	case 0:
		s := pick(d, cqe.RemoteAccess, cqe.RemoteOperation, cqe.TransportRetry)
		r.Complete = &fault.Complete{Syndrome: fault.Syndrome(s)}
	case 1, 2:
		r.Stall = span
	case 3:
		r.Doorbell, r.Match.Opcode = fault.Doorbell{Drop: true}, 0
	case 4:
		r.Doorbell, r.Match.Opcode = fault.Doorbell{Delay: span}, 0
	case 5:
		r.RNR = 1 + d.IntN(3)
	case 6, 7:
		r.LoseRequest = d.count()
	case 8, 9:
		r.LoseAnswer = d.count()
	case 10:
		r.Disconnect = true
	case 11:
		r.Order = fault.Weak
		r.Match = fault.Match{QP: r.Match.QP}
	}
	return r
}
