//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nicless/nicless/field/devx"
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
	plain []int // of these, those of type NC
}

// uarPages is the number of UAR pages that the first process of a context has, and morePages is the number
// that each other process has. UAR objects share pages if there are more objects than pages.
const (
	uarPages  = 64
	morePages = 16
	maxBanks  = 16
)

// firstUAR is the number by which libraries and firmware commands name the context's page 0. Hardware
// gives nobody the page of number 0, and rdma-core's own tests take a 0 as a failure.
const firstUAR = 1

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
	b := &bank{owner: p, first: first, mem: mem, users: make([]int, pages), plain: make([]int, pages)}
	x.banks = append(x.banks, b)
	return b
}

// allocUAR answers with the UAR page that has the fewest users. It does not refuse when all pages have
// users, because for most queues a register is a hint, and libmlx5 would crash. But a page with a queue
// pair that its register alone starts is given to nobody else, who would overwrite what that queue pair
// has rung.
func allocUAR(c *call) error {
	x := c.x
	t := uint32(c.value(abi.MLX5AttrUARObjAllocType))
	if t != abi.MLX5UARAllocTypeBF && t != abi.MLX5UARAllocTypeNC {
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
	least := b.leastUsed(x.ofRegistersOnly())
	if least < 0 {
		x.refundObject()
		return refuse(eNOMEM, "UAR pages: all %d of this process in this context have queue pairs without records, with which no other UAR can share a page", len(b.users))
	}
	b.users[least]++
	plain := 0
	if t == abi.MLX5UARAllocTypeNC {
		plain = 1
	}
	b.plain[least] += plain
	u := &uar{page: b.first + least}
	u.object = x.add(kindUAR, u, func() error {
		b.users[least]--
		b.plain[least] -= plain
		return nil
	}, nil)
	c.putHandle(abi.MLX5AttrUARObjAllocHandle, u.object)
	c.put64(abi.MLX5AttrUARObjAllocMmapOffset, uint64(uarOffset+u.page*pageSize))
	c.put32(abi.MLX5AttrUARObjAllocMmapLength, pageSize)
	c.put32(abi.MLX5AttrUARObjAllocPageID, uint32(u.page+firstUAR))
	return nil
}

// leastUsed returns the index of the page that has the fewest users, of those that are not in not; -1 if
// there is no such page.
func (b *bank) leastUsed(not map[uint16]bool) int {
	least := -1
	for i, n := range b.users {
		if (least < 0 || n < b.users[least]) && !not[uint16(b.first+i)] {
			least = i
		}
	}
	return least
}

// ofRegistersOnly returns the UAR pages that have queue pairs which registers alone start, also pages
// whose UAR has been freed.
func (x *uctx) ofRegistersOnly() map[uint16]bool {
	pages := map[uint16]bool{}
	for _, n := range x.numbers {
		if q, ok := n.(*qp); ok && q.registerOnly {
			pages[q.page] = true
		}
	}
	return pages
}

// registerOnly returns the numbers of the queue pairs of a UAR page that registers alone start, in order.
func (x *uctx) registerOnly(page uint16) (list []string) {
	for _, n := range x.numbers {
		if q, ok := n.(*qp); ok && q.registerOnly && q.page == page {
			list = append(list, fmt.Sprintf("%#x", q.number))
		}
	}
	slices.Sort(list)
	return list
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

// placesOf is how many queue pairs without records a page can have, of whose UARs so many are of type NC.
// libmlx5 gives out the two registers of a page of type BF one by one. It has one page of type NC with one
// register for everybody, and from rdma-core 45 on further ones by four registers (NC_DEDICATED), which
// look the same from here. And DOCA, whose queues of this kind are the known ones, rings none of them: it
// rings at 0x600, which is one place for the page.
func placesOf(plain int) int {
	if plain > 0 {
		return 1
	}
	return 2
}

// registerLeft refuses a queue pair that registers alone start if its page can have no more of that kind,
// or is several UAR objects', whose queues ring as they like. Two queue pairs that ring one register
// overwrite each other's doorbells before the engine looks, and no record has what is lost: work would
// never be executed, without an error.
func (x *uctx) registerLeft(cmd []byte, page uint16) error {
	b, i := x.uarOf(uint64(page))
	have := x.registerOnly(page)
	switch {
	case b.users[i] > 1:
		return wrong(cmd, devx.QPUAR, devx.StatusResourceBusy,
			"%d UARs have this page, because the process has more than %d, and a queue pair with send_dbr_mode %d "+
				"would lose its doorbells to the others. Allocate its UAR before the others, or use a record "+
				"(send_dbr_mode 0)", b.users[i], len(b.users), devx.QPDoorbells.Get(cmd))
	case len(have) < placesOf(b.plain[i]):
		return nil
	}
	return wrong(cmd, devx.QPUAR, devx.StatusResourceBusy,
		"queue pair %s is on this page without a record, and the new one, in umem %#x at offset %#x, has "+
			"send_dbr_mode %d too. On one register they would overwrite each other's doorbells and lose work "+
			"without an error. Use a UAR of another page, or a record (send_dbr_mode 0)",
		strings.Join(have, " and "), devx.QPUmem.Get(cmd), devx.QPUmemOffset.Get(cmd),
		devx.QPDoorbells.Get(cmd))
}

// mapUAR answers an mmap of a UAR page. at says where the page is in its bank. file is the
// bank's memory, nil if the process has mapped the bank already.
func (x *uctx) mapUAR(p *process, m mapRequest) (file *os.File, at mappedAnswer, err error) {
	b, i := x.uarOf((m.offset - uarOffset) / pageSize)
	switch {
	case b == nil || m.length != pageSize:
		return nil, at, refuse(eINVAL, "mmap: %d bytes at offset %#x are no UAR page of this context", m.length, m.offset)
	case b.owner != p:
		return nil, at, refuse(eINVAL, "mmap: UAR page %d was allocated by %s; a process maps only its own", b.first+i+firstUAR, b.owner.name)
	case !b.mem.Sealed():
		file = b.mem.File()
	}
	return file, mappedAnswer{offset: uint64(i) * pageSize, whole: uint64(b.mem.Size())}, nil
}

// unmapped says why a UAR page that was allocated has perhaps not been mapped.
const unmapped = "Perhaps code in the program makes the system call mmap itself, and not by a function of the C library, so that it passes the preloaded library by"

// uarPage checks the UAR page that a queue names.
func (x *uctx) uarPage(id uint32) (uint16, error) {
	b, _ := x.uarOf(uint64(id) - firstUAR)
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
	return uint16(id - firstUAR), nil
}

// endUARs marks the banks as ended. The shim in each process then unmaps them.
func (x *uctx) endUARs() {
	for _, b := range x.banks {
		if b.mem.Sealed() {
			shm.Word64At(b.mem.Bytes(), registersGone).Publish(1)
		}
	}
}
