package verbs

import (
	"strings"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
)

// An mr is registered memory. Where it lies in memory that we share it is mapped;
// otherwise it stays where it is, in the process.
type mr struct {
	*object
	key          uint32
	length, iova uint64
	access       uint32
	addr         uint64
	pd           *pd
}

// Rights beyond those of the device.
const (
	accessOnDemand = 1 << 6
	accessHugeTLB  = 1 << 7
	accessOptional = 0x3ff00000 // may be left out, such as relaxed ordering
)

// access returns the device's rights of those that a program asks for.
func access(flags uint32) (uint32, error) {
	flags &^= accessOptional | accessHugeTLB
	switch {
	case flags&accessOnDemand != 0:
		return 0, refuse(eOPNOTSUPP, "access %#x: memory on demand is not possible", flags)
	case flags&^control.AccessAll != 0:
		return 0, refuse(eINVAL, "access %#x; %#x are known", flags, control.AccessAll)
	case flags&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 && flags&control.AccessLocalWrite == 0:
		return 0, refuse(eINVAL, "access %#x: remote write and atomic need local write", flags)
	}
	return flags, nil
}

// regMR: response u64, start u64, length u64, hca_va u64, pd u32, access u32.
func regMR(c *call, req []byte) error {
	x := c.x
	m := &mr{addr: le.Uint64(req[8:]), length: le.Uint64(req[16:]), iova: le.Uint64(req[24:])}
	var err error
	if m.access, err = access(le.Uint32(req[36:])); err != nil {
		return err
	}
	if m.pd, err = lookup[*pd](c, "pd", le.Uint32(req[32:]), kindPD); err != nil {
		return err
	}
	held, err := c.payload(m.addr, m.length, m.iova, m.access)
	if err != nil {
		return err
	}
	if err := x.may(); err != nil {
		x.putBack(held)
		return err
	}
	a, _, err := x.askWith(control.OpRegMR, &control.MR{PDN: m.pd.number, Access: m.access, Addr: m.addr, Length: m.length, IOVA: m.iova}, away(held))
	if err != nil {
		x.putBack(held)
		x.mayNot()
		return err
	}
	m.key = a.(*control.Key).Key
	m.object = x.add(kindMR, m, func() error { return x.tell(control.OpDeregMR, &control.Key{Key: m.key}) }, held, m.pd.object)
	c.put32(1, m.handle, m.key, m.key)
	return nil
}

// payload judges memory that is to be registered, and returns what of ours it
// lies in: one extent, or none, and then it is the process' own.
func (c *call) payload(addr, length, iova uint64, access uint32) ([]*extent, error) {
	switch {
	case length == 0 || length > maxExtent:
		return nil, refuse(eINVAL, "memory region of %d bytes; 1 to %d are possible", length, uint64(maxExtent))
	case addr+length < addr:
		return nil, refuse(eFAULT, "memory region: %d bytes at %#x pass the end of the address space", length, addr)
	case access&control.AccessZeroBased == 0 && addr%pageSize != iova%pageSize:
		return nil, refuse(eINVAL, "memory region at %#x with iova %#x; both must have one offset in their page", addr, iova)
	}
	a := area{"memory region", addr, length, 1}
	if err := c.settle(a); err == nil {
		// Where an older region is in the way, the kernel can copy that memory too.
		e, err := c.p.memory.find(addr, length)
		if err != nil {
			return nil, refuse(eFAULT, "memory region: %v", err)
		}
		if e != nil && c.x.hold(e) == nil {
			return []*extent{e}, nil
		}
	}
	if c.p.memory.maps == nil {
		return nil, refuse(eFAULT, "memory region: %d bytes at %#x are not in shared memory, and those of %s cannot be read by this server",
			length, addr, c.p.name)
	}
	need := "r"
	if access&(control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 {
		need = "rw"
	}
	moves := true
	err := c.p.memory.maps.over(addr, length, func(v vma) error {
		if !strings.HasPrefix(v.perms, need) {
			return refuse(eFAULT, "memory region: %d bytes at %#x: %s is needed, and the memory at %#x is %s", length, addr, need, v.start, v.perms)
		}
		moves = moves && remappable(v) == nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.p.fast && moves && c.remapsPayload(a) {
		if err := c.want(a); err == nil {
			return nil, errAgain
		}
	}
	return nil, c.x.shareProcess(c.p)
}

// away says which memory is meant by what payload has found.
func away(held []*extent) engine.Memory { return engine.Memory{InProcess: len(held) == 0} }

// remapsPayload reports whether memory may be put into shared memory that the
// shim was not asked for yet: it may say no.
func (c *call) remapsPayload(a area) bool {
	lo, size := a.pages()
	if c.p.memory.taken(lo, size) != nil {
		return false
	}
	for _, r := range c.results {
		if r.kind == needRemap && r.addr == lo {
			return false
		}
	}
	return true
}

// reregMR: response u64, handle u32, flags u32, start u64, length u64, hca_va u64,
// pd u32, access u32.
func reregMR(c *call, req []byte) error {
	x := c.x
	m, err := lookup[*mr](c, "mr", le.Uint32(req[8:]), kindMR)
	if err != nil {
		return err
	}
	what := le.Uint32(req[12:])
	if what == 0 || what&^uint32(control.ReregRange|control.ReregPD|control.ReregAccess) != 0 {
		return refuse(eINVAL, "flags %#x; bits 0 to 2 are known, and one is needed", what)
	}
	next := *m
	if what&control.ReregRange != 0 {
		next.addr, next.length, next.iova = le.Uint64(req[16:]), le.Uint64(req[24:]), le.Uint64(req[32:])
	}
	if what&control.ReregAccess != 0 {
		if next.access, err = access(le.Uint32(req[44:])); err != nil {
			return err
		}
	}
	if what&control.ReregPD != 0 {
		if next.pd, err = lookup[*pd](c, "pd", le.Uint32(req[40:]), kindPD); err != nil {
			return err
		}
	}
	held, err := c.payload(next.addr, next.length, next.iova, next.access)
	if err != nil {
		return err
	}
	a, _, err := x.askWith(control.OpReregMR, &control.ReregMR{Key: m.key, What: what, PDN: next.pd.number, Access: next.access,
		Addr: next.addr, Length: next.length, IOVA: next.iova}, away(held))
	if err != nil {
		x.putBack(held)
		return err
	}
	x.release(m.extents)
	m.pd.users--
	next.pd.users++
	next.key = a.(*control.Key).Key
	*m = next
	m.extents, m.uses = held, []*object{m.pd.object}
	c.put32(1, m.key, m.key)
	return nil
}

func queryMR(c *call) error {
	m := objectOf[*mr](c, 0)
	c.put32(1, m.key)
	c.put32(2, m.key)
	c.put64(3, m.length)
	c.put64(4, m.iova)
	return nil
}

// An mw is a memory window.
type mw struct {
	*object
	key uint32
}

// allocMW: response u64, pd u32, type u8.
func allocMW(c *call, req []byte) error {
	x := c.x
	p, err := lookup[*pd](c, "pd", le.Uint32(req[8:]), kindPD)
	if err != nil {
		return err
	}
	if err := x.may(); err != nil {
		return err
	}
	a, _, err := x.ask(control.OpAllocMW, &control.MW{PDN: p.number, Kind: req[12]})
	if err != nil {
		x.mayNot()
		return err
	}
	w := &mw{key: a.(*control.Key).Key}
	w.object = x.add(kindMW, w, func() error { return x.tell(control.OpDeregMR, &control.Key{Key: w.key}) }, nil, p.object)
	c.put32(1, w.handle, w.key)
	return nil
}
