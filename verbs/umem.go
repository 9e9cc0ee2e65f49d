//go:build linux && (amd64 || arm64)

package verbs

import (
	"math/bits"

	"github.com/nicless/nicless/verbs/internal/abi"
)

// A umem is memory of the program that firmware commands name by its number, for the rings and doorbell
// records of queues (mlx5dv_devx_umem_reg). It is only pinned: it is in shared memory, where the engine finds
// it, and stays there as long as the umem or an object in it exists, also after the program has unmapped it.
type umem struct {
	*object
	id           uint32 // below 2^24, never 0
	addr, length uint64 // addr is the engine's address of the first byte
	extent       *extent
	x            *uctx
}

const (
	umemIDs = 1 << 24 // numbers of umems have 24 bits
	// The rights of a umem that the kernel knows. They are for the NIC's own access and have no meaning here:
	// the engine only uses a umem as the object asks for which it was made.
	umemAccess = abi.AccessLocalWrite | abi.AccessRemoteWrite | abi.AccessRemoteRead
)

func umemMethods() []*method {
	const object = abi.MLX5ObjectDEVXUmem
	return []*method{
		{object, abi.MLX5MethodDEVXUmemReg, "MLX5_DEVX_UMEM.REG", []field{
			{id: abi.MLX5AttrDEVXUmemRegHandle, name: "handle", shape: newHandle, kind: kindUMEM},
			{id: abi.MLX5AttrDEVXUmemRegAddr, name: "address", shape: in, min: 8, max: 8},
			{id: abi.MLX5AttrDEVXUmemRegLen, name: "length", shape: in, min: 8, max: 8},
			{id: abi.MLX5AttrDEVXUmemRegAccess, name: "access", shape: flagBits},
			{id: abi.MLX5AttrDEVXUmemRegPgszBitmap, name: "page_sizes", shape: constant, optional: true},
			{id: abi.MLX5AttrDEVXUmemRegDMABufFD, name: "dma_buf", shape: fd, optional: true},
			{id: abi.MLX5AttrDEVXUmemRegOutID, name: "id", shape: out, min: 4, max: 4},
		}, inDEVX(object, abi.MLX5MethodDEVXUmemReg, regUmem)},
		{object, abi.MLX5MethodDEVXUmemDereg, "MLX5_DEVX_UMEM.DEREG", []field{
			{id: abi.MLX5AttrDEVXUmemDeregHandle, name: "handle", shape: destroyedHandle, kind: kindUMEM},
		}, (*call).destroyOnly},
	}
}

// regUmem serves MLX5_DEVX_UMEM.REG.
func regUmem(c *call) error {
	addr, length := c.value(abi.MLX5AttrDEVXUmemRegAddr), c.value(abi.MLX5AttrDEVXUmemRegLen)
	if err := c.checkUmem(addr, length); err != nil {
		return err
	}
	if dmabuf := c.find(abi.MLX5AttrDEVXUmemRegDMABufFD); dmabuf != nil {
		return c.regUmemOfDMABuf(int32(dmabuf.data), addr, length)
	}
	e, err := c.holdParts(area{"umem", addr, length, 1})
	if err != nil {
		return err
	}
	return c.addUmem(addr, length, e, func() {})
}

// checkUmem checks the arguments of a umem as the kernel does (devx_umem_get).
func (c *call) checkUmem(addr, length uint64) error {
	flags := c.value(abi.MLX5AttrDEVXUmemRegAccess)
	switch {
	case flags&^umemAccess != 0:
		return refuse(eINVAL, "umem: access %#x; %#x are known", flags, umemAccess)
	case flags&abi.AccessRemoteWrite != 0 && flags&abi.AccessLocalWrite == 0:
		return refuse(eINVAL, "umem: access %#x: remote write needs local write", flags)
	case length == 0 || length > maxExtent:
		return refuse(eINVAL, "umem of %d bytes; 1 to %d are possible", length, uint64(maxExtent))
	case addr+length < addr:
		return refuse(eINVAL, "umem: %d bytes at %#x pass the end of the address space", length, addr)
	}
	sizes := c.find(abi.MLX5AttrDEVXUmemRegPgszBitmap)
	if sizes != nil && !pageSizePossible(sizes.data, addr, length) {
		return refuse(eINVAL, "umem of %d bytes at %#x: page sizes %#x; %d is possible, and larger ones of which address and length are multiples", length, addr, sizes.data, pageSize)
	}
	return nil
}

