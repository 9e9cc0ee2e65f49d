//go:build linux && (amd64 || arm64)

package raw

import (
	"fmt"
	"math/rand/v2"

	"github.com/nicless/nicless/fabric/pool"
)

// most is how much of the memory is mapped. The pool is smaller.
const most = pongAt

// scribble writes garbage.
func (c *config) scribble(what string) error {
	mem, err := c.attach(0, most)
	if err != nil {
		return err
	}
	m, err := pool.ReadMap(mem)
	if err != nil {
		return err
	}
	parts, err := c.parts(m, what)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(c.seed, 0))
	var bytes uint64
	for range c.passes {
		for _, p := range parts {
			for at := p.Offset; at < p.Offset+p.Size; at += 8 {
				c.store(mem, at, r.Uint64())
			}
			bytes += p.Size
		}
	}
	fmt.Printf("scribble: node %d has written %d bytes of garbage over %d parts of the pool\n", c.node, bytes, len(parts))
	return nil
}

// parts returns what to write over.
func (c *config) parts(m pool.Map, what string) (parts []pool.Part, err error) {
	if what != "own" && what != "all" {
		return nil, fmt.Errorf("scribble %s; own and all are possible", what)
	}
	for other := range m.Nodes() {
		if other == c.node {
			continue
		}
		parts = append(parts, m.Ring(c.node, other))
		if what == "own" {
			parts = append(parts, m.Consumed(other, c.node))
			continue
		}
		parts = append(parts, m.Ring(other, c.node), m.Line(other, c.node))
	}
	if what == "all" {
		parts = append(parts, m.Gap())
	}
	return append(parts, m.Board(c.node), m.Block(c.node)), nil
}
