//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"slices"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A region is memory that a client and the device share. The device makes the memory and
// maps it before any other process can reach it. The client maps it too, seals it against
// holes, and then places the region: it tells the device at which address it has mapped it.
// Before that the device touches no byte of the region, because a thread that touches a
// page while another process punches a hole there has to wait (docs/design/0021).
type region struct {
	id    uint32
	base  uint64 // address in the client
	size  uint64
	mem   *shm.Region
	owned bool   // made by the device, which unmaps it when the region ends; false: the memory was given to AddRegion
	added uint64 // how many regions the client had added before, if this one was added by AddRegion; see at
	users int    // number of keys and queues that have memory in the region; each counts once, even if it has several pieces there
}

// regionCharge is what a region of size bytes costs the device's process, charged to user
// uid. The region's bytes are not counted for the device's own user, because the system's own
// limits hold for that user anyway.
func regionCharge(uid uint32, size int) quota.Charge {
	fds, pages := shm.HoldCost(size)
	b := quota.Charge{quota.Mappings: 1, quota.AddressSpace: size, quota.Memory: regionCost, quota.Descriptors: fds, quota.PipePages: pages, quota.HeldBytes: shm.HoldBytes(size)}
	if uid != uint32(os.Getuid()) {
		b[quota.RegionBytes] = size
	}
	return b
}

// regionFile is the charge for the descriptor of a region. The descriptor is open until the
// client has placed the region.
var regionFile = quota.Charge{quota.Descriptors: 1}

// makeMemory makes the memory of a region, off the engine's thread. It checks the limits
// first. Otherwise a client could make the device do that work by requests that will be
// refused, which cost the client nothing.
func (c *caller) makeMemory(payload []byte) (mem requestMemory, err error) {
	var m control.RegionSize
	if err := control.Parse(control.OpCreateRegion, payload, &m); err != nil {
		return mem, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.mu.Lock() // while c.mu is held, no request is under way, so the engine's thread changes no region
	err = c.mayHave(m.Size)
	c.mu.Unlock()
	if err != nil {
		return mem, err
	}
	charge := regionCharge(c.uid, int(wholePages(m.Size))).Plus(regionFile)
	if err := c.e.ledger.Take(c.uid, charge); err != nil {
		return mem, err
	}
	r, err := c.e.makeMemory("region", int(m.Size), shm.Create)
	if err != nil {
		c.e.ledger.Refund(c.uid, charge)
		return mem, err
	}
	return requestMemory{region: r}, nil
}

// makeMemory makes memory for another process to map. It refuses what could never be filled: a page of
// each 2 MiB is allocated at once, so a region of 1 TiB takes 4 GiB and seconds.
func (e *device) makeMemory(name string, size int, create func(string, int) (*shm.Region, error)) (*shm.Region, error) {
	if most, why := quota.MostRegion(); size > most {
		return nil, control.Errorf(control.CodeLimit, "region of %d bytes; at most %d are possible: %s", size, most, why)
	}
	r, err := create(name, size)
	if err == nil && e.cfg.populate {
		if err = r.Populate(r.Bytes()); err != nil {
			_ = r.Close()
		}
	}
	if err != nil {
		return nil, control.Errorf(control.CodeMemory, "%v", err)
	}
	return r, nil
}

func wholePages(n uint64) uint64 { return (n + shm.PageSize - 1) &^ (shm.PageSize - 1) }

// mayHave refuses another region of size bytes if that is over a limit.
func (c *caller) mayHave(size uint64) error {
	l := &c.e.cfg.limits
	switch {
	case size == 0 || size > shm.MaxRegion:
		return control.Errorf(control.CodeInvalid, "region of %d bytes; 1 to %d are possible", size, uint64(shm.MaxRegion))
	case wholePages(size) > l.Bytes-c.bytes:
		return control.Errorf(control.CodeLimit, "region: %d bytes; this client has %d of its %d", size, c.bytes, l.Bytes)
	case len(c.regions)+len(c.unplaced) >= l.Regions:
		return tooMany("regions", l.Regions)
	}
	return nil
}

func (c *caller) createRegion(m *control.RegionSize, mem requestMemory, r *control.Reply) (control.Message, error) {
	if err := c.mayHave(m.Size); err != nil {
		return nil, err
	}
	id, err := c.take("regions", len(c.regions), c.e.cfg.limits.Regions, 0) // makeMemory has paid
	if err != nil {
		return nil, err
	}
	n := &region{id: id, size: uint64(mem.region.Size()), mem: mem.region, owned: true}
	c.bytes += n.size
	c.unplaced[id] = n
	r.Memory = mem.region.File()
	return &control.RegionID{ID: id}, nil
}

func (c *caller) placeRegion(m *control.Placement, _ requestMemory, _ *control.Reply) (control.Message, error) {
	r, ok := c.unplaced[m.ID]
	if !ok {
		return nil, notFound("region without a place", m.ID)
	}
	if err := c.locate(r, m.Addr); err != nil {
		return nil, err
	}
	delete(c.unplaced, m.ID)
	c.after = append(c.after, func() {
		_ = r.mem.Forget() // the client and the device have both mapped the memory
		c.e.ledger.Refund(c.uid, regionFile)
	})
	return &control.Empty{}, nil
}

// AddRegion makes a region from memory that the client and the device have both mapped already.
// Either the client is in the device's own process, or a server hosts the client, has made
// the memory, and has checked that the memory is sealed. addr is the memory's address in the
// client. The caller remains the owner of the memory.
//
// The region may overlap earlier ones: a client may unmap memory while keys still have it, and
// map other memory there. The keys keep what they have.
func (c *caller) AddRegion(addr uint64, mem *shm.Region) (id uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, errClosed
	}
	c.e.doWith(noWork, func() { id, err = c.addRegion(addr, mem) })
	return id, err
}

