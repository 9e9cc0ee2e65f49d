//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"math"
	"strings"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// An mr is a memory region. If its memory is in an extent, the engine has mapped the extent
// and works there directly. Otherwise the memory stays the process's own, and the kernel
// copies for the engine.
type mr struct {
	*object
	key          uint32
	length, iova uint64
	access       uint32
	onDemand     bool
	addr         uint64
	pd           *pd
	dm           *dm // for device memory; otherwise nil
}

// own returns the memory of the region if it stays where it is.
func (m *mr) own() ownRange { return ownRange{m.addr, m.length} }

// access returns the device's access rights for those that a program asks for, and whether the
// memory is paged on demand.
func access(flags uint32) (rights uint32, onDemand bool, err error) {
	onDemand = flags&abi.AccessOnDemand != 0
	relaxed := flags & control.AccessRelaxedOrdering
	// The first two are hints. The device keeps one of them, relaxed ordering.
	flags &^= abi.AccessOptionalRange | abi.AccessHugeTLB | abi.AccessOnDemand
	switch {
	case flags&(abi.AccessFlushGlobal|abi.AccessFlushPersistent) != 0: // as Linux's mlx5, from 6.2 on
		return 0, false, refuse(eOPNOTSUPP, "access %#x: IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT, for ibv_wr_flush: mlx5 does not have it", flags)
	case flags&^control.AccessAll != 0:
		return 0, false, refuse(eINVAL, "access %#x; %#x are known", flags, control.AccessAll)
	case flags&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 &&
		flags&control.AccessLocalWrite == 0:
		return 0, false, refuse(eINVAL, "access %#x: remote write and atomic need local write", flags)
	}
	return flags | relaxed, onDemand, nil
}

// regMR serves REG_MR. The request is struct ib_uverbs_reg_mr.
func regMR(c *call, req []byte) error {
	m := &mr{addr: le.Uint64(req[abi.RegMRStart:]), length: le.Uint64(req[abi.RegMRLength:]),
		iova: le.Uint64(req[abi.RegMRHCAVA:])}
	var err error
	m.access, m.onDemand, err = access(le.Uint32(req[abi.RegMRAccessFlags:]))
	if err != nil {
		return err
	}
	m.pd, err = lookup[*pd](c, "pd", le.Uint32(req[abi.RegMRPDHandle:]), kindPD)
	if err != nil {
		return err
	}
	if err := c.addMR(m); err != nil {
		return err
	}
	c.put32(abi.AttrCoreOut, m.handle, m.key, m.key) // struct ib_uverbs_reg_mr_resp: handle, lkey, rkey
	return nil
}

// addMR registers the memory of m, of which all but the key and the object is set.
func (c *call) addMR(m *mr) error {
	x := c.x
	held, err := c.payload(m)
	if err != nil {
		return err
	}
	if err := x.chargeObject(); err != nil {
		x.undoHolds(held)
		return err
	}
	a, _, err := x.register(held, m.onDemand, control.OpRegMR,
		&control.MR{PDN: m.pd.number, Access: m.access, Addr: m.addr, Length: m.length, IOVA: m.iova})
	if err != nil {
		x.undoHolds(held)
		x.refundObject()
		return err
	}
	m.key = a.(*control.Key).Key
	x.addOwn(m, held)
	m.object = x.add(kindMR, m, func() error { return x.dereg(m) }, held, m.pd.object)
	return nil
}

// dereg ends the key of a region.
func (x *uctx) dereg(m *mr) error {
	err := x.command(control.OpDeregMR, &control.Key{Key: m.key})
	if err == nil {
		x.removeOwn(m, m.extents)
	}
	return err
}

// addOwn notes that a region has its memory: in the extents held or, if there are none, where
// the program has it.
func (x *uctx) addOwn(m *mr, held []*extent) {
	if len(held) == 0 && m.length > 0 {
		x.owner.addCopied(m.own())
	}
}

// removeOwn undoes addOwn.
func (x *uctx) removeOwn(m *mr, held []*extent) {
	if len(held) == 0 && m.length > 0 {
		x.owner.removeCopied(m.own())
	}
}

// implicit reports whether a region on demand is the whole address space.
func (m *mr) implicit() bool { return m.onDemand && m.addr == 0 && m.length == math.MaxUint64 }

