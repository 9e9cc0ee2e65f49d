//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/mmsg"
	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

const (
	defaultHops = 64 // TTL or hop limit if an address has 0
	nameSize    = unix.SizeofSockaddrInet6
	ecnMask     = 3
	ecnECT0     = 2
	ecnCE       = 3
)

// A key names a path.
type key struct {
	local       uint32 // number of the local address
	remote      [16]byte
	class, hops uint8
}

// A path is one way to a remote address. Fields that are not atomic do not change after the
// path was put into the table, except refs, routes, origin and the links, which the table's lock guards.
type path struct {
	key
	number uint32
	source *path // the path with class 0 and the default hop limit; packets that are received come on it
	from   *local
	remote netip.Addr // without a zone
	peer   *remote    // on links with keys; otherwise nil

	socket  int                       // which socket of the local address sends
	send    packet.Flow               // from that socket to the remote address
	receive packet.Flow               // from the remote address; the source port is still to be set
	name    [nameSize]byte            // remote address for sendmsg
	nameLen uint32                    // of name
	control [2 * mmsg.ControlInt]byte // traffic class and hop limit for sendmsg
	options int                       // bytes of control

	mtu       atomic.Int32          // IB MTU, if it is smaller than that of the local address; 0: it is not
	sent      atomic.Uint64         // packets
	received  atomic.Uint64         // packets; counted in source
	fault     atomic.Pointer[fault] // why packets cannot be sent; nil: they can
	requested atomic.Bool           // this engine has requested the path: origin is wanted
	refs      int                   // routes, and how many paths have this one as their source
	origin    origin                // in which list of the table the path is if refs is 0
	routes    int                   // calls of Hold without Release
	nextID    uint16                // for the receiver: the identification that the next packet may have
	next      *path                 // the next path in the list, which was used later
	previous  *path
}

// A fault says why packets cannot be sent, and when the next one is tried.
type fault struct {
	errno unix.Errno
	since time.Time
	again atomic.Int64 // when the next packet is tried: nanoseconds from since on
}

// newPath returns a path that is not in the table yet.
func newPath(k key, from *local, ect bool) *path {
	p := &path{key: k, from: from, remote: netip.AddrFrom16(k.remote).Unmap()}
	p.socket = from.socketFor(k.remote)
	there := netip.AddrPortFrom(p.remote, packet.Port)
	p.send = packet.MakeFlow(netip.AddrPortFrom(from.plain, from.senders[p.socket].port), there)
	p.receive = packet.MakeFlow(netip.AddrPortFrom(p.remote, 0), netip.AddrPortFrom(from.plain, packet.Port))

	le, be := binary.LittleEndian, binary.BigEndian
	be.PutUint16(p.name[2:], packet.Port)
	class := k.class &^ ecnMask
	if ect {
		class |= ecnECT0
	}
	level, tos, ttl := int32(unix.IPPROTO_IP), int32(unix.IP_TOS), int32(unix.IP_TTL)
	if p.remote.Is4() {
		le.PutUint16(p.name[0:], unix.AF_INET)
		copy(p.name[4:], p.remote.AsSlice())
		p.nameLen = unix.SizeofSockaddrInet4
	} else {
		le.PutUint16(p.name[0:], unix.AF_INET6)
		copy(p.name[8:], p.remote.AsSlice())
		le.PutUint32(p.name[24:], from.scope)
		p.nameLen = unix.SizeofSockaddrInet6
		level, tos, ttl = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	control := p.control[:0]
	if class != 0 {
		control = mmsg.AppendInt(control, level, tos, 4, uint32(class))
	}
	if k.hops != defaultHops {
		control = mmsg.AppendInt(control, level, ttl, 4, uint32(k.hops))
	}
	p.options = len(control)
	return p
}

// MTU returns the IB MTU of the path.
func (p *path) MTU() int {
	n := int(p.from.mtu.Load())
	if own := int(p.mtu.Load()); own != 0 {
		n = min(n, own)
	}
	return n
}
