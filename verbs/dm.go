//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A dm is device memory (ibv_alloc_dm): memory of the engine's that a program maps to copy
// bytes to and from it, and that work requests name by an offset.
type dm struct {
	*object
	index  int
	length uint64
	memory *extent  // its address is none of the process's, see dmSpace
	mapped *process // the process that has mapped it; nil: none
	at     uint64   // the address of that mapping
}

const (
	maxDM  = 1 << 20 // bytes of one piece of device memory
	maxDMs = 1 << 8  // pieces of one context: the offset of an mmap has 8 bits for the index

	// dmSpace is where the engine has the device memory of a context, among the addresses of
	// the program. No program has memory there.
	dmSpace    = 1 << 62
	dmDistance = 1 << 24
)

func deviceMemoryMethods() []*method {
	return []*method{
		{abi.ObjectDM, abi.MethodDMAlloc, "DM.ALLOC", []field{
			{id: abi.AttrAllocDMHandle, name: "handle", shape: newHandle, kind: kindDM},
			{id: abi.AttrAllocDMLength, name: "length", shape: in, min: 8, max: 8},
			{id: abi.AttrAllocDMAlignment, name: "alignment", shape: in, min: 4, max: 4},
			{id: abi.MLX5AttrAllocDMRespStartOffset, name: "start_offset", shape: out, min: 8, max: 8},
			{id: abi.MLX5AttrAllocDMRespPageIndex, name: "page_index", shape: out, min: 2, max: 2, optional: true},
			{id: abi.MLX5AttrAllocDMReqType, name: "type", shape: constant, optional: true},
		}, allocDM},
		{abi.ObjectDM, abi.MethodDMFree, "DM.FREE", []field{
			{id: abi.AttrFreeDMHandle, name: "handle", shape: destroyedHandle, kind: kindDM},
		}, (*call).destroyOnly},
		{abi.ObjectDM, abi.MLX5MethodDMQuery, "DM.MLX5_QUERY", []field{
			{id: abi.MLX5AttrQueryDMReqHandle, name: "handle", shape: handle, kind: kindDM},
			{id: abi.MLX5AttrQueryDMRespStartOffset, name: "start_offset", shape: out, min: 8, max: 8},
			{id: abi.MLX5AttrQueryDMRespPageIndex, name: "page_index", shape: out, min: 2, max: 2},
			{id: abi.MLX5AttrQueryDMRespLength, name: "length", shape: out, min: 8, max: 8},
		}, queryDM},
		{abi.ObjectDM, abi.MLX5MethodDMMapOpAddr, "DM.MLX5_MAP_OP_ADDR", []field{
			{id: abi.MLX5AttrDMMapOpAddrReqHandle, name: "handle", shape: handle, kind: kindDM},
			{id: abi.MLX5AttrDMMapOpAddrReqOp, name: "operation", shape: in, min: 1, max: 1},
			{id: abi.MLX5AttrDMMapOpAddrRespStartOffset, name: "start_offset", shape: out, min: 8, max: 8},
			{id: abi.MLX5AttrDMMapOpAddrRespPageIndex, name: "page_index", shape: out, min: 2, max: 2},
		}, mapOpAddr},
		{abi.ObjectMR, abi.MethodDMMRReg, "MR.REG_DM", []field{
			{id: abi.AttrRegDMMRHandle, name: "handle", shape: newHandle, kind: kindMR},
			{id: abi.AttrRegDMMROffset, name: "offset", shape: in, min: 8, max: 8},
			{id: abi.AttrRegDMMRLength, name: "length", shape: in, min: 8, max: 8},
			{id: abi.AttrRegDMMRPDHandle, name: "pd", shape: handle, kind: kindPD},
			{id: abi.AttrRegDMMRAccessFlags, name: "access", shape: flagBits},
			{id: abi.AttrRegDMMRDMHandle, name: "dm", shape: handle, kind: kindDM},
			{id: abi.AttrRegDMMRRespLKey, name: "lkey", shape: out, min: 4, max: 4},
			{id: abi.AttrRegDMMRRespRKey, name: "rkey", shape: out, min: 4, max: 4},
		}, regDM},
	}
}