// payload checks memory that is to be registered. If the memory is in an extent, payload
// holds that extent for the caller and returns it. If the memory stays the process's own,
// payload returns no extent.
func (c *call) payload(m *mr) ([]*extent, error) {
	switch {
	case m.implicit() && m.iova == 0:
	case m.length > maxExtent:
		return nil, refuse(eINVAL, "memory region of %d bytes; at most %d are possible", m.length, uint64(maxExtent))
	case m.length == 0 && m.addr%pageSize == 0:
		return nil, refuse(eINVAL, "memory region of 0 bytes at %#x, where a page begins; the kernel wants one page in part", m.addr)
	case m.addr+m.length < m.addr:
		return nil, refuse(eFAULT, "memory region: %d bytes at %#x pass the end of the address space", m.length, m.addr)
	case m.access&control.AccessZeroBased == 0 && m.addr%pageSize != m.iova%pageSize:
		return nil, refuse(eINVAL, "memory region at %#x with iova %#x; both must have the same offset in their page", m.addr, m.iova)
	}
	if m.onDemand { // such memory is what the program has there at the time of a transfer
		return nil, c.x.shareProcess(c.p)
	}
	if m.length == 0 {
		return nil, c.empty(m)
	}
	a := area{"memory region", m.addr, m.length, 1}
	why := c.takeResults(a) // why the memory could not be moved, so that the kernel has to copy it
	if why == nil {
		e, err := c.p.memory.find(a.addr, a.n)
		if err != nil {
			return nil, refuse(eFAULT, "memory region: %v", err)
		}
		// If addUse fails, for example because of a limit on regions, the kernel copies.
		if e != nil {
			if why = c.x.addUse(e, a.addr, a.n); why == nil {
				e.payload = true
				return []*extent{e}, nil
			}
		}
	}
	if err := c.p.memory.allows(m, func(v vma) {
		if err := remappable(v, needTryRemap); why == nil && err != nil {
			why = err
		}
	}); err != nil {
		return nil, err
	}
	if c.p.fast {
		if why == nil {
			if why = c.move(a); errors.Is(why, errAgain) {
				return nil, errAgain
			}
		}
		c.stays(a, why)
	}
	return nil, c.x.shareProcess(c.p)
}

// empty checks memory of 0 bytes, which may be registered in the middle of a page (ib_umem_num_pages in the
// kernel counts that page). The page must be there with the rights of the region.
func (c *call) empty(m *mr) error {
	e, err := c.p.memory.find(m.addr, 1)
	if e != nil {
		c.p.memory.undoHold(e) // nothing of the extent is needed
	}
	if err == nil && e == nil {
		page := *m
		page.length = 1
		err = c.p.memory.allows(&page, func(vma) {})
	}
	if err != nil {
		return refuse(eFAULT, "memory region of 0 bytes: %v", err)
	}
	return c.x.shareProcess(c.p)
}

