//go:build linux && (amd64 || arm64)

package netdev

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// addresses returns the addresses of the interface, which are not changed in place.
func (in *Interface) addresses() []netip.Addr { return *in.own.Load() }

// SetAddresses changes the addresses of the interface to those of the list: 1 to MaxAddresses. Peers take the
// change as a new beginning of this interface: sessions begin anew, which takes some milliseconds, and
// packets of that time may be lost. If another interface of the fabric has a new address, or an address is
// one that no interface can have, nothing changes, and the error names the address. It is safe for concurrent
// use.
func (in *Interface) SetAddresses(list []netip.Addr) error {
	in.setting.Lock()
	defer in.setting.Unlock()
	if n := len(list); n == 0 || n > MaxAddresses {
		return fmt.Errorf("netdev: %d addresses; 1 to %d are possible", n, MaxAddresses)
	}
	before := in.addresses()
	if slices.Equal(before, list) {
		return nil
	}
	for i, ip := range list {
		switch {
		case !possible(ip):
			return fmt.Errorf("netdev: %w", errImpossible(ip))
		case slices.Contains(list[:i], ip):
			return fmt.Errorf("netdev: address %v is named twice", ip)
		case slices.Contains(before, ip):
			continue
		}
		if err := in.addressUnclaimed(ip); err != nil {
			return err
		}
	}
	list = slices.Clone(list)
	in.own.Store(&list)
	in.lookNow()
	return nil
}

// possible reports whether an interface can have an address.
func possible(ip netip.Addr) bool { return ip.IsGlobalUnicast() || ip.IsLinkLocalUnicast() }

func errImpossible(ip netip.Addr) error {
	return errors.New(ip.String() + ": no interface can have this address")
}

// ErrTaken is in the error of Open if another interface of the fabric has an address.
var ErrTaken = errors.New("is taken")

// addressUnclaimed returns an error if an interface of the fabric has an address.
func (in *Interface) addressUnclaimed(ip netip.Addr) error {
	list, err := in.c.Announcements()
	if err != nil {
		return fmt.Errorf("netdev: %w", err)
	}
	for _, a := range list {
		found, err := parseAnnouncement(a.Value)
		if err == nil && found.claim != bid && found.life != in.life && slices.Contains(found.addresses, ip) {
			return fmt.Errorf("netdev: address %v %w: interface %s of engine %016x has it", ip, ErrTaken, found.name, a.Device)
		}
	}
	return nil
}
