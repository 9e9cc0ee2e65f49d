//go:build linux && (amd64 || arm64)

package cm

import (
	"cmp"
	"slices"
)

// An IDInfo is an id as others than its program see it.
type IDInfo struct {
	Number   uint32
	Owner    any // Program.Owner
	UID      uint32
	Attached bool // it has an address of the device; else it listens on all devices
	QPN      uint32
	QPType   uint8
	Space    uint16
	State    uint8  // enum rdma_cm_state in the kernel
	Src, Dst []byte // socket addresses; nil: none
}

// States of enum rdma_cm_state.
const (
	kernelAddrResolved  = 2
	kernelRouteResolved = 4
	kernelConnect       = 5
	kernelDisconnect    = 6
	kernelAddrBound     = 7
	kernelListen        = 8
)

// kernelStates has the kernel's state for each state of an id.
var kernelStates = [...]uint8{idle: 0, bound: kernelAddrBound, addressResolved: kernelAddrResolved,
	routeIsResolved: kernelRouteResolved, connecting: kernelConnect, ended: kernelDisconnect,
	listening: kernelListen}

// IDs returns the ids on a device, in the order of their numbers, of those users that sees selects. An id
// without a device is on none, except that a listener for all addresses is on every device. sees must not
// call the manager.
func (m *Manager) IDs(device int, sees func(uid uint32) bool) (all []IDInfo) {
	m.mu.Lock()
	for _, i := range m.ids {
		if i.isOn(device) && sees(i.program.UID) {
			all = append(all, i.info())
		}
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b IDInfo) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// ID returns one of these ids by its number.
func (m *Manager) ID(device int, number uint32, sees func(uid uint32) bool) (info IDInfo, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.ids[number]
	if i == nil || !i.isOn(device) || !sees(i.program.UID) {
		return info, false
	}
	return i.info(), true
}

// isOn reports whether an id of a program is on a device.
func (i *id) isOn(device int) bool {
	here := (i.attached && i.local.Device == device) || (!i.attached && i.state == listening)
	return here && !i.detached
}

func (i *id) info() IDInfo {
	info := IDInfo{Number: i.handle, Owner: i.program.Owner, UID: i.program.UID, Attached: i.attached,
		QPType: i.qpType, Space: uint16(i.space), State: kernelStates[i.state], Src: i.src.bytes(),
		Dst: i.dst.bytes()}
	if i.link != nil {
		info.QPN = i.link.qpn
	}
	return info
}

// bytes returns the structure, nil if it has no family.
func (a *sockaddr) bytes() []byte {
	if a.size() == 0 {
		return nil
	}
	b := make([]byte, a.size())
	a.put(b)
	return b
}
