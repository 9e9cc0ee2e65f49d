//go:build linux && (amd64 || arm64)

package object

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// MakeMemory makes memory for another process to map. It refuses what could never be filled: a page of
// each 2 MiB is allocated at once, so a region of 1 TiB takes 4 GiB and seconds.
func (e *Device) MakeMemory(name string, size int,
	create func(string, int) (*shm.Region, error)) (*shm.Region, error) {
	if most, why := quota.MostRegion(); size > most {
		return nil, control.Errorf(control.CodeLimit, "region of %d bytes; at most %d are possible: %s", size, most, why)
	}
	r, err := create(name, size)
	if err == nil && e.Settings.Populate {
		if err = r.Populate(r.Bytes()); err != nil {
			_ = r.Close()
		}
	}
	if err != nil {
		return nil, control.Errorf(control.CodeMemory, "%v", err)
	}
	return r, nil
}

func WholePages(n uint64) uint64 { return (n + shm.PageSize - 1) &^ (shm.PageSize - 1) }

// Locate makes a region usable, at address addr in the client.
func (c *Client) Locate(r *Region, addr uint64) error {
	switch {
	case addr%shm.PageSize != 0:
		return control.Errorf(control.CodeInvalid, "region %#x: address %#x is not a multiple of the page size %d", r.ID, addr, shm.PageSize)
	case addr+r.Size < addr:
		return control.Errorf(control.CodeInvalid, "region %#x: %d bytes at %#x pass the end of the address space", r.ID, r.Size, addr)
	case !r.Mem.Sealed():
		return control.Errorf(control.CodeMemory, "region %#x: its memory can still lose pages; map it, then add F_SEAL_FUTURE_WRITE, before it is placed", r.ID)
	}
	for _, o := range c.Regions {
		if !r.Owned {
			break // it may overlap others, and there can be thousands
		}
		if addr < o.base+o.Size && o.base < addr+r.Size {
			return control.Errorf(control.CodeInvalid, "region %#x: %d bytes at %#x overlap region %#x, %d bytes at %#x", r.ID, r.Size, addr, o.ID, o.Size, o.base)
		}
	}
	r.base = addr
	c.Regions[r.ID] = r
	return nil
}

// CountUser adds n to the users of each of these regions, for a queue that has memory in
// them. A region that is named twice counts the queue once. A nil region stands for memory
// that the queue does not have.
func CountUser(n int, regions ...*Region) {
	for i, r := range regions {
		if r != nil && !slices.Contains(regions[:i], r) {
			r.Users += n
		}
	}
}

// At returns the region that contains the n bytes that begin at address addr in the client,
// and those bytes in the device's mapping. If there are several regions, it is the newest one,
// which the client has mapped over the others. what names the bytes in the error.
func (c *Client) At(what string, addr, n uint64) (*Region, []byte, error) {
	var newest *Region
	for _, r := range c.Regions {
		if off := addr - r.base; off < r.Size && n <= r.Size-off &&
			(newest == nil || r.Added > newest.Added) {
			newest = r
		}
	}
	if newest != nil {
		off := addr - newest.base
		return newest, newest.Mem.Bytes()[off : off+n : off+n], nil
	}
	return nil, nil, control.Errorf(control.CodeInvalid, "%s: %d bytes at address %#x are not inside one region of this client", what, n, addr)
}

// Holds reports whether an address in the device's mapping is in a region of this client.
func (c *Client) Holds(addr uint64) bool {
	for _, r := range c.Regions {
		if addr-r.Mem.Addr() < r.Size {
			return true
		}
	}
	return false
}

// Prefault maps existing pages of a queue into the device's page table, off the engine's
// thread, so that the engine's thread need not wait for the kernel when it first accesses
// them.
func (c *Client) Prefault(r *Region, b []byte) {
	c.After = append(c.After, func() { r.Mem.Prefault(b) })
}
