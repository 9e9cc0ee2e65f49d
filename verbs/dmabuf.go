//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// Memory regions of dma-bufs (ibv_reg_dmabuf_mr). A driver maps a dma-buf for its device; this
// server maps it as a program does, by mmap. So the dma-bufs that can be registered are those
// whose driver offers mmap, such as udmabuf's. In place of a dma-buf a program may pass a memfd
// under udmabuf's conditions: with the seal F_SEAL_SHRINK, without F_SEAL_WRITE. Tests and
// emulated accelerators use that where the kernel has no udmabuf.
//
// The memory need not be mapped in the program. The engine has it at an address that no program
// has, as with device memory.

const (
	dmabufSpace    = 1 << 61 // where the engine has such memory
	dmabufDistance = 2 * maxExtent
	maxDMABufs     = 1 << 12 // such regions and umems of one context
)

func dmabufMethods() []*method {
	return []*method{
		{abi.ObjectMR, abi.MethodRegDMABufMR, "MR.REG_DMABUF", []field{
			{id: abi.AttrRegDMABufMRHandle, name: "handle", shape: newHandle, kind: kindMR},
			{id: abi.AttrRegDMABufMRPDHandle, name: "pd", shape: handle, kind: kindPD},
			{id: abi.AttrRegDMABufMROffset, name: "offset", shape: in, min: 8, max: 8},
			{id: abi.AttrRegDMABufMRLength, name: "length", shape: in, min: 8, max: 8},
			{id: abi.AttrRegDMABufMRIOVA, name: "iova", shape: in, min: 8, max: 8},
			{id: abi.AttrRegDMABufMRFD, name: "fd", shape: in, min: 4, max: 4},
			{id: abi.AttrRegDMABufMRAccessFlags, name: "access", shape: flagBits},
			{id: abi.AttrRegDMABufMRRespLKey, name: "lkey", shape: out, min: 4, max: 4},
			{id: abi.AttrRegDMABufMRRespRKey, name: "rkey", shape: out, min: 4, max: 4},
		}, regDMABuf},
	}
}

// dmabufAccess are the rights that the kernel knows for dma-bufs.
const dmabufAccess = control.AccessLocalWrite | control.AccessRemoteWrite | control.AccessRemoteRead |
	control.AccessRemoteAtomic

// regDMABuf serves MR.REG_DMABUF.
func regDMABuf(c *call) error {
	m := &mr{length: c.value(abi.AttrRegDMABufMRLength), iova: c.value(abi.AttrRegDMABufMRIOVA),
		pd: objectOf[*pd](c, abi.AttrRegDMABufMRPDHandle)}
	err := c.addDMABuf(m, int32(c.value32(abi.AttrRegDMABufMRFD)), c.value(abi.AttrRegDMABufMROffset),
		c.value(abi.AttrRegDMABufMRAccessFlags))
	if err != nil {
		return err
	}
	c.putHandle(abi.AttrRegDMABufMRHandle, m.object)
	c.put32(abi.AttrRegDMABufMRRespLKey, m.key)
	c.put32(abi.AttrRegDMABufMRRespRKey, m.key)
	return nil
}

// addDMABuf registers the bytes from offset on of a dma-buf as m, of which the length, the iova and the PD
// are set.
func (c *call) addDMABuf(m *mr, fd int32, offset, flags uint64) error {
	x := c.x
	if unknown := flags &^ uint64(dmabufAccess|abi.AccessOptionalRange); unknown != 0 {
		return refuse(eINVAL, "dma-buf: access %#x; %#x are known", flags, uint32(dmabufAccess))
	}
	var err error
	m.access, _, err = access(uint32(flags))
	switch {
	case err != nil:
		return err
	case offset%pageSize != m.iova%pageSize:
		return refuse(eINVAL, "dma-buf: offset %#x with iova %#x; both must have the same offset in their page", offset, m.iova)
	case offset+m.length < offset:
		return refuse(eINVAL, "dma-buf: %d bytes at offset %#x pass 2^64", m.length, offset)
	}
	e, first, err := c.mapDMABuf(fd, offset, m.length)
	if err != nil {
		return err
	}
	defer e.m.endHold(e)
	slot, err := x.placeDMABuf(e)
	if err != nil {
		return err
	}
	m.addr = e.addr + offset - first
	if err := x.chargeObject(); err != nil {
		return err
	}
	e.m.hold(e)
	if err := x.registerDMABuf(m, e); err != nil {
		x.refundObject()
		return err
	}
	x.dmabufs[slot] = true
	m.object = x.add(kindMR, m, func() error {
		err := x.dereg(m)
		if err == nil {
			delete(x.dmabufs, slot)
		}
		return err
	}, []*extent{e}, m.pd.object)
	return nil
}

// placeDMABuf gives an extent of mapDMABuf an address in the engine, and returns which: the caller adds it to
// dmabufs.
func (x *uctx) placeDMABuf(e *extent) (slot int, err error) {
	for x.dmabufs[slot] {
		slot++
	}
	if slot >= maxDMABufs {
		return 0, refuse(eNOMEM, "dma-buf: a context has at most %d regions and umems of dma-bufs", maxDMABufs)
	}
	e.addr = dmabufSpace + uint64(slot)*dmabufDistance
	return slot, nil
}

