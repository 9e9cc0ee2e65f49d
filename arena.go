package nicless

import (
	"errors"
	"math/bits"
	"sync"

	"github.com/nicless/nicless/internal/shm"
)

// An arena hands out shared memory for rings and doorbell records, in blocks whose
// sizes are powers of two, from a few large regions. If each queue had its own region,
// the device would need a mapping for each queue.
type arena struct {
	c *client

	mu      sync.Mutex
	closed  bool // nothing is mapped any more, free blocks included
	regions []*shm.Region
	free    [48][]block // by log2 of size
}

// A block is zeroed memory from an arena. It is aligned to its size, or to the page
// size if that is smaller.
type block struct {
	mem  []byte
	addr uint64 // the address by which the device finds mem
}

const (
	// log2 of the smallest block: two cache lines. Processors fetch cache lines in
	// pairs. In blocks of this size, no two doorbell records share a pair.
	minBlock = 7
	// log2 of the smallest region.
	chunk = 20
)

// alloc returns at least n bytes.
func (a *arena) alloc(n int) (block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return block{}, ErrClosed
	}
	class := max(bits.Len(uint(n-1)), minBlock)
	from := class
	for from < len(a.free) && len(a.free[from]) == 0 {
		from++
	}
	if from >= len(a.free) {
		from = max(class, chunk)
		if err := a.grow(from); err != nil {
			return block{}, err
		}
	}
	b := a.pop(from)
	for from > class { // the upper half stays free
		from--
		half := 1 << from
		a.free[from] = append(a.free[from], block{mem: b.mem[half:], addr: b.addr + uint64(half)})
		b.mem = b.mem[:half:half]
	}
	if err := shm.Zero(b.mem); err != nil { // this touches the pages too, so that no page fault comes later
		a.free[class] = append(a.free[class], b)
		return block{}, wrap("queues", err)
	}
	return b, nil
}

func (a *arena) pop(class int) block {
	list := a.free[class]
	b := list[len(list)-1]
	a.free[class] = list[:len(list)-1]
	return b
}

// release frees blocks. The device must not use them any more.
func (a *arena) release(blocks ...block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range blocks {
		if b.mem != nil {
			class := bits.Len(uint(len(b.mem) - 1))
			a.free[class] = append(a.free[class], b)
		}
	}
}

// grow adds a region of 1<<class bytes.
func (a *arena) grow(class int) error {
	r, _, err := a.c.newRegion("queues", 1<<class)
	if err != nil {
		return err
	}
	keep(a.c, r)
	a.regions = append(a.regions, r)
	a.free[class] = append(a.free[class], block{mem: r.Bytes(), addr: r.Addr()})
	return nil
}

func (a *arena) close() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, r := range a.regions {
		err = errors.Join(err, r.Close())
	}
	return err
}

// newRegion makes memory that the device shares, and returns the device's number for it.
// No file descriptor stays open, because the mappings are enough, and a program may need
// more memory regions than the number of descriptors that it is allowed to have.
func (c *client) newRegion(what string, size int) (*shm.Region, uint32, error) {
	if err := c.err(); err != nil {
		return nil, 0, wrap(what, err)
	}
	r, id, err := c.dev.NewRegion(what, size)
	if err != nil {
		return nil, 0, wrap(what, c.failed(err))
	}
	return r, id, nil
}
