//go:build linux && (amd64 || arm64)

package raw

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/tools/quantile"
)

// Where the two lines are: far behind a pool of engines, so that both can be used at once.
const (
	pongAt   = 128 << 20
	pongSize = 2 << 20 // what a DAX device can map
	pongLine = 4096    // between the two lines
)

// Words of a node's line. The memory is not assumed to be blank: numbers of an earlier run mean nothing.
const (
	selfAt  = 0  // random, of this run
	otherAt = 8  // the other's, as seen
	countAt = 64 // how often the line has gone to and fro
)

// group is how many times to and fro make a sample: reading the clock would take as long as one.
const group = 100

// pong measures how long a line takes to the other node and back.
func (c *config) pong() error {
	if c.node != 0 && c.node != 1 {
		return fmt.Errorf("node %d; 0 and 1 play", c.node)
	}
	mem, err := c.attach(pongAt, pongSize)
	if err != nil {
		return err
	}
	mine, theirs := uint64(c.node)*pongLine, uint64(1-c.node)*pongLine
	if err := c.awaitPeer(mem, mine, theirs); err != nil {
		return err
	}
	w := waiter{c.patience}
	if c.node == 1 {
		for i := uint64(1); i <= uint64(c.rounds); i++ {
			if err := w.until(func() bool { return c.load(mem, theirs+countAt) >= i }); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
			c.store(mem, mine+countAt, i)
		}
		fmt.Printf("pong: node 1 has answered %d times\n", c.rounds)
		return nil
	}
	var samples []time.Duration
	for i, began := uint64(1), time.Now(); i <= uint64(c.rounds); i++ {
		c.store(mem, mine+countAt, i)
		if err := w.until(func() bool { return c.load(mem, theirs+countAt) >= i }); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if i%group == 0 {
			now := time.Now()
			samples, began = append(samples, now.Sub(began)/group), now
		}
	}
	if len(samples) == 0 {
		return fmt.Errorf("%d rounds; %d are the least", c.rounds, group)
	}
	slices.Sort(samples)
	fmt.Printf("pong: %d lines to and fro; median %v, least %v, most %v, of means of %d; no claim\n",
		c.rounds, quantile.Rank(samples, 0.5), samples[0], samples[len(samples)-1], group)
	return nil
}

// awaitPeer returns when both nodes know that the other one is there in this run. A node shows its number
// before it shows the other's, so a number that is read after one's own was seen is of this run.
func (c *config) awaitPeer(mem []byte, mine, theirs uint64) error {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	self := binary.BigEndian.Uint64(b[:]) | 1
	c.store(mem, mine+countAt, 0)
	c.store(mem, mine+otherAt, 0)
	c.store(mem, mine+selfAt, self)
	w := waiter{c.patience}
	if err := w.until(func() bool {
		seen := c.load(mem, theirs+otherAt) == self
		c.store(mem, mine+otherAt, c.load(mem, theirs+selfAt))
		return seen
	}); err != nil {
		return fmt.Errorf("the other node does not come: %w", err)
	}
	return nil
}

// A waiter spins for a while, then naps: there may be fewer processors than nodes that wait. It counts naps,
// not time: a node to which a busy host gives no processor does not nap.
type waiter struct{ patience time.Duration }

func (w waiter) until(done func() bool) error {
	const spins, nap = 20000, 50 * time.Microsecond
	naps := int(w.patience / nap)
	for n := 0; !done(); n++ {
		switch {
		case n < spins:
			cpu.Relax(1)
		case n < spins+naps:
			time.Sleep(nap)
		default:
			return fmt.Errorf("nothing has come in %d naps of %v", naps, nap)
		}
	}
	return nil
}
