//go:build linux && (amd64 || arm64)

package execution

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// The header that a receiver finds in the 40 bytes before a datagram. On Ethernet it is an
// IPv6 header, which has the layout of a GRH. For a datagram of RoCE v2 between addresses of
// IPv4 it is an IPv4 header in the last 20 bytes. Receivers distinguish the two by the checksum of
// the IPv4 header (ibv_init_ah_from_wc of libibverbs, ib_get_rdma_header_version of Linux). On
// InfiniBand there is a GRH only if the address has one; the 40 bytes are there in any case.

const (
	NextIBA = 0x1b // IBTA transport: InfiniBand and RoCE v1
	NextUDP = 17   // RoCE v2

	Ipv4At   = object.GRHSize - ipv4Size // offset of an IPv4 header
	ipv4Size = 20

	// The service level of a completion says on Ethernet of which kind the packet was; 0 is RoCE
	// v1. UCX drops a datagram whose header it does not understand.
	PacketUDP  = 8 // RoCE v2
	PacketIPv6 = 1
	PacketIPv4 = 2

	udpSize   = 8
	ibHeaders = 12 + 8 // BTH and DETH
	icrcSize  = 4

	AVGlobal   = 1 << 30 // grh_gid_fl: the address has a GRH; only on InfiniBand
	AvIndexAt  = 20      // grh_gid_fl: shift of the source GID index
	Permissive = 0xffff  // the LID that every port has
)

// PutHeader writes the header of a datagram of n bytes, from client c to a queue pair of client to, into the
// scratch. It also sets in the scratch which service level the receiver's completion has (Level), whether the
// datagram has a GRH (Global), and whether the address leads to the port of client to (Reaches).
func (sh *queues) PutHeader(av *wqe.AV, c, to *object.Client, n uint64) {
	s := &sh.Scratch
	s.Global, s.Level = true, 0
	s.Reaches = !sh.Outages.Disturbed || sh.carries(av, c, to)
	from := nic.GID{Addr: c.Hosted.GID}
	if i := int(av.GRH >> AvIndexAt & 0xff); i < len(c.GIDs) && c.GIDs[i] != (nic.GID{}) {
		from = c.GIDs[i]
	}
	dest := &av.RGID
	if c.GIDs == nil && av.DQP != MulticastQPN {
		dest = &to.Hosted.GID // such a client need not write addresses into its WQEs
	}
	if c.Hosted.LID != 0 {
		s.Global, s.Level = av.GRH&AVGlobal != 0, av.RateSL&0xf
		near := av.DQP == MulticastQPN || av.RLID == to.Hosted.LID || av.RLID == Permissive
		s.Reaches = s.Reaches && near
	}
	clear(s.GRH[:])
	if !s.Global {
		return
	}
	size := (n+3)&^3 + ibHeaders + icrcSize // bytes after the header
	if from.UDP {
		size += udpSize
	}
	if from.UDP && mapped(&from.Addr) && mapped(dest) {
		s.Level = PacketUDP | PacketIPv4
		putIPv4(s.GRH[Ipv4At:], av, size, from.Addr[12:], dest[12:])
		return
	}
	be := binary.BigEndian
	be.PutUint32(s.GRH[0:], 6<<28|uint32(av.TClass)<<20|av.GRH&0xfffff)
	be.PutUint16(s.GRH[4:], uint16(size))
	s.GRH[6], s.GRH[7] = NextIBA, max(av.HopLimit, 1)
	if from.UDP {
		s.GRH[6], s.Level = NextUDP, PacketUDP|PacketIPv6
	}
	copy(s.GRH[8:24], from.Addr[:])
	copy(s.GRH[24:40], dest[:])
}

// carries reports whether the ports of two clients carry a datagram: both are up, and if the receiver's GID
// has changed, the address is one that its port has now.
func (sh *queues) carries(av *wqe.AV, c, to *object.Client) bool {
	if !sh.Outages.Carry(c.Hosted.Port, to.Hosted.Port) {
		return false
	}
	if !sh.Outages.Changed(to.Hosted.Port) || c.GIDs == nil || c.Hosted.LID != 0 {
		return true // on InfiniBand, the LID decides
	}
	return av.DQP == MulticastQPN || object.LeadsTo(av, c, to)
}

// putIPv4 writes an IPv4 header without options.
func putIPv4(b []byte, av *wqe.AV, size uint64, from, to []byte) {
	const version, dontFragment = 0x45, 0x4000
	be := binary.BigEndian
	b[0], b[1] = version, av.TClass
	be.PutUint16(b[2:], uint16(ipv4Size+size))
	be.PutUint16(b[6:], dontFragment)
	b[8], b[9] = max(av.HopLimit, 1), NextUDP
	copy(b[12:16], from)
	copy(b[16:20], to)
	sum := uint32(0)
	for i := 0; i < ipv4Size; i += 2 {
		sum += uint32(be.Uint16(b[i:]))
	}
	sum = sum&0xffff + sum>>16
	be.PutUint16(b[10:], ^uint16(sum&0xffff+sum>>16))
}

// mapped reports whether a GID is an IPv4 address (RFC 4291, section 2.5.5.2).
func mapped(g *[16]byte) bool { return [12]byte(g[:12]) == [12]byte{10: 0xff, 11: 0xff} }

var ErrManySources = fmt.Errorf("engine: more than %d sources of datagrams", nic.MaxSources)

const MulticastQPN = 0xffffff
