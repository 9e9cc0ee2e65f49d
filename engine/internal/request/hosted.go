//go:build linux && (amd64 || arm64)

package request

import (
	"fmt"
	"os"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/sealer"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// A hosted client stands for a program in another process. A server in the engine's
// process, such as package server or verbs, makes a hosted client for each of its programs, and makes
// requests on behalf of the program (internal/nic).

// FillHosted sets the fields of h whose zero value leaves the choice to the engine.
func (e Device) FillHosted(h *nic.Hosted) {
	if h.UARPages == 0 {
		h.UARPages = object.UARPages
	}
	if h.GID == [16]byte{} {
		h.GID = e.PortState(h.Port).GID(e.GID())
	}
}

// NewHosted returns a new hosted client. Another process can map the client's pages, and
// the client's resources are charged to user uid.
func (e Device) NewHosted(name string, uid uint32, h nic.Hosted) (*Client, error) {
	return e.NewClient(name, uid, h, shm.Create, shm.CreateSealed)
}

// NewMemory makes memory for a hosted client's program to map. The memory is charged to
// user uid until FreeMemory. create is shm.Create or shm.CreateSparse.
func (e Device) NewMemory(uid uint32, name string, size int,
	create func(string, int) (*shm.Region, error)) (*shm.Region, error) {
	_ = StartHelpers()
	charge := object.RegionCharge(uid, size).Plus(object.RegionFile)
	if err := e.Ledger.Take(uid, charge); err != nil {
		return nil, err
	}
	r, err := e.MakeMemory(name, size, create)
	if err != nil {
		e.Ledger.Refund(uid, charge)
		return nil, err
	}
	return r, nil
}

// MapMemory maps memory that a hosted client's program has made. The mapping is charged to user
// uid until FreeMemory.
//
// The device maps no such memory of other users: they could remove its pages while the device
// touches them (docs/design/0021). Programs of the device's own user can hold up the device
// anyway (see ShareProcess).
func (e Device) MapMemory(uid uint32, f nic.File, offset int64, size int) (*shm.Region, error) {
	if me := os.Geteuid(); int(uid) != me {
		return nil, control.Errorf(control.CodeUnsupported, "memory of a program of user %d; the device runs as user %d and maps only memory of that user", uid, me)
	}
	charge := object.RegionCharge(uid, size)
	if err := e.Ledger.Take(uid, charge); err != nil {
		return nil, err
	}
	r, err := shm.AttachPart(f, offset, size)
	if err != nil {
		e.Ledger.Refund(uid, charge)
		return nil, err
	}
	return r, nil
}

// joinCharge is what a region of parts of others costs: it has no pages of its own, but page tables.
func joinCharge(size, parts int) quota.Charge {
	tables := size / shm.PageSize * 8
	return quota.Charge{quota.Mappings: parts, quota.AddressSpace: size,
		quota.Memory: object.RegionCost + tables}
}

// JoinMemory maps pages of memory that NewMemory or MapMemory has made once more, in at least two parts.
// The mapping is charged to user uid until FreeMemory.
func (e Device) JoinMemory(uid uint32, parts ...[]byte) (*shm.Region, error) {
	if len(parts) < 2 { // RegionCharge, which is refunded, is that of joined memory from two parts on
		return nil, fmt.Errorf("join %d parts: 2 are needed", len(parts))
	}
	size := 0
	for _, b := range parts {
		size += len(b)
	}
	charge := joinCharge(size, len(parts))
	if err := e.Ledger.Take(uid, charge); err != nil {
		return nil, err
	}
	r, err := shm.Join(parts...)
	if err != nil {
		e.Ledger.Refund(uid, charge)
		return nil, err
	}
	return r, nil
}

// CloseMemory closes the descriptor of memory that NewMemory has made. It is called
// once the program has mapped the memory. The user is then no longer charged for the
// descriptor. A second call does nothing.
func (e Device) CloseMemory(uid uint32, r *shm.Region) {
	if r.File() != nil {
		_ = r.CloseFile()
		e.Ledger.Refund(uid, quota.Charge{quota.Descriptors: 1})
	}
}

// ClosePageFiles closes the descriptors of the client's UAR pages and status page, and the
// user is no longer charged for them. It is called when the program has mapped the pages
// that it needs.
func (c *Client) ClosePageFiles() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, r := range []*shm.Region{c.UAR, c.Status} {
		if !c.Closed && r.File() != nil {
			_ = r.CloseFile()
			c.Paid[quota.Descriptors]--
			c.Device.Ledger.Refund(c.UID, quota.Charge{quota.Descriptors: 1})
		}
	}
}

// FreeMemory undoes NewMemory, MapMemory or JoinMemory. The memory must not be a region of any client.
func (e Device) FreeMemory(uid uint32, r *shm.Region) {
	held := object.RegionCharge(uid, r.Size())
	if n := r.Mappings(); n > 1 {
		held = joinCharge(r.Size(), n)
	}
	if r.File() != nil {
		held = held.Plus(object.RegionFile)
	}
	e.unmap(uid, r, held)
}

// unmap unmaps memory that a client was able to map, and refunds held, the charge for it.
// Memory that is not sealed is first sealed by another process (package sealer). If the
// memory's user has forbidden sealing or prevents it, the memory stays mapped, and its user
// stays charged for it.
func (e Device) unmap(uid uint32, r *shm.Region, held quota.Charge) {
	shut := func() {
		_ = r.Close()
		e.Ledger.Refund(uid, held)
	}
	if r.Sealed() {
		shut()
		return
	}
	e.Runner.Discard(uid, 0, func() {
		if sealer.Seal(r) {
			shut()
		}
	})
}
