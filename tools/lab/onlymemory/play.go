//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nicless/nicless/wqe"
)

// The memory of a node: words, each with one writer, and areas.
const (
	helloAt   = 0   // the peer: its random number
	echoAt    = 8   // the peer: this node's random number
	plansAt   = 16  // the peer, if its number is odd: how many rounds
	pingAt    = 24  // the peer: round trip
	filledAt  = 32  // the peer: long write
	checkedAt = 40  // the peer: it has checked a long write of this node
	stepAt    = 48  // the peer: it has finished a step
	counterAt = 128 // fetch-and-adds of both nodes, if this node's number is odd
	outAt     = 256 // this node: the word that it writes to the peer
	oldAt     = 264 // the engine: the old value of the counter
	wordsSize = 4096

	areas = 3 // what this node writes, what it gets, what it reads
)

// area returns the offset of an area.
func (p *poster) area(i int) int { return wordsSize + i*p.size }

// writeWord writes a word to the peer's memory.
func (p *poster) writeWord(at int, v uint64) error {
	p.mem.Store(outAt, v)
	return p.do(wqe.OpRDMAWrite, outAt, at, 8)
}

// A play is one run of both posters of a pair. Words of other runs do not have its number.
type play struct {
	*poster
	number  uint32
	n       int // round trips, and fetch-and-adds
	rounds  int // long writes, and reads
	steps   uint64
	fetched uint64 // value of the counter at the end
	trips   []time.Duration
}

// awaitCount waits until the peer has written count k, or a later one, of this play.
func (p *play) awaitCount(what string, at int, k uint64) error {
	return p.until(fmt.Sprintf("%s %d of node %d", what, k, p.peer), func() bool {
		v := p.mem.Load(at)
		return uint32(v>>32) == p.number && v&0xffffffff >= k
	}, nil)
}

func (p *play) writeCount(at int, k uint64) error { return p.writeWord(at, uint64(p.number)<<32|k) }

// together waits until both nodes have finished a step.
func (p *play) together() error {
	p.steps++
	if err := p.writeCount(stepAt, p.steps); err != nil {
		return err
	}
	return p.awaitCount("step", stepAt, p.steps)
}

// play plays with the peer and prints a line.
func (p *poster) play() error {
	y := &play{poster: p, n: p.cfg.n, rounds: p.cfg.rounds}
	for _, step := range []func() error{y.findPeer, y.agree, y.pingPong, y.write, y.read, y.count} {
		if err := step(); err != nil {
			return err
		}
	}
	slices.Sort(y.trips)
	fmt.Printf("node %d: %d round trips, median %v; %d writes and %d reads of %d bytes, every byte checked; %d fetch-and-adds, counter %d\n",
		p.cfg.node, y.n, y.trips[len(y.trips)/2], y.rounds, y.rounds, y.size, y.n, y.fetched)
	return nil
}

// findPeer finds out that the peer runs, and gives the play its number. The words of an earlier poster
// are harmless: a node knows its own number when it comes back.
func (p *play) findPeer() error {
	mine := rand.Uint64() | 1
	if err := p.writeWord(helloAt, mine); err != nil {
		return err
	}
	var theirs uint64
	for met := false; !met; {
		err := p.until(fmt.Sprintf("node %d", p.peer), func() bool {
			met = p.mem.Load(echoAt) == mine // first: then hello is the running peer's
			return p.mem.Load(helloAt) != theirs || met
		}, nil)
		if err != nil {
			return err
		}
		if now := p.mem.Load(helloAt); now != theirs {
			if theirs = now; p.writeWord(echoAt, theirs) != nil {
				return fmt.Errorf("node %d could not answer node %d", p.cfg.node, p.peer)
			}
		}
	}
	both := mine ^ theirs
	p.number = uint32(both>>32) ^ uint32(both) | 1
	return nil
}

