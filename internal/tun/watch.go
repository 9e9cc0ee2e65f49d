//go:build linux && (amd64 || arm64)

package tun

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
)

// subscribeAgain is how long Watch waits before it subscribes again when the kernel has ended its
// subscription, as it does if changes come faster than they are read.
const subscribeAgain = 100 * time.Millisecond

// Watch calls changed with all addresses of the interface that other hosts can use, in the kernel's order: at
// the beginning, and after each change, until ctx ends. Several changes can be one call.
func (d *Device) Watch(ctx context.Context, changed func([]netip.Addr)) {
	for ctx.Err() == nil {
		d.follow(ctx, changed)
		select {
		case <-ctx.Done():
		case <-time.After(subscribeAgain):
		}
	}
}

// follow is Watch until the kernel ends the subscription.
func (d *Device) follow(ctx context.Context, changed func([]netip.Addr)) {
	updates, done := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	if netlink.AddrSubscribe(updates, done) != nil {
		close(done)
		return
	}
	defer func() {
		close(done)
		for range updates { // until the subscription has ended: it waits while the channel is full
		}
	}()
	for ours := true; ; {
		if ours {
			if list, err := d.addresses(); err == nil {
				changed(list)
			}
		}
		select {
		case <-ctx.Done():
			return
		case u, open := <-updates:
			if !open {
				return
			}
			ours = u.LinkIndex == d.index
		}
	}
}

// addresses returns the addresses of the interface that other hosts can use.
func (d *Device) addresses() (found []netip.Addr, err error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("tun: interface %s: addresses by netlink: %w", d.name, err)
	}
	for _, a := range all {
		ip, ok := netip.AddrFromSlice(a.IP)
		if ip = ip.Unmap(); ok && a.LinkIndex == d.index && ip.IsGlobalUnicast() {
			found = append(found, ip)
		}
	}
	return found, nil
}
