//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// MakeMemory makes the memory of a region, off the engine's thread. It checks the limits
// first. Otherwise a client could make the device do that work by requests that will be
// refused, which cost the client nothing.
func (c *Client) MakeMemory(payload []byte) (mem object.RequestMemory, err error) {
	var m control.RegionSize
	if err := control.Parse(control.OpCreateRegion, payload, &m); err != nil {
		return mem, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.Mu.Lock() // while c.Mu is held, no request is under way, so the engine's thread changes no region
	err = c.mayHave(m.Size)
	c.Mu.Unlock()
	if err != nil {
		return mem, err
	}
	charge := object.RegionCharge(c.UID, int(object.WholePages(m.Size))).Plus(object.RegionFile)
	if err := c.Device.Ledger.Take(c.UID, charge); err != nil {
		return mem, err
	}
	r, err := c.Device.MakeMemory("region", int(m.Size), shm.Create)
	if err != nil {
		c.Device.Ledger.Refund(c.UID, charge)
		return mem, err
	}
	return object.RequestMemory{Region: r}, nil
}

// mayHave refuses another region of size bytes if that is over a limit.
func (c *Client) mayHave(size uint64) error {
	l := &c.Device.Settings.Limits
	switch {
	case size == 0 || size > shm.MaxRegion:
		return control.Errorf(control.CodeInvalid, "region of %d bytes; 1 to %d are possible", size, uint64(shm.MaxRegion))
	case object.WholePages(size) > l.Bytes-c.Bytes:
		return control.Errorf(control.CodeLimit, "region: %d bytes; this client has %d of its %d", size, c.Bytes, l.Bytes)
	case len(c.Regions)+len(c.Unplaced) >= l.Regions:
		return object.TooMany("regions", l.Regions)
	}
	return nil
}

func createRegion(c *Client, m *control.RegionSize, mem object.RequestMemory,
	r *control.Reply) (control.Message, error) {
	if err := c.mayHave(m.Size); err != nil {
		return nil, err
	}
	// MakeMemory has paid.
	id, err := c.take("regions", len(c.Regions), c.Device.Settings.Limits.Regions, 0)
	if err != nil {
		return nil, err
	}
	n := &object.Region{ID: id, Size: uint64(mem.Region.Size()), Mem: mem.Region, Owned: true}
	c.Bytes += n.Size
	c.Unplaced[id] = n
	r.Memory = mem.Region.File()
	return &control.RegionID{ID: id}, nil
}

func placeRegion(c *Client, m *control.Placement, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	r, ok := c.Unplaced[m.ID]
	if !ok {
		return nil, object.NotFound("region without a place", m.ID)
	}
	if err := c.Locate(r, m.Addr); err != nil {
		return nil, err
	}
	delete(c.Unplaced, m.ID)
	c.After = append(c.After, func() {
		_ = r.Mem.CloseFile() // the client and the device have both mapped the memory
		c.Device.Ledger.Refund(c.UID, object.RegionFile)
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
func (c *Client) AddRegion(addr uint64, mem *shm.Region) (id uint32, err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return 0, object.ErrClosed
	}
	c.Device.DoWith(mailbox.NoWork, func() { id, err = c.addRegion(addr, mem) })
	return id, err
}

func (c *Client) addRegion(addr uint64, mem *shm.Region) (id uint32, err error) {
	n := &object.Region{Size: uint64(mem.Size()), Mem: mem}
	if err := c.mayHave(n.Size); err != nil {
		return 0, err
	}
	n.ID, err = c.take("regions", len(c.Regions), c.Device.Settings.Limits.Regions, 0)
	if err != nil {
		return 0, err
	}
	c.Added++
	n.Added = c.Added
	if err := c.Locate(n, addr); err != nil {
		return 0, err
	}
	c.Bytes += n.Size
	return n.ID, nil
}

func dropRegion(c *Client, m *control.RegionID, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	r := c.Regions[m.ID]
	if r == nil {
		r = c.Unplaced[m.ID]
	}
	switch {
	case r == nil:
		return nil, object.NotFound("region", m.ID)
	case r.Users > 0:
		return nil, object.Busy("region", m.ID, r.Users, "key or queue", "keys and queues")
	}
	delete(c.Regions, m.ID)
	delete(c.Unplaced, m.ID)
	c.Bytes -= r.Size
	if r.Owned {
		c.After = append(c.After, func() { c.Device.FreeMemory(c.UID, r.Mem) })
	}
	return &control.Empty{}, nil
}