func (p *play) agree() error {
	if p.odd() {
		if err := p.writeWord(plansAt, uint64(p.n)<<32|uint64(p.rounds)); err != nil {
			return err
		}
	}
	if err := p.together(); err != nil {
		return err
	}
	v := p.mem.Load(plansAt)
	if !p.odd() {
		p.n, p.rounds = int(v>>32), int(v&0xffffffff)
		if p.n < 1 || p.n > mostRounds || p.rounds < 1 || p.rounds > mostRounds {
			return fmt.Errorf("node %d wants %d round trips and %d writes", p.peer, p.n, p.rounds)
		}
	}
	return nil
}

// pingPong sends a number back and forth.
func (p *play) pingPong() error {
	began := time.Now()
	for k := uint64(1); k <= uint64(p.n); k++ {
		if p.odd() {
			began = time.Now()
			if err := p.writeCount(pingAt, k); err != nil {
				return err
			}
		}
		if err := p.awaitCount("round trip", pingAt, k); err != nil {
			return err
		}
		p.trips = append(p.trips, time.Since(began))
		if !p.odd() {
			began = time.Now()
			if err := p.writeCount(pingAt, k); err != nil {
				return err
			}
		}
	}
	return p.together()
}

// word returns what a node writes at an offset in a round.
func (p *play) word(node int, round uint64, at int) uint64 {
	return (uint64(p.number)<<32 | round<<8 | uint64(node)) * (uint64(at) + 0x9e3779b97f4a7c15)
}

func (p *play) fill(area int, f func(at int) uint64) {
	for at := 0; at < p.size; at += 8 {
		p.mem.Store(p.area(area)+at, f(at))
	}
}

// check compares an area with what a node has written in a round.
func (p *play) check(area, node int, round uint64) error {
	for at := 0; at < p.size; at += 8 {
		if got, want := p.mem.Load(p.area(area)+at), p.word(node, round, at); got != want {
			return fmt.Errorf("round %d of node %d: %016x at offset %d, not %016x", round, node, got, at, want)
		}
	}
	return nil
}

// write writes long messages to each other. The word that follows one arrives after it.
func (p *play) write() error {
	for r := uint64(1); r <= uint64(p.rounds); r++ {
		p.fill(0, func(at int) uint64 { return p.word(p.cfg.node, r, at) })
		if err := p.do(wqe.OpRDMAWrite, p.area(0), p.area(1), p.size); err != nil {
			return err
		}
		if err := p.writeCount(filledAt, r); err != nil {
			return err
		}
		if err := p.awaitCount("long write", filledAt, r); err != nil {
			return err
		}
		if err := p.check(1, p.peer, r); err != nil {
			return err
		}
		if err := p.writeCount(checkedAt, r); err != nil {
			return err
		}
		if err := p.awaitCount("check", checkedAt, r); err != nil {
			return err
		}
	}
	return p.together()
}

// read reads what the peer has written last.
func (p *play) read() error {
	for range p.rounds {
		p.fill(2, func(at int) uint64 { return ^p.word(p.peer, uint64(p.rounds), at) })
		if err := p.do(wqe.OpRDMARead, p.area(2), p.area(0), p.size); err != nil {
			return err
		}
		if err := p.check(2, p.peer, uint64(p.rounds)); err != nil {
			return err
		}
	}
	return p.together()
}

// count adds to one counter while the peer does so too. No addition may be lost.
func (p *play) count() error {
	start, err := p.add(0)
	if err != nil {
		return err
	}
	if err := p.together(); err != nil {
		return err
	}
	delta := func(node int) uint64 { return uint64(node) << (20 * (node % 2)) }
	last := start
	for k := range p.n {
		old, err := p.add(delta(p.cfg.node))
		if err != nil {
			return err
		}
		if k > 0 && old < last+delta(p.cfg.node) {
			return fmt.Errorf("fetch-and-add %d returned %d, after %d", k, old, last)
		}
		last = old
	}
	if err := p.together(); err != nil {
		return err
	}
	end, err := p.add(0)
	if err != nil {
		return err
	}
	p.fetched = end - start
	if want := uint64(p.n) * (delta(p.cfg.node) + delta(p.peer)); p.fetched != want {
		return fmt.Errorf("%d fetch-and-adds of each node changed the counter by %d, not %d", p.n, p.fetched, want)
	}
	return p.together()
}
