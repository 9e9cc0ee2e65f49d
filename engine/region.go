package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A region is memory of a client, mapped by the device. base is where the
// client has it.
type region struct {
	id    uint32
	base  uint64
	size  uint64
	mem   *shm.Region
	owned bool // unmapped by the device; else the client's own mapping is used
	users int  // keys and queues inside
}

// mapMemory maps what an add_region request wants of a client's descriptor,
// which stays the caller's. It runs beside the engine's thread. Limits come
// first: a descriptor costs its owner nothing, and may name a thousand times
// more than there are addresses.
func (c *Client) mapMemory(payload []byte, fd int) (mem Memory, err error) {
	var m control.Region
	if err := control.Parse(control.OpAddRegion, payload, &m); err != nil {
		return mem, control.Errorf(control.CodeInvalid, "%v", err)
	}
	all, err := shm.Inspect(fd)
	if err != nil {
		return mem, control.Errorf(control.CodeMemory, "%v", err)
	}
	c.mu.Lock() // no request is under way: the engine's thread changes no region
	err = c.judgeRegion(&m, uint64(all.Size()))
	c.mu.Unlock()
	if err != nil {
		return mem, err
	}
	b := regionBill(all.Span(int(m.Size)))
	if err := c.e.shares.take(c.uid, b); err != nil {
		return mem, err
	}
	r, err := all.Map(int(m.Size))
	if err != nil {
		c.e.shares.give(c.uid, b)
		return mem, control.Errorf(control.CodeMemory, "%v", err)
	}
	return Memory{Region: r, Owned: true}, nil
}

// unmapMemory undoes mapMemory.
func (c *Client) unmapMemory(r *shm.Region) {
	b := regionBill(r.Size())
	_ = r.Close()
	c.e.shares.give(c.uid, b)
}

func regionBill(span int) bill {
	return bill{mappings: 1, addresses: span, memory: regionCost}
}

// judgeRegion says why a client may not have this region, of memory that holds
// size bytes.
func (c *Client) judgeRegion(m *control.Region, size uint64) error {
	l := &c.e.cfg.Limits
	switch {
	case m.Size == 0 || m.Size > size:
		return control.Errorf(control.CodeInvalid, "region: %d bytes of a descriptor that holds %d", m.Size, size)
	case m.Addr+m.Size < m.Addr:
		return control.Errorf(control.CodeInvalid, "region: %d bytes at %#x pass the end of the address space", m.Size, m.Addr)
	case m.Addr%shm.PageSize != 0:
		return control.Errorf(control.CodeInvalid, "region: address %#x is not a multiple of the page size %d", m.Addr, shm.PageSize)
	case m.Size > l.Bytes-c.bytes:
		return control.Errorf(control.CodeLimit, "region: %d bytes; this client has %d of its %d", m.Size, c.bytes, l.Bytes)
	case len(c.regions) >= l.Regions:
		return tooMany("regions", l.Regions)
	}
	for _, r := range c.regions {
		if m.Addr < r.base+r.size && r.base < m.Addr+m.Size {
			return control.Errorf(control.CodeInvalid, "region: %d bytes at %#x overlap region %#x, %d bytes at %#x",
				m.Size, m.Addr, r.id, r.size, r.base)
		}
	}
	return nil
}

func (c *Client) addRegion(m *control.Region, mem Memory, _ *control.Reply) (control.Message, error) {
	if err := c.judgeRegion(m, uint64(mem.Region.Size())); err != nil {
		return nil, err
	}
	id, err := c.take("regions", len(c.regions), c.e.cfg.Limits.Regions, 0) // mapMemory has paid
	if err != nil {
		return nil, err
	}
	c.bytes += m.Size
	c.regions[id] = &region{id: id, base: m.Addr, size: m.Size, mem: mem.Region, owned: mem.Owned}
	return &control.RegionID{ID: id}, nil
}

func (c *Client) dropRegion(m *control.RegionID, _ Memory, _ *control.Reply) (control.Message, error) {
	r, ok := c.regions[m.ID]
	switch {
	case !ok:
		return nil, notFound("region", m.ID)
	case r.users > 0:
		return nil, busy("region", m.ID, r.users, "keys and queues")
	}
	delete(c.regions, m.ID)
	c.bytes -= r.size
	if r.owned {
		c.after = append(c.after, func() { c.unmapMemory(r.mem) })
	}
	return &control.Empty{}, nil
}

// at returns the region that holds n bytes from the client's address addr, and
// those bytes in the device's mapping.
func (c *Client) at(what string, addr, n uint64) (*region, []byte, error) {
	for _, r := range c.regions {
		if off := addr - r.base; off < r.size && n <= r.size-off {
			return r, r.mem.Bytes()[off : off+n : off+n], nil
		}
	}
	return nil, nil, control.Errorf(control.CodeInvalid,
		"%s: %d bytes at address %#x are not inside one region of this client", what, n, addr)
}

// holds reports whether an address in the device's mapping is this client's.
func (c *Client) holds(addr uint64) bool {
	for _, r := range c.regions {
		if addr-r.mem.Addr() < r.size {
			return true
		}
	}
	return false
}
