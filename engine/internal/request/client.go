//go:build linux && (amd64 || arm64)

package request

import (
	"errors"
	"os"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

// NewLocal returns a new client that is part of this process. The log uses name for it.
func (e Device) NewLocal(name string) (*Client, error) { return attachLocal(e, name, nil) }

// Lend implements nic.Lender.
func (e Device) Lend(c nic.Client) *nic.Steps { return e.Runner.Lend(c.(*Client).Client) }

// attachLocal is NewLocal with UAR pages in memory that registers makes, if it is not nil.
func attachLocal(e Device, name string, registers func(size int) (*shm.Region, error)) (*Client, error) {
	create := shm.CreateSealed
	if shm.RaceEnabled {
		// The race detector does not watch mapped memory; see package shm.
		create = func(_ string, size int) (*shm.Region, error) { return shm.Heap(size) }
	}
	createUAR := create
	if registers != nil {
		createUAR = func(_ string, size int) (*shm.Region, error) { return registers(size) }
	}
	c, err := e.NewClient(name, uint32(os.Getuid()), nic.Hosted{PID: os.Getpid()}, createUAR, create)
	if err == nil {
		c.Local = true
	}
	return c, err
}

// NewClient returns a new client. create makes the client's UAR pages, and createReadOnly makes
// its status page. If the client is in another process, it must be able to map these pages.
func (e Device) NewClient(name string, uid uint32, hosted nic.Hosted,
	create, createReadOnly func(string, int) (*shm.Region, error)) (*Client, error) {
	e.FillHosted(&hosted)
	if err := e.Ledger.Take(uid, object.ClientCharge); err != nil {
		return nil, err
	}
	c := &Client{Device: e, born: beginOf(hosted.PID), Client: &object.Client{
		Device: e.Device, Name: name, UID: uid, Program: programOf(hosted.PID), Hosted: hosted,
		Paid:    object.ClientCharge,
		Regions: make(map[uint32]*object.Region), Unplaced: make(map[uint32]*object.Region),
		PDs: make(map[uint32]*object.PD),
		MRs: make(map[uint32]*object.Mkey), CQs: make(map[uint32]*object.CQ),
		QPs: make(map[uint32]*object.QP), Channels: make(map[uint32]*object.Channel),
		SRQs: make(map[uint32]*object.SRQ), XRCDs: make(map[uint32]*object.XRCD),
		NextID: 1,
	}}
	err := c.makePages(create, createReadOnly)
	if err != nil {
		e.Ledger.Refund(uid, object.ClientCharge)
		return nil, err
	}
	e.Do(func() {
		e.Attached++
		c.Number = e.Attached
		if e.Deaths == nil {
			e.Runner.Deaths = make(map[uint32]func())
		}
		e.Deaths[c.Number] = func() { die(c) }
		e.Loops[e.LeastLoaded().Number].AddClient(c.Client)
		followNew(e, c.Client)
	})
	return c, nil
}

// makePages makes the client's UAR pages and its status page.
func (c *Client) makePages(create, createReadOnly func(string, int) (*shm.Region, error)) (err error) {
	c.UAR, err = create("uar", c.Hosted.UARPages*shm.PageSize)
	if err != nil {
		return err
	}
	c.Status, err = createReadOnly("status", control.StatusSize+reason.Size)
	if err != nil {
		_ = c.UAR.Close()
		return err
	}
	// If memory is short (vm.overcommit_memory 2), this client is refused. Otherwise the device
	// would later touch a page that the system cannot provide, and that would end the process.
	err = errors.Join(c.UAR.Populate(c.UAR.Bytes()), c.Status.Populate(c.Status.Bytes()))
	if err != nil {
		_ = errors.Join(c.UAR.Close(), c.Status.Close())
		return control.Errorf(control.CodeMemory, "%v", err)
	}
	c.Page, c.Reasons = object.NewStatusPage(c.Status.Bytes()), reason.NewWriter(c.Status.Bytes())
	return nil
}

// Close destroys all objects of the client. The client's peers see transport errors; other
// clients do not notice. A second call does nothing.
func (c *Client) Close() error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return nil
	}
	c.Closed = true
	watching{c}.end()
	faulting{c}.endFaults()
	c.Device.LeaveBoard(c.Client)
	c.Device.Boxes.Close(c.Client)
	var regions []*object.Region
	for more := true; more; {
		c.do(mailbox.MakesWork, "end of the connection", func() { regions, more = c.DestroySome() })
	}
	c.Finish()
	c.unmap(regions) // can take long, so not on the engine's thread
	c.Device.Ledger.Refund(c.UID, c.Paid)
	return nil
}

// DestroySome destroys a portion of this client's objects. more reports whether there are other objects. With
// the last portion, DestroySome returns the client's regions, to which no object refers any more.
func (c *Client) DestroySome() (regions []*object.Region, more bool) {
	left := object.Portion
	object.Destroy(c.QPs, c.leaveQP, &left)
	object.Destroy(c.MRs, c.removeKey, &left)
	object.Destroy(c.SRQs, c.removeSRQ, &left)
	object.Destroy(c.CQs, c.removeCQ, &left)
	if left == 0 {
		return nil, true
	}
	for _, ch := range c.Channels {
		c.closeChannel(ch)
	}
	for _, have := range []map[uint32]*object.Region{c.Regions, c.Unplaced} {
		for _, r := range have {
			regions = append(regions, r)
		}
	}
	c.closeEvents()
	dropAllLate(c.Client)
	c.closeWakeFD()
	c.closeProcess()
	c.Refund(len(c.PDs) * object.PDCost)
	for _, d := range c.XRCDs {
		for d.Members[c.Client] != nil {
			c.leaveXRCD(d)
		}
	}
	clear(c.Regions)
	clear(c.Unplaced)
	clear(c.PDs)
	delete(c.Device.Deaths, c.Number)
	c.Device.Past.Add(&c.Count)
	c.Device.PastErrors.Keep(c.UID, c.Program, c.Hosted.PID, c.Recent)
	c.Device.PastTraffic[c.Hosted.Port].Add(&c.Traffic)
	recordGone(c.Shard, c.Watched, trace.KindClientGone, c.Number, 0)
	c.Loop().RemoveClient(c.Client)
	return regions, false
}

// unmap releases the memory of regions, and the client's own pages.
func (c *Client) unmap(regions []*object.Region) {
	for _, r := range regions {
		if r.Owned {
			c.Device.FreeMemory(c.UID, r.Mem)
		}
	}
	for _, m := range c.Banks {
		c.Device.FreeMemory(c.UID, m)
	}
	_ = c.Status.Close()
	held := quota.Charge{quota.Mappings: 1}
	if c.UAR.File() != nil {
		held[quota.Descriptors] = 1
	}
	c.Paid = c.Paid.Minus(held)
	c.Device.unmap(c.UID, c.UAR, held)
}

func allocPD(c *Client, _ *control.Empty, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	id, err := c.take("protection domains", len(c.PDs), c.Device.Settings.Limits.PDs, object.PDCost)
	if err != nil {
		return nil, err
	}
	c.PDs[id] = &object.PD{ID: id}
	return &control.PD{PDN: id}, nil
}

func deallocPD(c *Client, m *control.PD, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	p, ok := c.PDs[m.PDN]
	switch {
	case !ok:
		return nil, object.NotFound("PD", m.PDN)
	case p.Users > 0:
		return nil, object.Busy("PD", m.PDN, p.Users, "key or queue", "keys and queues")
	}
	delete(c.PDs, m.PDN)
	c.Refund(object.PDCost)
	return &control.Empty{}, nil
}