// allows returns an error if the rights of a region need more than the mappings of the process
// allow, and calls each for these mappings.
func (p *memory) allows(m *mr, each func(vma)) error {
	p.mu.Lock()
	maps := p.maps // nil after the end of the process; it is an error to read it when it is closed
	p.mu.Unlock()
	if maps == nil {
		return refuse(eFAULT, "memory region: %d bytes at %#x are not in shared memory, and this server cannot read the mappings of the process",
			m.length, m.addr)
	}
	need := "r"
	if m.access&(control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 {
		need = "rw"
	}
	return maps.over(m.addr, m.length, func(v vma) error {
		if !strings.HasPrefix(v.perms, need) {
			return refuse(eFAULT, "memory region: %d bytes at %#x: %s is needed, and the memory at %#x is %s", m.length, m.addr, need, v.start, v.perms)
		}
		each(v)
		return nil
	})
}

// register sends the engine a request that registers memory. held has the extents that payload
// has returned. If there are none, the memory is the process's own.
func (x *uctx) register(held []*extent, onDemand bool, op control.Op, req control.Message) (control.Message,
	control.Reply, error) {
	if len(held) > 0 {
		return x.request(op, req)
	}
	return x.client.CallUnmapped(op, body(op, req), onDemand)
}

// reregMR serves REREG_MR. The request is struct ib_uverbs_rereg_mr.
func reregMR(c *call, req []byte) error {
	x := c.x
	m, err := lookup[*mr](c, "mr", le.Uint32(req[abi.ReregMRMRHandle:]), kindMR)
	if err != nil {
		return err
	}
	if m.dm != nil {
		return refuse(eINVAL, "memory region of device memory: it cannot be registered again")
	}
	what := le.Uint32(req[abi.ReregMRFlags:])
	if what == 0 || what&^uint32(control.ReregRange|control.ReregPD|control.ReregAccess) != 0 {
		return refuse(eINVAL, "flags %#x; bits 0 to 2 are known, and one is needed", what)
	}
	next := *m
	if what&control.ReregRange != 0 {
		next.addr, next.length = le.Uint64(req[abi.ReregMRStart:]), le.Uint64(req[abi.ReregMRLength:])
		next.iova = le.Uint64(req[abi.ReregMRHCAVA:])
	}
	if what&control.ReregAccess != 0 {
		next.access, next.onDemand, err = access(le.Uint32(req[abi.ReregMRAccessFlags:]))
		if err != nil {
			return err
		}
	}
	if what&control.ReregPD != 0 {
		next.pd, err = lookup[*pd](c, "pd", le.Uint32(req[abi.ReregMRPDHandle:]), kindPD)
		if err != nil {
			return err
		}
	}
	// As in the kernel, the region keeps its pages, whatever is at their address now.
	if what&control.ReregRange == 0 {
		return c.changeMR(m, &next, what)
	}
	held, err := c.payload(&next)
	if err != nil {
		return err
	}
	a, _, err := x.register(held, next.onDemand, control.OpReregMR,
		&control.ReregMR{Key: m.key, What: what, PDN: next.pd.number, Access: next.access, Addr: next.addr,
			Length: next.length, IOVA: next.iova})
	if err != nil {
		x.undoHolds(held)
		return err
	}
	x.removeOwn(m, m.extents)
	x.addOwn(&next, held)
	x.endHolds(m.extents)
	m.extents = held
	c.changedMR(m, &next, a)
	return nil
}

// changeMR changes the rights or the PD of m to those of next.
func (c *call) changeMR(m, next *mr, what uint32) error {
	if len(m.extents) == 0 && !m.onDemand && next.access&^m.access&control.AccessLocalWrite != 0 {
		if err := c.x.owner.allows(next, func(vma) {}); err != nil {
			return err
		}
	}
	next.onDemand = m.onDemand
	a, _, err := c.x.request(control.OpReregMR, &control.ReregMR{Key: m.key, What: what, PDN: next.pd.number,
		Access: next.access})
	if err != nil {
		return err
	}
	c.changedMR(m, next, a)
	return nil
}

// changedMR gives m the values of next, and answers the call.
func (c *call) changedMR(m, next *mr, a control.Message) {
	m.pd.users--
	next.pd.users++
	next.key = a.(*control.Key).Key
	*m = *next
	m.uses = []*object{m.pd.object}
	c.put32(abi.AttrCoreOut, m.key, m.key) // struct ib_uverbs_rereg_mr_resp: lkey, rkey
}

func queryMR(c *call) error {
	m := objectOf[*mr](c, abi.AttrQueryMRHandle)
	c.put32(abi.AttrQueryMRRespLKey, m.key)
	c.put32(abi.AttrQueryMRRespRKey, m.key)
	c.put64(abi.AttrQueryMRRespLength, m.length)
	c.put64(abi.AttrQueryMRRespIOVA, m.iova)
	return nil
}

// An mw is a memory window.
type mw struct {
	*object
	key uint32
}

// allocMW serves ALLOC_MW. The request is struct ib_uverbs_alloc_mw.
func allocMW(c *call, req []byte) error {
	x := c.x
	p, err := lookup[*pd](c, "pd", le.Uint32(req[abi.AllocMWPDHandle:]), kindPD)
	if err != nil {
		return err
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	a, _, err := x.request(control.OpAllocMW, &control.MW{PDN: p.number, Kind: req[abi.AllocMWMWType]})
	if err != nil {
		x.refundObject()
		return err
	}
	w := &mw{key: a.(*control.Key).Key}
	deregister := func() error { return x.command(control.OpDeregMR, &control.Key{Key: w.key}) }
	w.object = x.add(kindMW, w, deregister, nil, p.object)
	c.put32(abi.AttrCoreOut, w.handle, w.key) // struct ib_uverbs_alloc_mw_resp: handle, rkey
	return nil
}
