//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// UARPages returns how many UAR pages the client has.
func (c *Client) UARPages() int {
	n := c.Hosted.UARPages
	for _, b := range c.Banks {
		n += b.Size() / doorbell.UARPageSize
	}
	return n
}

// UARPage returns the bank of a UAR page, and the offset of the page in the bank. The
// device will read the bank, so UARPage refuses a bank that can still lose pages.
func (c *Client) UARPage(what string, page uint16) (bank *shm.Region, at uint64, err error) {
	n, all := int(page), append([]*shm.Region{c.UAR}, c.Banks...)
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
	return nil, 0, control.Errorf(control.CodeInvalid, "%s: UAR page %d; there are %d", what, page, c.UARPages())
}
