//go:build linux && (amd64 || arm64)

package roce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

// Sockets are the UDP sockets of one local address. A program that is in another
// network namespace can make them there and pass their descriptors to the process that has the
// carrier: see [OpenSockets] and [Carrier.AddSockets].
type Sockets struct {
	Receive int   // descriptor of the socket that is bound to the address and to port 4791
	Send    []int // descriptors of sockets that are bound to the address and to other ports; at least one

	// Group are the descriptors of further sockets of Receive's address and port, in the order in
	// which they were bound: for strangers, and for bytes that are no packet. It can be empty;
	// then strangers share the buffer of known addresses. See group.go.
	Group []int

	// MTU is that of the network device that has the address. If it is 0, the carrier takes
	// the smallest MTU of all devices that are up in the namespace of the sockets.
	MTU int

	// Device is the name of the network device. It can be empty.
	Device string

	here bool // made in this process's network namespace
}

// firstSourcePort is the first port of those from which RoCEv2 packets are sent.
const firstSourcePort = 0xc000

// OpenSockets makes the sockets for a local address in the network namespace of the calling
// thread: one that receives, and a number of others that send. An IPv6 link-local address needs
// a zone. An error wraps EADDRINUSE if the port 4791 is taken, and EADDRNOTAVAIL if no
// network device has the address.
func OpenSockets(a netip.Addr, senders int) (*Sockets, error) {
	a = unmap(a)
	bound, err := sockaddr(a, packet.Port)
	if err != nil {
		return nil, err
	}
	s := &Sockets{Receive: -1}
	s.Receive, err = newSocket(a)
	if err != nil {
		return nil, fmt.Errorf("roce: UDP socket: %w", err)
	}
	if err := unix.Bind(s.Receive, bound); err != nil {
		s.Close()
		return nil, explainBind(a, err)
	}
	s.Group = openGroup(s.Receive, a, bound)
	for range min(max(senders, 1), maxSourcePorts) {
		fd, err := openSender(a)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("roce: socket to send from %v: %w", a, err)
		}
		s.Send = append(s.Send, fd)
	}
	if d, err := deviceOf(a); err == nil {
		s.MTU, s.Device = d.mtu, d.name
	}
	return s, nil
}

// Close closes the sockets.
func (s *Sockets) Close() {
	for _, fd := range slices.Concat(s.Send, s.Group, []int{s.Receive}) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	s.Send, s.Group, s.Receive = nil, nil, -1
}

func newSocket(a netip.Addr) (int, error) {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err == nil && a.Is6() {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err != nil && fd >= 0 {
		_ = unix.Close(fd)
	}
	return fd, err
}

// openSender returns a socket that is bound to a free port for sending.
func openSender(a netip.Addr) (fd int, err error) {
	if fd, err = newSocket(a); err != nil {
		return -1, err
	}
	const ports = 1<<16 - firstSourcePort
	for n, first := 0, rand.IntN(ports); n < ports; n++ {
		to, _ := sockaddr(a, uint16(firstSourcePort+(first+n)%ports))
		if err = unix.Bind(fd, to); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// unmap returns an IPv4 address in its short form.
func unmap(a netip.Addr) netip.Addr { return a.Unmap() }

// sockaddr returns the address for bind. It refuses addresses that cannot be a host's.
func sockaddr(a netip.Addr, port uint16) (unix.Sockaddr, error) {
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast():
		return nil, fmt.Errorf("roce: %v is not the address of a host (%w)", a, unix.EINVAL)
	case a.Is4():
		return &unix.SockaddrInet4{Port: int(port), Addr: a.As4()}, nil
	case a.IsLinkLocalUnicast() && a.Zone() == "":
		return nil, fmt.Errorf("roce: link-local address %v without a network device, as in fe80::1%%eth0 (%w)", a, unix.EINVAL)
	}
	zone, err := zoneOf(a)
	return &unix.SockaddrInet6{Port: int(port), Addr: a.As16(), ZoneId: zone}, err
}

// zoneOf returns the index of the network device in the address's zone; 0 if it has none.
func zoneOf(a netip.Addr) (uint32, error) {
	zone := a.Zone()
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	d, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("roce: address %v: no network device %q (%w)", a, zone, unix.ENODEV)
	}
	return uint32(d.Index), nil
}

// explainBind returns the error of binding to port 4791.
func explainBind(a netip.Addr, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		who := "another engine, or by the kernel module rdma_rxe, if it is loaded on this host"
		if _, err := os.Stat("/sys/module/rdma_rxe"); err == nil {
			who = "the kernel module rdma_rxe, which is loaded (modprobe -r rdma_rxe), or by another engine"
		}
		return fmt.Errorf("roce: UDP port %d of %v is taken by %s: %w", packet.Port, a, who, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("roce: no network device has the address %v: %w", a, err)
	}
	return fmt.Errorf("roce: bind to %v, port %d: %w", a, packet.Port, err)
}

// boundTo returns the address and port to which a UDP socket is bound.
func boundTo(fd int) (netip.AddrPort, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil || kind != unix.IPPROTO_UDP {
		return netip.AddrPort{}, fmt.Errorf("roce: descriptor %d is no UDP socket (%w)", fd, unix.EINVAL)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("roce: address of a socket: %w", err)
	}
	switch n := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(n.Addr), uint16(n.Port)), nil
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(n.Addr)
		if a.Is4In6() {
			return netip.AddrPort{}, fmt.Errorf("roce: IPv6 socket bound to %v; an IPv4 socket is needed (%w)", a, unix.EINVAL)
		}
		if n.ZoneId != 0 {
			a = a.WithZone(strconv.FormatUint(uint64(n.ZoneId), 10))
		}
		return netip.AddrPortFrom(a, uint16(n.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("roce: descriptor %d is no IP socket (%w)", fd, unix.EINVAL)
}