// allocDM serves DM.ALLOC. The memory begins at the start of a page, so it has every alignment
// that is possible.
func allocDM(c *call) error {
	x := c.x
	length, align := c.value(abi.AttrAllocDMLength), c.value32(abi.AttrAllocDMAlignment)
	t := c.value(abi.MLX5AttrAllocDMReqType)
	switch {
	case t != abi.MLX5DMTypeMemIC:
		return refuse(eOPNOTSUPP, "device memory of type %d: there is no memory for steering rules", t)
	case length == 0 || length > maxDM:
		return refuse(eINVAL, "device memory of %d bytes; 1 to %d are possible", length, maxDM)
	case align > pageShift:
		return refuse(eINVAL, "device memory: alignment 2^%d; at most 2^%d is possible", align, pageShift)
	}
	d := &dm{length: length}
	for x.dms[d.index] != nil {
		d.index++
	}
	if d.index >= maxDMs {
		return refuse(eNOMEM, "device memory: a context has at most %d pieces", maxDMs)
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	e, err := c.p.memory.make("dm", dmSpace+uint64(d.index)*dmDistance, (length+pageSize-1)&^(pageSize-1))
	if err != nil {
		x.refundObject()
		return err
	}
	e.holders = 1
	d.memory = e
	d.object = x.add(kindDM, d, func() error {
		delete(x.dms, d.index)
		e.m.endHold(e)
		return nil
	}, nil)
	x.dms[d.index] = d
	c.putHandle(abi.AttrAllocDMHandle, d.object)
	c.put64(abi.MLX5AttrAllocDMRespStartOffset, 0)
	c.put(abi.MLX5AttrAllocDMRespPageIndex, le.AppendUint16(nil, uint16(d.index)))
	return nil
}

func queryDM(c *call) error {
	d := objectOf[*dm](c, abi.MLX5AttrQueryDMReqHandle)
	c.put64(abi.MLX5AttrQueryDMRespStartOffset, 0)
	c.put(abi.MLX5AttrQueryDMRespPageIndex, le.AppendUint16(nil, uint16(d.index)))
	c.put64(abi.MLX5AttrQueryDMRespLength, d.length)
	return nil
}

// mapOpAddr refuses addresses whose loads and stores are atomic operations. The processor
// makes them without the device.
func mapOpAddr(c *call) error {
	return refuse(eOPNOTSUPP, "device memory: atomic operations by load and store (%d) are not possible", c.value(abi.MLX5AttrDMMapOpAddrReqOp))
}

// mapDM answers an mmap of device memory. Because the memory is sealed after it was mapped for
// the first time, the shim makes a second mapping, for ibv_import_dm, as a copy of the first.
func (x *uctx) mapDM(p *process, m mapRequest) (file *os.File, at mappedAnswer, err error) {
	d := x.dms[int(m.offset>>pageShift&(maxDMs-1))]
	switch {
	case d == nil || m.length != d.memory.size:
		return nil, at, refuse(eINVAL, "mmap: %d bytes at offset %#x are no device memory of this context", m.length, m.offset)
	case !d.memory.mem.Sealed():
		d.mapped, d.at = p, m.addr
		return d.memory.mem.File(), at, nil
	case d.mapped != p:
		return nil, at, refuse(eINVAL, "mmap: device memory %d has been mapped by %s; only that process can map it again", d.handle, d.mapped.name)
	}
	return nil, mappedAnswer{offset: d.at}, nil
}

// regDM serves MR.REG_DM. Addresses in work requests are offsets.
func regDM(c *call) error {
	x := c.x
	d, domain := objectOf[*dm](c, abi.AttrRegDMMRDMHandle), objectOf[*pd](c, abi.AttrRegDMMRPDHandle)
	offset, length := c.value(abi.AttrRegDMMROffset), c.value(abi.AttrRegDMMRLength)
	rights, onDemand, err := access(c.value32(abi.AttrRegDMMRAccessFlags))
	switch {
	case err != nil:
		return err
	case onDemand:
		return refuse(eINVAL, "device memory is not paged on demand")
	case rights&control.AccessZeroBased == 0:
		return refuse(eINVAL, "access %#x: device memory needs zero-based addresses", rights)
	case offset > d.length || length > d.length-offset:
		return refuse(eINVAL, "%d bytes at offset %d of device memory of %d bytes", length, offset, d.length)
	case !d.memory.mem.Sealed():
		return refuse(eFAULT, "device memory %d: %s", d.handle, unsealed)
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	m := &mr{length: length, access: rights, pd: domain, dm: d}
	held, err := d.register(x, m, offset)
	if err != nil {
		x.refundObject()
		return err
	}
	deregister := func() error { return x.command(control.OpDeregMR, &control.Key{Key: m.key}) }
	m.object = x.add(kindMR, m, deregister, held, domain.object, d.object)
	c.putHandle(abi.AttrRegDMMRHandle, m.object)
	c.put32(abi.AttrRegDMMRRespLKey, m.key)
	c.put32(abi.AttrRegDMMRRespRKey, m.key)
	return nil
}

// register makes the key of m, and returns what m holds. The engine registers no memory of 0
// bytes, which hardware does; the key of such memory is that of an empty list.
func (d *dm) register(x *uctx, m *mr, offset uint64) ([]*extent, error) {
	if m.length == 0 {
		a, _, err := x.request(control.OpCreateMkey, &control.Mkey{PDN: m.pd.number, Entries: 1})
		if err == nil {
			m.key = a.(*control.Key).Key
		}
		return nil, err
	}
	e := d.memory
	x.s.engine.CloseMemoryFile(e.m.uid, e.mem)
	e.m.hold(e)
	if err := x.addUse(e, e.addr+offset, m.length); err != nil {
		return nil, err
	}
	a, _, err := x.request(control.OpRegMR, &control.MR{PDN: m.pd.number, Access: m.access, Addr: e.addr +
		offset, Length: m.length})
	if err != nil {
		x.undoHolds([]*extent{e})
		return nil, err
	}
	m.key = a.(*control.Key).Key
	return []*extent{e}, nil
}
