//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// UAR pages that are sealed against holes cannot be mapped for writing again. So a hosted
// client that several processes share has a bank of UAR pages for each process. The first
// bank is Client.UAR, the others are in Client.Banks.

// AddRegisters adds a bank of UAR pages to a hosted client, and returns the number of the
// bank's first page. The bank is charged to the client's user and released with the client.
// A queue may use one of the pages once the bank's memory is sealed.
func (c *Client) AddRegisters(pages int) (first int, mem *shm.Region, err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return 0, nil, object.ErrClosed
	}
	if mem, err = c.Device.NewMemory(c.UID, "uar", pages*doorbell.UARPageSize, shm.Create); err != nil {
		return 0, nil, err
	}
	if err = mem.Populate(mem.Bytes()); err != nil {
		c.Device.FreeMemory(c.UID, mem)
		return 0, nil, control.Errorf(control.CodeMemory, "%v", err)
	}
	first = c.UARPages()
	c.Banks = append(c.Banks, mem)
	return first, mem, nil
}
