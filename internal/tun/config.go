package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

const (
	// HeaderSize is the length of the header before every packet.
	HeaderSize = 10

	// MaxPacket is the length of the longest packet, without the header before it. A buffer for
	// Read holds every packet if it has HeaderSize+MaxPacket bytes.
	MaxPacket = 65535

	// MaxSuperPacket is the length of the longest packet that a kernel leaves unsegmented on an interface
	// that Open has made. With its header it fits into 64 KiB, and so does every packet if the MTU is
	// not above this length.
	MaxSuperPacket = 65525
)

// The limits of an MTU are those of IPv4, of IPv6 and of the kernel's TUN driver.
const (
	minMTU     = 68
	minMTUIPv6 = 1280
	maxMTU     = 65535
	maxName    = 15 // IFNAMSIZ less the zero at the end
)

// Config says which interface Open makes, or takes.
type Config struct {
	// Name is the interface's, 1 to 15 bytes.
	Name string

	// MTU is 68 to 65535, and at least 1280 with addresses of IPv6.
	MTU int

	// Addresses are given to the interface, each with the length of its network's prefix.
	Addresses []netip.Prefix

	// Plain asks for no offloads. The kernel then sends packets of at most MTU bytes, with checksums.
	Plain bool
}

// check returns an error if no interface can be as the Config says.
func (c Config) check() error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	if c.MTU < minMTU || c.MTU > maxMTU {
		return fmt.Errorf("tun: MTU %d; it is %d to %d", c.MTU, minMTU, maxMTU)
	}
	for i, p := range c.Addresses {
		if !p.IsValid() {
			return fmt.Errorf("tun: address %d is not an IP address with the length of a prefix, such as 192.168.8.100/24", i)
		}
		if err := CheckAddress(p); err != nil {
			return err
		}
		if p.Addr().Is6() && c.MTU < minMTUIPv6 {
			return fmt.Errorf("tun: MTU %d with address %v; IPv6 needs at least %d", c.MTU, p, minMTUIPv6)
		}
		for _, q := range c.Addresses[:i] {
			if q.Addr() == p.Addr() {
				return fmt.Errorf("tun: address %v is given twice", p.Addr())
			}
		}
	}
	return nil
}

// CheckAddress returns an error if no interface can have an address. p is valid.
func CheckAddress(p netip.Prefix) error {
	a := p.Addr()
	switch {
	case a.Is4In6() || a.Zone() != "":
		return fmt.Errorf("tun: address %v: write an address of IPv4 as such, and without a zone", p)
	case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
		return fmt.Errorf("tun: address %v is not one that an interface can have", p)
	case isNetworks(p):
		return fmt.Errorf("tun: address %v is that of the network, or of all its hosts, not of one host", p)
	}
	return nil
}

// isNetworks reports whether an address of IPv4 is the first or the last of its network: the network's own,
// and the one for broadcasts. Networks of two addresses have neither (RFC 3021).
func isNetworks(p netip.Prefix) bool {
	if !p.Addr().Is4() || p.Bits() > 30 {
		return false
	}
	a := p.Addr().As4()
	host := binary.BigEndian.Uint32(a[:]) & (1<<(32-p.Bits()) - 1)
	return host == 0 || host == 1<<(32-p.Bits())-1
}

// checkName follows the kernel's dev_valid_name. A percent sign would make the kernel choose a number.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("tun: the interface needs a name")
	case len(name) > maxName:
		return fmt.Errorf("tun: interface name %q has %d bytes; the limit is %d", name, len(name), maxName)
	case name == "." || name == ".." || strings.ContainsAny(name, "/:% \t\n\v\f\r\x00"):
		return fmt.Errorf("tun: interface name %q; the names . and .. and names with a slash, a colon, a percent sign or a space are not allowed", name)
	}
	return nil
}

// Offloads says what the kernel leaves undone for the receiving kernel to do, or never to do.
type Offloads uint8

// The bits of Offloads.
const (
	Checksum Offloads = 1 << iota // checksums of TCP and UDP
	TSO                           // segmentation of TCP, over IPv4 and IPv6
	USO                           // segmentation of UDP, over IPv4 and IPv6 (Linux 6.2)
)

func (o Offloads) String() string {
	var all []string
	for i, name := range []string{"checksum", "TSO", "USO"} {
		if o&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}

// Counters are the kernel's for the interface. Sent is what the kernel has sent, which is
// what Read returns; Received is what Write gave it.
type Counters struct {
	SentPackets, SentBytes, SentDropped, SentErrors                 uint64
	ReceivedPackets, ReceivedBytes, ReceivedDropped, ReceivedErrors uint64
}
