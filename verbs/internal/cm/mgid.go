//go:build linux && (amd64 || arm64)

package cm

import (
	"hash/crc32"
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
)

// The queue pair number that stands for every member of a group, the first LID of a group, and
// how many LIDs groups have here.
const (
	multicastQPN  = 0xffffff
	multicastLID  = 0xc000
	multicastLIDs = 0x2000
)

// address returns where datagrams to the group are sent: its GID (MGID) and its LID.
func (g *group) address(a *sockaddr) PortAddress {
	if !g.id.local.infiniband() { // cma_iboe_set_mgid, for RoCE v2
		if a.any() {
			return PortAddress{LID: multicastLID}
		}
		return PortAddress{gidOf(a.ip()), multicastLID}
	}
	gid := g.mgid(a)
	return PortAddress{gid, mlid(gid)}
}

// mgid returns the GID of a group on InfiniBand (cma_set_mgid): that of IPoIB's group for the
// IP address, but groups of the port space UDP have a signature of their own.
func (g *group) mgid(a *sockaddr) (gid GID) {
	ip := a.ip()
	switch {
	case a.any(): // the subnet manager makes a new group
		gid = GID{0: 0xff, 1: 0x10 | scopeLink, 2: 0xa0, 3: 0x1b, 4: 0xfe, 5: 0x80}
		be.PutUint32(gid[12:], g.handle)
		return gid
	case a.family == afIB, a.family == afINET6 && isMade(ip):
		return gidOf(ip)
	}
	gid = ipoib(ip)
	if g.id.space == abi.CMPSUDP {
		gid[3] = 0x01
	}
	return gid
}

// scopeLink is the scope of IPoIB's groups: one subnet.
const scopeLink = 2

// isMade reports whether an IPv6 address is a GID that a subnet manager has made.
func isMade(ip netip.Addr) bool {
	b := gidOf(ip)
	return b[0] == 0xff && b[1]&0xf0 == 0x10 && b[2] == 0xa0 && b[3] == 0x1b
}

// ipoib returns the GID of IPoIB's group for the IP address of a group (RFC 4391, section 4;
// ip_ib_mc_map and ipv6_ib_mc_map).
func ipoib(ip netip.Addr) GID {
	b := gidOf(ip)
	gid := GID{0: 0xff, 1: 0x10 | scopeLink, 3: 0x1b, 4: defaultPKey >> 8, 5: defaultPKey & 0xff}
	if ip.Is4() {
		gid[2] = 0x40
		copy(gid[12:], b[12:])
		gid[12] &= 0x0f
	} else {
		gid[2] = 0x60
		copy(gid[6:], b[6:])
	}
	return gid
}

// mlid returns the LID of a group on InfiniBand. A subnet manager would remember which LIDs it
// has given to which groups, and two groups may have one: packets carry the GID too.
func mlid(gid GID) uint16 { return multicastLID + uint16(crc32.ChecksumIEEE(gid[:])%multicastLIDs) }
