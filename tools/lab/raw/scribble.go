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
	for node := range m.Nodes() {
		if node == c.node || what == "all" {
			rings := m.Rings(node)
			rings.Size = min(rings.Size, 1<<20) // those that are in use
			parts = append(parts, m.Life(node), m.Description(node), m.Board(node), m.Names(node))
			parts = append(parts, m.Table(node), rings)
		}
	}
	if what == "all" {
		parts = append(parts, m.Gap())
	}
	return parts, nil
}
