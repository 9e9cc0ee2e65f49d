package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/shm"
)

// A uar is a page of doorbell registers.
type uar struct {
	*object
	page int
}

// A bank is pages of registers of one process. Their memory is mapped all at once
// and then sealed, after which nobody can map it for writing: another process that
// uses the context has a bank of its own.
type bank struct {
	owner *process
	first int // number of its first page
	mem   *shm.Region
	users []int // handles of each page
}

// uarPages is how many pages of registers the first process of a context has, and
// morePages each other one. Queues share them when there are more.
const (
	uarPages  = 64
	morePages = 16
	maxBanks  = 16
)

// bankOf returns the bank of a process, which is made when it is first needed.
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

// allocUAR never refuses for want of pages: libmlx5 does not survive that. The
// page that the fewest have is handed out once more.
func allocUAR(c *call) error {
	x := c.x
	if t := c.value(0x1001); t > 1 {
		return refuse(eINVAL, "type %d; 0 and 1 are possible", t)
	}
	if err := x.may(); err != nil {
		return err
	}
	b, err := x.bankOf(c.p)
	if err != nil {
		x.mayNot()
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
	c.putHandle(0x1000, u.object)
	c.put64(0x1002, uint64(uarOffset+u.page*pageSize))
	c.put32(0x1003, pageSize)
	c.put32(0x1004, uint32(u.page))
	return nil
}

// uarOf returns the bank of a page, and which page of it that is; nil if the
// context has not allocated it.
func (x *uctx) uarOf(page uint64) (*bank, int) {
	for _, b := range x.banks {
		if i := page - uint64(b.first); page >= uint64(b.first) && i < uint64(len(b.users)) && b.users[i] > 0 {
			return b, int(i)
		}
	}
	return nil, 0
}

// mapUAR returns where a page lies that the context has, and the memory unless the
// process has mapped that before.
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

// uarPage judges the page that a queue names.
func (x *uctx) uarPage(id uint32) (uint16, error) {
	b, _ := x.uarOf(uint64(id))
	switch {
	case b == nil:
		return 0, refuse(eINVAL, "UAR page %d: this context has not allocated it", id)
	case !b.mem.Sealed():
		return 0, refuse(eFAULT, "UAR page %d: %s", id, unsealed)
	case b.first == 0:
		x.client.ForgetPages()
	default:
		x.s.engine.ForgetMemory(x.uid, b.mem)
	}
	return uint16(id), nil
}

// endUARs tells the processes that the context has ended, so that they unmap its
// registers.
func (x *uctx) endUARs() {
	for _, b := range x.banks {
		if b.mem.Sealed() {
			shm.Word64At(b.mem.Bytes(), registersGone).Publish(1)
		}
	}
}
