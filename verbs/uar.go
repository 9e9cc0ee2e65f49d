package verbs

import "os"

// A uar is a page of doorbell registers.
type uar struct {
	*object
	page int
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
	u := new(uar)
	for page, n := range x.pages {
		if n < x.pages[u.page] {
			u.page = page
		}
	}
	x.pages[u.page]++
	u.object = x.add(kindUAR, u, func() error { x.pages[u.page]--; return nil }, nil)
	c.putHandle(0x1000, u.object)
	c.put64(0x1002, uint64(uarOffset+u.page*pageSize))
	c.put32(0x1003, pageSize)
	c.put32(0x1004, uint32(u.page))
	return nil
}

// mapUAR returns the memory of a page that the context has.
func (x *uctx) mapUAR(m mapRequest) (*os.File, uint64, error) {
	page := (m.offset - uarOffset) / pageSize
	if page >= uarPages || m.length != pageSize || x.pages[page] == 0 {
		return nil, 0, refuse(eINVAL, "mmap: %d bytes at offset %#x are no UAR page of this context", m.length, m.offset)
	}
	return x.uar.File(), page * pageSize, nil
}

// uarPage judges the page that a queue names.
func (x *uctx) uarPage(id uint32) (uint16, error) {
	if id >= uarPages || x.pages[id] == 0 {
		return 0, refuse(eINVAL, "UAR page %d: this context has not allocated it", id)
	}
	return uint16(id), nil
}