// pageSizePossible reports whether memory can be registered in pages of one of the sizes in a bitmap. As in
// the kernel, memory in larger pages than the system's has to begin and end with such a page.
func pageSizePossible(sizes, addr, length uint64) bool {
	if sizes&pageSize != 0 {
		return true
	}
	for larger := sizes &^ (pageSize - 1); larger != 0; larger &= larger - 1 {
		if page := uint64(1) << bits.TrailingZeros64(larger); (addr|length)%page == 0 {
			return true
		}
	}
	return false
}

// addUmem makes a umem. e is held for it. free is called when the umem is gone.
func (c *call) addUmem(addr, length uint64, e *extent, free func()) error {
	x := c.x
	u := &umem{addr: addr, length: length, extent: e, x: x}
	if err := x.chargeObject(); err != nil {
		x.undoHolds([]*extent{e})
		return err
	}
	for u.id == 0 || x.umems[u.id] != nil { // a user cannot have memory for 2^24 objects
		x.lastUMEM = (x.lastUMEM + 1) % umemIDs
		u.id = x.lastUMEM
	}
	x.umems[u.id] = u
	u.object = x.add(kindUMEM, u, func() error {
		delete(x.umems, u.id)
		free()
		return nil
	}, []*extent{e})
	c.putHandle(abi.MLX5AttrDEVXUmemRegHandle, u.object)
	c.put32(abi.MLX5AttrDEVXUmemRegOutID, u.id)
	return nil
}

// regUmemOfDMABuf makes a umem of the bytes at an offset of a dma-buf.
func (c *call) regUmemOfDMABuf(fd int32, offset, length uint64) error {
	x := c.x
	e, first, err := c.mapDMABuf(fd, offset, length)
	if err != nil {
		return err
	}
	defer e.m.endHold(e)
	slot, err := x.placeDMABuf(e)
	if err != nil {
		return err
	}
	addr := e.addr + offset - first
	e.m.hold(e)
	if err := x.addUse(e, addr, length); err != nil {
		return err
	}
	err = c.addUmem(addr, length, e, func() { delete(x.dmabufs, slot) })
	if err == nil {
		x.dmabufs[slot] = true
	}
	return err
}

// hold takes one more hold of the extent of the umem, for an object that uses it, and returns it in a list.
// uctx.endHolds ends this hold; add has it called when the object is destroyed.
func (u *umem) hold() []*extent {
	u.extent.m.hold(u.extent)
	u.x.regions[u.extent].users++
	return []*extent{u.extent}
}

// at returns the engine's address of the n bytes at an offset of the umem. The offset has to be a multiple of
// align. name is what they are for, for the error.
func (u *umem) at(off, n, align uint64, name string) (addr uint64, err error) {
	switch {
	case off%align != 0:
		return 0, refuse(eINVAL, "%s: offset %#x of umem %d; a multiple of %d is needed", name, off, u.id, align)
	case off >= u.length || n > u.length-off:
		return 0, refuse(eINVAL, "%s: %d bytes at offset %#x of umem %d, which has %d bytes", name, n, off, u.id, u.length)
	}
	addr = u.addr + off
	if addr%align != 0 {
		return 0, refuse(eINVAL, "%s: at %#x, offset %#x of umem %d; a multiple of %d is needed", name, addr, off, u.id, align)
	}
	return addr, u.x.hidden(u.extent, u.x.regions[u.extent], addr, n)
}
