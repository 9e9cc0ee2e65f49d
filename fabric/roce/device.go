//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Limits of MTUs. overhead is what a packet can have besides its payload: IPv6 40, UDP 8,
// BTH 12 and extension headers; 80 is what Linux's RDMA core reserves.
const (
	overhead      = 80
	minMTU        = 256
	maxMTU        = 4096
	grhSize       = 40
	maxInterfaces = 1024
)

// pathMTU returns the largest MTU of InfiniBand that fits into the MTU of a network device. It
// is at least 256, although that may not fit.
func pathMTU(device int) int {
	n := maxMTU
	for n > minMTU && n > device-overhead {
		n /= 2
	}
	return n
}

// MTU returns the MTU of InfiniBand of packets that are sent from an address of this host, on a link with
// keys or without.
func MTU(local netip.Addr, keys bool) (int, error) {
	d, err := deviceOf(local)
	if err != nil {
		return 0, err
	}
	if keys {
		d.mtu -= sealedMore
	}
	return pathMTU(d.mtu), nil
}

// A device is a network device that has a local address.
type device struct {
	name  string
	index int
	mtu   int
	up    bool
}

// deviceOf returns the network device that has an address, in the network namespace of the
// calling thread. All addresses of a loopback device's prefixes belong to that device.
func deviceOf(a netip.Addr) (device, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return device{}, fmt.Errorf("roce: list the network devices: %w", err)
	}
	zone, err := zoneOf(a)
	if err != nil {
		return device{}, err
	}
	plain := a.WithZone("")
	for _, d := range devices {
		if zone != 0 && d.Index != int(zone) {
			continue
		}
		addresses, err := d.Addrs()
		if err != nil {
			continue // the device has vanished
		}
		for _, b := range addresses {
			prefix, ok := b.(*net.IPNet)
			if !ok {
				continue
			}
			same := prefix.IP.Equal(plain.AsSlice())
			if same || (d.Flags&net.FlagLoopback != 0 && plain.Is4() && prefix.Contains(plain.AsSlice())) {
				return device{name: d.Name, index: d.Index, mtu: d.MTU, up: d.Flags&net.FlagUp != 0}, nil
			}
		}
	}
	return device{}, fmt.Errorf("roce: no network device has the address %v (%w)", a, unix.EADDRNOTAVAIL)
}

// smallestMTU returns the smallest MTU of the network devices that are up, in the network
// namespace of a socket. Loopback devices do not count if there are others.
func smallestMTU(fd int) (int, error) {
	smallest, loopback := 0, 0
	for index := range uint32(maxInterfaces) {
		r, err := unix.NewIfreq("index")
		if err != nil {
			return 0, err
		}
		r.SetUint32(index + 1)
		if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, r) != nil {
			continue
		}
		name := r.Name()
		if r, err = unix.NewIfreq(name); err != nil || unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r) != nil {
			continue
		}
		flags := r.Uint16()
		if r, err = unix.NewIfreq(name); err != nil || flags&unix.IFF_UP == 0 ||
			unix.IoctlIfreq(fd, unix.SIOCGIFMTU, r) != nil {
			continue
		}
		mtu := int(r.Uint32())
		if flags&unix.IFF_LOOPBACK != 0 {
			loopback = mtu
		} else if smallest == 0 || mtu < smallest {
			smallest = mtu
		}
	}
	if smallest == 0 {
		smallest = loopback
	}
	if smallest == 0 {
		return 0, fmt.Errorf("roce: no network device is up in the namespace of the sockets (%w)", unix.ENETDOWN)
	}
	return smallest, nil
}
