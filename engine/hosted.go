//go:build linux && (amd64 || arm64)

package engine

import (
	"os"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/sealer"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// A hosted client stands for a program in another process. A server in the engine's
// process, such as package server or verbs, makes one for each of its programs, and makes
// requests on their behalf (internal/nic).

// fillHosted sets the fields of h whose zero value leaves the choice to the engine.
func (e nicDevice) fillHosted(h *nic.Hosted) {
	if h.UARPages == 0 {
		h.UARPages = uarPages
	}
	if h.GID == [16]byte{} {
		h.GID = e.gid()
	}
}

// attachHosted returns a new hosted client. Another process can map the client's pages, and
// the client's resources are charged to user uid.
func (e nicDevice) attachHosted(name string, uid uint32, h nic.Hosted) (*caller, error) {
	return e.attach(name, uid, h, shm.Create, shm.CreateSealed)
}

// createMemory makes memory for a hosted client's program to map. The memory is charged to
// user uid until releaseMemory. create is shm.Create or shm.CreateSparse.
func (e nicDevice) createMemory(uid uint32, name string, size int, create func(string, int) (*shm.Region, error)) (*shm.Region, error) {
	_ = startHelpers()
	b := regionCharge(uid, size).Plus(regionFile)
	if err := e.ledger.Take(uid, b); err != nil {
		return nil, err
	}
	r, err := e.makeMemory(name, size, create)
	if err != nil {
		e.ledger.Refund(uid, b)
		return nil, err
	}
	return r, nil
}

// mapMemory maps memory that a hosted client's program has made. The mapping is charged to user
// uid until releaseMemory.
//
// The device maps no such memory of other users: they could remove its pages while the device
// touches them (docs/design/0021). Programs of the device's own user can hold up the device
// anyway (see ShareProcess).
func (e nicDevice) mapMemory(uid uint32, f nic.File, offset int64, size int) (*shm.Region, error) {
	if me := os.Geteuid(); int(uid) != me {
		return nil, control.Errorf(control.CodeUnsupported, "memory of a program of user %d; the device runs as user %d and maps only memory of that user", uid, me)
	}
	b := regionCharge(uid, size)
	if err := e.ledger.Take(uid, b); err != nil {
		return nil, err
	}
	r, err := shm.AttachPart(f, offset, size)
	if err != nil {
		e.ledger.Refund(uid, b)
		return nil, err
	}
	return r, nil
}

// forgetMemory closes the descriptor of memory that createMemory has made. It is called
// once the program has mapped the memory. The user is then no longer charged for the
// descriptor. A second call does nothing.
func (e nicDevice) forgetMemory(uid uint32, r *shm.Region) {
	if r.File() != nil {
		_ = r.Forget()
		e.ledger.Refund(uid, quota.Charge{quota.Descriptors: 1})
	}
}

// ForgetPages closes the descriptors of the client's UAR pages and status page, and the
// user is no longer charged for them. It is called when the program has mapped the pages
// that it needs. A program that uses verbs does not need the status page.
func (c *caller) ForgetPages() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range []*shm.Region{c.uar, c.status} {
		if !c.closed && r.File() != nil {
			_ = r.Forget()
			c.paid[quota.Descriptors]--
			c.e.ledger.Refund(c.uid, quota.Charge{quota.Descriptors: 1})
		}
	}
}

// releaseMemory undoes createMemory or mapMemory. The memory must not be a region of any client.
func (e nicDevice) releaseMemory(uid uint32, r *shm.Region) {
	held := regionCharge(uid, r.Size())
	if r.File() != nil {
		held = held.Plus(regionFile)
	}
	e.unmap(uid, r, held)
}

// unmap unmaps memory that a client was able to map, and refunds held, the charge for it.
// Memory that is not sealed is first sealed by another process (package sealer). If the
// memory's user has forbidden sealing or prevents it, the memory stays mapped, and its user
// stays charged for it.
func (e nicDevice) unmap(uid uint32, r *shm.Region, held quota.Charge) {
	shut := func() {
		_ = r.Close()
		e.ledger.Refund(uid, held)
	}
	if r.Sealed() {
		shut()
		return
	}
	e.discard(uid, 0, func() {
		if sealer.Seal(r) {
			shut()
		}
	})
}
