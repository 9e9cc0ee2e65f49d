//go:build linux && (amd64 || arm64)

package request

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
)

// SetSources sets the addresses that the client's datagrams may have as their source on links, and at which
// the client takes datagrams.
func (c *Client) SetSources(list []nic.Source) error {
	if len(list) > nic.MaxSources {
		return execution.ErrManySources
	}
	own := slices.Clone(list)
	c.Device.Do(func() { c.Sources = own })
	return nil
}

// SetGIDs sets the client's GID table.
func (c *Client) SetGIDs(table []nic.GID) error {
	if len(table) > nic.MaxGIDs {
		return execution.ErrManyGIDs
	}
	own := append(make([]nic.GID, 0, len(table)), table...)
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.Device.Do(func() { c.GIDs = own })
	return nil
}
