//go:build linux && (amd64 || arm64)

package replay

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

// A replayer is a device that does again what a trace says.
type replayer struct {
	plan    *plan
	e       *engine.Engine
	d       nic.Device
	clients map[uint32]*client
	queues  map[uint32]*queue // by the number of the queue pair
	cqs     map[uint32]*cq
	srqs    map[uint32]*srq
	keys    map[uint32]*key // by the key without its variant
	taken   *receive        // the receive of a datagram, until it is known which WQE has taken it
	report  Report

	patience time.Duration
}

func newReplayer(p *plan, o Options) (*replayer, error) {
	e, err := engine.New(engine.Config{Faults: o.Faults, Log: o.Log, Limits: engine.Limits{Regions: 1 << 16,
		PDs: 1 << 20, MRs: 1 << 22, CQs: 1 << 20, QPs: 1 << 20, Bytes: 1 << 50}})
	if err != nil {
		return nil, err
	}
	patience := o.Patience
	if patience <= 0 {
		patience = usualPatience
	}
	return &replayer{plan: p, patience: patience, e: e, d: nic.Of(e), clients: map[uint32]*client{},
		queues: map[uint32]*queue{}, cqs: map[uint32]*cq{}, srqs: map[uint32]*srq{},
		keys: map[uint32]*key{}}, nil
}

func (r *replayer) close() {
	for n := range r.clients {
		_ = r.endClient(n)
	}
}

// A client is a client of the trace.
type client struct {
	nic.Client
	memory []extent // its registered memory, sorted
	arena  arena
	pds    map[uint32]uint32
	uar    uint16    // its page of registers
	rings  []byte    // the doorbell register of that page, for queues that only registers start
	gids   []nic.GID // nil: it has only the GID of its queue pairs
}

// An extent is memory at the addresses that it had in the client.
type extent struct {
	begin uint64
	mem   *shm.Region
}

func (r *replayer) newClient(e *trace.Event) error {
	if r.clients[e.Queue] != nil {
		return nil // a watch may name a client again
	}
	nc, err := r.d.Attach(fmt.Sprintf("client %d", e.Queue), uint32(os.Getuid()),
		nic.Hosted{PID: os.Getpid(), GID: r.plan.gids[e.Queue]})
	if err != nil {
		return err
	}
	uar, registers, err := nc.AddRegisters(1)
	if err == nil {
		err = registers.Seal() // otherwise the device refuses queues that name it
	}
	if err != nil {
		return errors.Join(err, nc.Close())
	}
	nc.ClosePageFiles()
	c := &client{Client: nc, uar: uint16(uar), pds: map[uint32]uint32{}}
	c.rings = registers.Bytes()[doorbell.BFOffset:][:doorbell.RingSize]
	r.clients[e.Queue] = c
	c.arena.next = 1 << 60 // above all addresses of programs, below device memory
	for _, s := range r.plan.memory[e.Queue] {
		mem, err := c.region(s.begin, s.end-s.begin)
		if err != nil {
			return err
		}
		c.memory = append(c.memory, extent{s.begin, mem})
	}
	return nil
}

// region makes memory that the client has at an address.
func (c *client) region(addr, n uint64) (mem *shm.Region, err error) {
	if n > shm.MaxRegion {
		return nil, fmt.Errorf("%d bytes of memory at 0x%x; at most %d are possible", n, addr, uint64(shm.MaxRegion))
	}
	if shm.RaceEnabled {
		mem, err = shm.Heap(int(n))
	} else if mem, err = shm.CreateSealed("replay", int(n)); err == nil {
		err = mem.CloseFile()
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.AddRegion(addr, mem); err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	c.arena.regions = append(c.arena.regions, mem)
	return mem, nil
}

// bytes returns the n bytes of the client's memory at an address, or nil if it has none there.
func (c *client) bytes(addr, n uint64) []byte {
	i, found := slices.BinarySearchFunc(c.memory, addr, func(x extent, a uint64) int {
		return cmp.Compare(x.begin, a)
	})
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	x := &c.memory[i]
	if off, size := addr-x.begin, uint64(x.mem.Size()); off <= size && n <= size-off {
		return x.mem.Bytes()[off : off+n : off+n]
	}
	return nil
}

// An arena is memory for queues.
type arena struct {
	next    uint64 // address of the next region
	free    []byte // rest of the newest region
	at      uint64 // address of free
	regions []*shm.Region
}

// arenaChunk is the least size of a region for queues. Few regions are needed, because a client may have
// only so many.
const arenaChunk = 1 << 20

// take returns n bytes of memory for queues, and their address. They begin at a multiple of 128.
func (c *client) take(n int) (b []byte, addr uint64, err error) {
	a := &c.arena
	size := (n + 127) &^ 127
	if size > len(a.free) {
		whole := (max(size, arenaChunk) + shm.PageSize - 1) &^ (shm.PageSize - 1)
		mem, err := c.region(a.next, uint64(whole))
		if err != nil {
			return nil, 0, err
		}
		a.free, a.at = mem.Bytes(), a.next
		a.next += uint64(whole) + shm.PageSize
	}
	b, addr = a.free[:n:n], a.at
	a.free, a.at = a.free[size:], a.at+uint64(size)
	return b, addr, nil
}

// call makes a request of a client.
func (c *client) call(op control.Op, req, ans control.Message) error {
	m, _, err := c.Call(op, control.Append(nil, op, 0, 0, req)[control.HeaderSize:])
	if err != nil {
		return err
	}
	return control.Parse(op, control.Append(nil, op, control.FlagAnswer, 0, m)[control.HeaderSize:], ans)
}

// pd returns the protection domain that was number n.
func (c *client) pd(n uint32) (uint32, error) {
	if got, ok := c.pds[n]; ok {
		return got, nil
	}
	var ans control.PD
	err := c.call(control.OpAllocPD, &control.Empty{}, &ans)
	c.pds[n] = ans.PDN
	return ans.PDN, err
}

func (r *replayer) endClient(n uint32) error {
	c := r.clients[n]
	if c == nil {
		return nil
	}
	delete(r.clients, n)
	for _, q := range r.queues {
		if q.client == c {
			delete(r.queues, q.number)
		}
	}
	for _, s := range r.srqs {
		if s.client == c {
			delete(r.srqs, s.number)
		}
	}
	for i, k := range r.keys {
		if k.client == c {
			delete(r.keys, i)
		}
	}
	for _, q := range r.cqs {
		if q.client == c {
			r.endCQ(q)
		}
	}
	err := c.Close()
	for _, mem := range c.arena.regions {
		err = errors.Join(err, mem.Close())
	}
	return err
}
