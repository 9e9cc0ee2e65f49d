//go:build linux && (amd64 || arm64)

package gpu

import (
	"errors"
	"slices"
)

// reachers are the devices whose kernels reach some memory.
type reachers []*Device

// reachedBy returns the devices that reach memory of a kind of this one. Of memory of the host and managed
// memory these are all: CUDA calls it portable, and with unified addresses all of it is. Memory of the device
// is reached by its peers too. d.mu is held.
func (d *Device) reachedBy(k Kind) reachers {
	if k == Host || k == Managed {
		return d.system.devices
	}
	return append(reachers{d}, d.peers...)
}

// CanReach reports whether a device can be another one's peer.
func (s *System) CanReach(device, peer int) (bool, Code) {
	if max(device, peer) >= len(s.devices) || min(device, peer) < 0 {
		return false, InvalidDevice
	}
	return device != peer, Success
}

// EnablePeer lets kernels of d reach the memory of another device: what it has, and what it will allocate.
func (d *Device) EnablePeer(number int) Code {
	if can, c := d.system.CanReach(d.number, number); !can {
		return max(c, InvalidDevice)
	}
	p := d.system.devices[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.peers, d) {
		return PeerAccessEnabled
	}
	for at, m := range p.memory {
		if m.Kind == DeviceMemory && m.in.size != 0 && d.space.Add(at, m.Size) != nil {
			return Unknown
		}
	}
	p.peers = append(p.peers, d)
	return Success
}

// DisablePeer ends what EnablePeer has begun, after the tasks of d.
func (d *Device) DisablePeer(number int) Code {
	if can, c := d.system.CanReach(d.number, number); !can {
		return max(c, InvalidDevice)
	}
	if c := d.Synchronize(); c != Success {
		return c
	}
	p := d.system.devices[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.peers, d)
	if at < 0 {
		return PeerAccessNotEnabled
	}
	p.peers = slices.Delete(p.peers, at, at+1)
	for at, m := range p.memory {
		if m.Kind == DeviceMemory && m.in.size != 0 && d.space.Remove(at) != nil {
			return Unknown
		}
	}
	return Success
}

// add lets the devices reach memory: all, or none.
func (r reachers) add(address, n uint64) error {
	for k, d := range r {
		if err := d.space.Add(address, n); err != nil {
			return errors.Join(err, r[:k].remove(address))
		}
	}
	return nil
}

func (r reachers) remove(address uint64) (failed error) {
	for _, d := range r {
		failed = errors.Join(failed, d.space.Remove(address))
	}
	return failed
}

// synchronize waits for all of the devices, and returns the first error.
func (r reachers) synchronize() Code {
	first := Success
	for _, d := range r {
		c := d.Synchronize()
		if first == Success {
			first = c
		}
	}
	return first
}