func (c *caller) addRegion(addr uint64, mem *shm.Region) (id uint32, err error) {
	n := &region{size: uint64(mem.Size()), mem: mem}
	if err := c.mayHave(n.size); err != nil {
		return 0, err
	}
	if n.id, err = c.take("regions", len(c.regions), c.e.cfg.limits.Regions, 0); err != nil {
		return 0, err
	}
	c.added++
	n.added = c.added
	if err := c.locate(n, addr); err != nil {
		return 0, err
	}
	c.bytes += n.size
	return n.id, nil
}

// locate makes a region usable, at address addr in the client.
func (c *client) locate(r *region, addr uint64) error {
	switch {
	case addr%shm.PageSize != 0:
		return control.Errorf(control.CodeInvalid, "region %#x: address %#x is not a multiple of the page size %d", r.id, addr, shm.PageSize)
	case addr+r.size < addr:
		return control.Errorf(control.CodeInvalid, "region %#x: %d bytes at %#x pass the end of the address space", r.id, r.size, addr)
	case !r.mem.Sealed():
		return control.Errorf(control.CodeMemory,
			"region %#x: its memory can still lose pages; map it, then add F_SEAL_FUTURE_WRITE, before it is placed", r.id)
	}
	for _, o := range c.regions {
		if r.owned && addr < o.base+o.size && o.base < addr+r.size {
			return control.Errorf(control.CodeInvalid, "region %#x: %d bytes at %#x overlap region %#x, %d bytes at %#x",
				r.id, r.size, addr, o.id, o.size, o.base)
		}
	}
	r.base = addr
	c.regions[r.id] = r
	return nil
}

// countUser adds n to the users of each of these regions, for a queue that has memory in
// them. A region that is named twice counts the queue once. A nil region stands for memory
// that the queue does not have.
func countUser(n int, regions ...*region) {
	for i, r := range regions {
		if r != nil && !slices.Contains(regions[:i], r) {
			r.users += n
		}
	}
}

func (c *caller) dropRegion(m *control.RegionID, _ requestMemory, _ *control.Reply) (control.Message, error) {
	r := c.regions[m.ID]
	if r == nil {
		r = c.unplaced[m.ID]
	}
	switch {
	case r == nil:
		return nil, notFound("region", m.ID)
	case r.users > 0:
		return nil, busy("region", m.ID, r.users, "key or queue", "keys and queues")
	}
	delete(c.regions, m.ID)
	delete(c.unplaced, m.ID)
	c.bytes -= r.size
	if r.owned {
		c.after = append(c.after, func() { c.r.releaseMemory(c.uid, r.mem) })
	}
	return &control.Empty{}, nil
}

// at returns the region that contains the n bytes that begin at address addr in the client,
// and those bytes in the device's mapping. If there are several regions, it is the newest one,
// which the client has mapped over the others. what names the bytes in the error.
func (c *client) at(what string, addr, n uint64) (*region, []byte, error) {
	var newest *region
	for _, r := range c.regions {
		if off := addr - r.base; off < r.size && n <= r.size-off && (newest == nil || r.added > newest.added) {
			newest = r
		}
	}
	if newest != nil {
		off := addr - newest.base
		return newest, newest.mem.Bytes()[off : off+n : off+n], nil
	}
	return nil, nil, control.Errorf(control.CodeInvalid,
		"%s: %d bytes at address %#x are not inside one region of this client", what, n, addr)
}

// holds reports whether an address in the device's mapping is in a region of this client.
func (c *client) holds(addr uint64) bool {
	for _, r := range c.regions {
		if addr-r.mem.Addr() < r.size {
			return true
		}
	}
	return false
}

// prefault maps existing pages of a queue into the device's page table, off the engine's
// thread, so that the engine's thread need not wait for the kernel when it first accesses
// them.
func (c *client) prefault(r *region, b []byte) {
	c.after = append(c.after, func() { r.mem.Prefault(b) })
}