// registerDMABuf makes the key of m. It uses up one hold of e, for the key or because it fails.
func (x *uctx) registerDMABuf(m *mr, e *extent) error {
	if err := x.addUse(e, m.addr, m.length); err != nil {
		return err
	}
	a, _, err := x.request(control.OpRegMR, &control.MR{PDN: m.pd.number, Access: m.access, Addr: m.addr,
		Length: m.length, IOVA: m.iova})
	if err != nil {
		x.undoHolds([]*extent{e})
		return err
	}
	m.key = a.(*control.Key).Key
	return nil
}

// emulatedGPU is the name of the library that a program with an emulated GPU has loaded (module cuda).
const emulatedGPU = "libnicless_gpu.so"

// mapDMABuf maps the pages of length bytes at an offset of the program's dma-buf fd, and returns
// at which offset they begin. The caller has to let go of the extent, which has no address yet.
func (c *call) mapDMABuf(fd int32, offset, length uint64) (e *extent, first uint64, err error) {
	if fd == -1 {
		// NCCL, NVSHMEM and UCX ask so whether they can register memory of a GPU. EBADF means yes: memory of
		// an emulated GPU is in files, which can be mapped.
		if c.p.memory.maps.has(emulatedGPU) {
			return nil, 0, refuse(eBADF, "dma-buf: descriptor -1, by which libraries ask whether memory of a GPU can be registered: yes, because the GPU is emulated")
		}
		return nil, 0, refuse(eOPNOTSUPP, "dma-buf: descriptor -1, by which libraries ask whether memory of a GPU can be registered: no, because its pages cannot be mapped")
	}
	f, err := c.fileNumber(fd)
	if err != nil {
		return nil, 0, err
	}
	size, page, err := c.sizeOfDMABuf(f, fd)
	switch {
	case err != nil:
		return nil, 0, err
	case size%pageSize != 0:
		return nil, 0, refuse(eINVAL, "descriptor %d: %d bytes; a multiple of %d is needed", fd, size, pageSize)
	case length == 0 || length > maxExtent:
		return nil, 0, refuse(eINVAL, "dma-buf: region of %d bytes; 1 to %d are possible", length, uint64(maxExtent))
	case offset+length > size:
		return nil, 0, refuse(eINVAL, "dma-buf: %d bytes at offset %d; descriptor %d has %d bytes", length, offset, fd, size)
	}
	if page == 0 { // some drivers (drm_gem_shmem_fault) map the first pages, whichever are asked for
		page = pageSize
	} else {
		first = offset &^ (page - 1)
	}
	whole := min((offset+length-first+page-1)&^(page-1), size-first)
	if whole > maxExtent {
		return nil, 0, refuse(eINVAL, "dma-buf: region in %d bytes of pages of %d; at most %d are possible", whole, page, uint64(maxExtent))
	}
	// The process need not be of the user whose context it is: another one can have sent the context.
	mem, err := c.x.s.engine.MapMemory(c.p.uid, f, int64(first), int(whole))
	var errno unix.Errno
	switch {
	case errors.As(err, &errno) && errno == unix.ENOMEM:
		return nil, 0, refuse(eNOMEM, "dma-buf: %d bytes of descriptor %d cannot be mapped: %v", whole, fd, err)
	case errors.As(err, &errno):
		return nil, 0, refuse(eOPNOTSUPP, "dma-buf: descriptor %d cannot be mapped for reading and writing (mmap: %v); memory of a GPU often cannot, "+
			"and this device needs it", fd, err)
	case err != nil:
		return nil, 0, err
	}
	return &extent{size: whole, mem: mem, holders: 1, payload: true, m: c.p.memory}, first, nil
}

// dmabufMagic is the type of the file system of dma-bufs (DMA_BUF_MAGIC of linux/magic.h).
const dmabufMagic = 0x444d4142

// sizeOfDMABuf returns the size of a dma-buf, or of a memfd that may stand for one, and the size of
// its pages: of a memfd in huge pages (MFD_HUGETLB) only whole ones can be mapped, and unmapped. For a
// dma-buf, page is 0: it is mapped from its beginning on. The seals are read first, because that asks
// no file system.
func (c *call) sizeOfDMABuf(f nic.File, fd int32) (size, page uint64, err error) {
	var seals int
	if unixsock.Control(f, func(fd int) (err error) {
		seals, err = unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		return err
	}) == nil {
		switch {
		case seals&unix.F_SEAL_SHRINK == 0:
			return 0, 0, refuse(eINVAL, "descriptor %d is a memfd or file without the seal F_SEAL_SHRINK, which a memfd needs to stand for a dma-buf", fd)
		case seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0:
			return 0, 0, refuse(eINVAL, "descriptor %d is a memfd that is sealed against writing (seals %#x)", fd, seals)
		}
		var st unix.Stat_t
		err := unixsock.Control(f, func(fd int) error { return unix.Fstat(fd, &st) })
		return uint64(st.Size), max(pageSize, uint64(st.Blksize)), err
	}
	var fs unix.Statfs_t
	errs := make(chan error, 1)
	// A file system of the program's can take as long as it likes to answer.
	if !c.x.s.engine.Aside(c.p.uid, func() {
		errs <- unixsock.Control(f, func(fd int) error { return unix.Fstatfs(fd, &fs) })
	}) {
		return 0, 0, refuse(eAGAIN, "descriptor %d: its file system does not answer", fd)
	}
	if err := <-errs; err != nil || fs.Type != dmabufMagic {
		return 0, 0, refuse(eINVAL, "descriptor %d is no dma-buf (nor a memfd)", fd)
	}
	var end int64
	err = unixsock.Control(f, func(fd int) error {
		end, err = unix.Seek(fd, 0, unix.SEEK_END) // of a dma-buf, which has no position
		return err
	})
	return uint64(end), 0, err
}
