//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A uar is a UAR page: a page of doorbell registers.
type uar struct {
	*object
	page int
}

// A bank is the UAR pages of one process in one context. Its memory is mapped as a whole
// and then sealed, after which no process can map it for writing. So another process that
// uses the context gets a bank of its own.
type bank struct {
	owner *process
	first int // number of its first page
	mem   *shm.Region
	users []int // number of UAR objects of each page
}

// uarPages is the number of UAR pages that the first process of a context has, and morePages
// is the number that each other process has. UAR objects share pages if there are more
// objects than pages.
const (
	uarPages  = 64
	morePages = 16
	maxBanks  = 16
)

// bankOf returns the bank of a process, and makes it when it is first needed.
func (x *uctx) bankOf(p *process) (*bank, error) {
	for _, b := range x.banks {
		if b.owner == p {
			return b, nil
		}
	}
	if len(x.banks) == 0 {
		return x.addBank(p, 0, x.uar, uarPages), nil
	}
	if len(x.banks) == maxBanks {
		return nil, refuse(eNOMEM, "UAR pages: %d processes have had some of this context, which is its limit", maxBanks)
	}
	first, mem, err := x.client.AddRegisters(morePages)
	if err != nil {
		return nil, err
	}
	return x.addBank(p, first, mem, morePages), nil
}

func (x *uctx) addBank(p *process, first int, mem *shm.Region, pages int) *bank {
	b := &bank{owner: p, first: first, mem: mem, users: make([]int, pages)}
	x.banks = append(x.banks, b)
	return b
}

// allocUAR answers with the UAR page that has the fewest users. It does not refuse when all
// pages have users, because libmlx5 would crash.
func allocUAR(c *call) error {
	x := c.x
	if t := c.value(abi.MLX5AttrUARObjAllocType); t != abi.MLX5UARAllocTypeBF && t != abi.MLX5UARAllocTypeNC {
		return refuse(eINVAL, "type %d; 0 and 1 are possible", t)
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	b, err := x.bankOf(c.p)
	if err != nil {
		x.refundObject()
		return err
	}
	least := 0
	for i, n := range b.users {
		if n < b.users[least] {
			least = i
		}
	}
	b.users[least]++
	u := &uar{page: b.first + least}
	u.object = x.add(kindUAR, u, func() error { b.users[least]--; return nil }, nil)
	c.putHandle(abi.MLX5AttrUARObjAllocHandle, u.object)
	c.put64(abi.MLX5AttrUARObjAllocMmapOffset, uint64(uarOffset+u.page*pageSize))
	c.put32(abi.MLX5AttrUARObjAllocMmapLength, pageSize)
	c.put32(abi.MLX5AttrUARObjAllocPageID, uint32(u.page))
	return nil
}

// uarOf returns the bank of a page, and the page's index in it. The bank is nil if the
// context has not allocated that page.
func (x *uctx) uarOf(page uint64) (*bank, int) {
	for _, b := range x.banks {
		if i := page - uint64(b.first); page >= uint64(b.first) && i < uint64(len(b.users)) &&
			b.users[i] > 0 {
			return b, int(i)
		}
	}
	return nil, 0
}

// mapUAR answers an mmap of a UAR page. at says where the page is in its bank. file is the
// bank's memory, nil if the process has mapped the bank already.
func (x *uctx) mapUAR(p *process, m mapRequest) (file *os.File, at mappedAnswer, err error) {
	b, i := x.uarOf((m.offset - uarOffset) / pageSize)
	switch {
	case b == nil || m.length != pageSize:
		return nil, at, refuse(eINVAL, "mmap: %d bytes at offset %#x are no UAR page of this context", m.length, m.offset)
	case b.owner != p:
		return nil, at, refuse(eINVAL, "mmap: UAR page %d was allocated by %s; a process maps only its own", b.first+i, b.owner.name)
	case !b.mem.Sealed():
		file = b.mem.File()
	}
	return file, mappedAnswer{uint64(i) * pageSize, uint64(b.mem.Size())}, nil
}

// unmapped says why a UAR page that was allocated has perhaps not been mapped.
const unmapped = "Perhaps code in the program makes the system call mmap itself, and not by a function of the C library, so that it passes the preloaded library by"

// uarPage checks the UAR page that a queue names.
func (x *uctx) uarPage(id uint32) (uint16, error) {
	b, _ := x.uarOf(uint64(id))
	switch {
	case b == nil:
		return 0, refuse(eINVAL, "UAR page %d: this context has not allocated it", id)
	case !b.mem.Sealed():
		return 0, refuse(eFAULT, "UAR page %d: %s. %s", id, unsealed, unmapped)
	case b.first == 0:
		x.client.ClosePageFiles()
	default:
		x.s.engine.CloseMemoryFile(x.uid, b.mem)
	}
	return uint16(id), nil
}

// endUARs marks the banks as ended. The shim in each process then unmaps them.
func (x *uctx) endUARs() {
	for _, b := range x.banks {
		if b.mem.Sealed() {
			shm.Word64At(b.mem.Bytes(), registersGone).Publish(1)
		}
	}
}
