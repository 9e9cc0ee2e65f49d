//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// UAR pages that are sealed against holes cannot be mapped for writing again. So a hosted
// client that several processes share has a bank of UAR pages for each process. The first
// bank is client.uar, the others are in client.banks.

// AddRegisters adds a bank of UAR pages to a hosted client, and returns the number of the
// bank's first page. The bank is charged to the client's user and released with the client.
// A queue may use one of the pages once the bank's memory is sealed.
func (c *caller) AddRegisters(pages int) (first int, mem *shm.Region, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, nil, errClosed
	}
	if mem, err = c.r.createMemory(c.uid, "uar", pages*doorbell.UARPageSize, shm.Create); err != nil {
		return 0, nil, err
	}
	if err = mem.Populate(mem.Bytes()); err != nil {
		c.r.releaseMemory(c.uid, mem)
		return 0, nil, control.Errorf(control.CodeMemory, "%v", err)
	}
	first = c.uarPages()
	c.banks = append(c.banks, mem)
	return first, mem, nil
}

// uarPages returns how many UAR pages the client has.
func (c *client) uarPages() int {
	n := c.hosted.UARPages
	for _, b := range c.banks {
		n += b.Size() / doorbell.UARPageSize
	}
	return n
}

// uarPage returns the bank of a UAR page, and the offset of the page in the bank. The
// device will read the bank, so uarPage refuses a bank that can still lose pages.
func (c *client) uarPage(what string, page uint16) (bank *shm.Region, at uint64, err error) {
	n, all := int(page), append([]*shm.Region{c.uar}, c.banks...)
	for _, r := range all {
		k := r.Size() / doorbell.UARPageSize
		switch {
		case n >= k:
			n -= k
			continue
		case !r.Sealed():
			return nil, 0, control.Errorf(control.CodeMemory,
				"%s: the UAR pages can still lose pages; map them, then add F_SEAL_FUTURE_WRITE, before queues are made", what)
		}
		return r, uint64(n) * doorbell.UARPageSize, nil
	}
	return nil, 0, control.Errorf(control.CodeInvalid, "%s: UAR page %d; there are %d", what, page, c.uarPages())
}
