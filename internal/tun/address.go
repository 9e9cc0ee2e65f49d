//go:build linux && (amd64 || arm64)

package tun

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// find returns the interface of that name; nil if there is none.
func find(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tun: interface %s: netlink: %w", name, err)
	}
	return link, nil
}

// configure sets up the interface to which fd is attached, and returns its index. It leaves settings that
// are right already, so an interface that was set up for this user needs no privilege.
func configure(c Config, fd int, existed bool) (index int, err error) {
	link, err := find(c.Name)
	if err == nil && link == nil {
		err = fmt.Errorf("tun: interface %s is not there: somebody has deleted, renamed or moved it", c.Name)
	}
	if err != nil {
		return 0, err
	}
	is := link.Attrs()
	if !existed {
		// There is no Ethernet and no peer to query, so no link-local address. An error means that
		// there is no IPv6 here. Super-packets are limited so that they fit into 64 KiB with their header.
		_ = netlink.LinkSetIP6AddrGenMode(link, nl.IN6_ADDR_GEN_MODE_NONE)
		_ = netlink.LinkSetGSOMaxSize(link, MaxSuperPacket+1)
	}
	if is.MTU != c.MTU {
		if err := netlink.LinkSetMTU(link, c.MTU); err != nil {
			return 0, explainSetup(c, fmt.Sprintf("has MTU %d, not %d", is.MTU, c.MTU),
				"ip link set dev "+c.Name+" mtu "+strconv.Itoa(c.MTU), err)
		}
	}
	if err := addAddresses(c, link); err != nil {
		return 0, err
	}
	if is.Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return 0, explainSetup(c, "is down", "ip link set dev "+c.Name+" up", err)
		}
	}
	return is.Index, awaitAddresses(c, fd)
}

// addressTime is how long the kernel may take for the addresses of IPv6. On a busy machine it took up to a
// second.
const addressTime = time.Minute

// awaitAddresses waits until the kernel takes packets for the addresses. For those of IPv6 it makes the
// routes that do it later, in a work queue (addrconf_dad_work), also if nothing has to be detected. Before,
// it drops packets, so the address must not be announced to peers yet. That it has the address without the
// flag tentative is too early.
func awaitAddresses(c Config, fd int) error {
	end := time.Now().Add(addressTime)
	for _, p := range c.Addresses {
		if !p.Addr().Is6() {
			continue
		}
		for !isLocal(p.Addr()) {
			if deleted(fd) {
				return unix.ENODEV
			}
			if time.Now().After(end) {
				return fmt.Errorf("tun: address %v: interface %s has it, but the kernel takes no packets for it (after %v)", p.Addr(), c.Name, addressTime)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// isLocal reports whether the kernel takes packets for an address.
func isLocal(a netip.Addr) bool {
	routes, err := netlink.RouteGet(a.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}

// addAddresses gives the interface the addresses that it does not have. The kernel would let two
// interfaces have the same address, and would then send only through one of them.
func addAddresses(c Config, link netlink.Link) error {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("tun: interface %s: addresses by netlink: %w", c.Name, err)
	}
	for _, p := range c.Addresses {
		i := slices.IndexFunc(all, func(a netlink.Addr) bool {
			ip, ok := netip.AddrFromSlice(a.IP)
			return ok && ip.Unmap() == p.Addr()
		})
		if i >= 0 {
			if all[i].LinkIndex != link.Attrs().Index {
				return fmt.Errorf("tun: address %v: interface %s of this host has it already", p.Addr(), nameOf(all[i].LinkIndex))
			}
			if bits, _ := all[i].Mask.Size(); bits != p.Bits() {
				return fmt.Errorf("tun: address %v: interface %s has it with the prefix length %d", p, c.Name, bits)
			}
			continue
		}
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD // no other host can have it, and it is wanted at once
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return explainAddress(c, p, err)
		}
	}
	return nil
}

// nameOf returns the name of the interface that has an index.
func nameOf(index int) string {
	if link, err := netlink.LinkByIndex(index); err == nil {
		return link.Attrs().Name
	}
	return "number " + strconv.Itoa(index)
}
