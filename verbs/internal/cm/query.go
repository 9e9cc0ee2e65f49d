//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// query serves QUERY. The request is struct rdma_ucm_query.
func (m *Manager) query(c *Call, req []byte) error {
	i, err := m.lookUp(c, le.Uint32(req[abi.CMQueryID:]))
	if err != nil {
		return err
	}
	room := int(le.Uint16(c.Written[hdrOut:]))
	var b []byte
	least := addrBefore
	switch option := le.Uint32(req[abi.CMQueryOption:]); option {
	case abi.CMQueryAddr:
		b = i.addresses(i.src, i.dst)
	case abi.CMQueryGID:
		b = i.addresses(i.asGID(&i.src, i.local.GID), i.asGID(&i.dst, i.remote.GID))
	case abi.CMQueryPath:
		b, least = i.paths(room), abi.CMQueryPathRespSize
	default:
		return refuse(unix.ENOSYS, "QUERY: option %d", option)
	}
	if room < least {
		return refuse(unix.ENOSPC, "QUERY: room for a response of %d bytes; it has %d", room, least)
	}
	c.respond(le.Uint64(req[abi.CMQueryResponse:]), b)
	return nil
}

// noIndex says that a device has no number in the kernel's list.
const noIndex = ^uint32(0)

// addresses returns a struct rdma_ucm_query_addr_resp.
func (i *id) addresses(src, dst sockaddr) []byte {
	b := make([]byte, abi.CMQueryAddrRespSize)
	le.PutUint32(b[abi.CMQueryAddrRespIbdevIndex:], noIndex)
	if i.attached {
		be.PutUint64(b[abi.CMQueryAddrRespNodeGUID:], i.m.Devices[i.local.Device].GUID)
		b[abi.CMQueryAddrRespPortNum] = 1
		be.PutUint16(b[abi.CMQueryAddrRespPKey:], defaultPKey)
	}
	le.PutUint16(b[abi.CMQueryAddrRespSrcSize:], uint16(src.size()))
	le.PutUint16(b[abi.CMQueryAddrRespDstSize:], uint16(dst.size()))
	src.put(b[abi.CMQueryAddrRespSrcAddr:])
	dst.put(b[abi.CMQueryAddrRespDstAddr:])
	return b
}

// asGID returns an address of the id as a struct sockaddr_ib.
func (i *id) asGID(a *sockaddr, gid GID) sockaddr {
	if a.family == afIB {
		return *a
	}
	r := sockaddr{family: afIB, addr: netip.AddrFrom16(gid), sid: a.service(i.space)}
	if i.attached {
		r.pkey = defaultPKey
	}
	return r
}

// A path has an MTU, a rate and a lifetime, each with two bits that say "exactly".
const (
	exactly    = 2
	pathFlags  = abi.PathGMP | abi.PathPrimary | abi.PathBidirectional
	rate100    = 16 // IB_RATE_100_GBPS
	reversible = 1
)

// hasPath reports whether the route is known.
func (i *id) hasPath() bool { return i.state >= routeIsResolved && i.state != listening }

// mtu returns the MTU of the id's path: no more than that of its device.
func (i *id) mtu() uint8 {
	own := i.m.Devices[i.local.Device].MTU
	if i.path.MTU != 0 {
		return min(own, i.path.MTU)
	}
	return own
}

// rate returns the rate of the id's path.
func (i *id) rate() uint8 {
	if i.path.Rate != 0 {
		return i.path.Rate
	}
	return rate100
}

// paths returns a struct rdma_ucm_query_path_resp, with as many paths as fit: one or none.
// A path is in the form of a management datagram (struct ibv_path_record).
func (i *id) paths(room int) []byte {
	b := make([]byte, abi.CMQueryPathRespSize)
	if !i.hasPath() {
		return b
	}
	le.PutUint32(b[abi.CMQueryPathRespNumPaths:], 1)
	if room < abi.CMQueryPathRespSize+abi.PathRecDataSize {
		return b
	}
	d := make([]byte, abi.PathRecDataSize)
	le.PutUint32(d[abi.PathRecDataFlags:], pathFlags)
	p := d[abi.PathRecDataPathRec:]
	be.PutUint64(p, i.dst.service(i.space))
	copy(p[8:], i.remote.GID[:])
	copy(p[24:], i.local.GID[:])
	be.PutUint16(p[40:], i.remote.LID)
	be.PutUint16(p[42:], i.local.LID)
	hops, class := i.routing()
	be.PutUint32(p[44:], uint32(hops))
	p[48], p[49] = class, reversible<<7|1
	be.PutUint16(p[50:], defaultPKey)
	p[54], p[55], p[56] = exactly<<6|i.mtu(), exactly<<6|i.rate(), exactly<<6|lifetime
	return append(b, d...)
}

// permissiveLID is a LID that names no port.
const permissiveLID = 0xffff

// requestPath returns the path as it is in a REQ.
func (i *id) requestPath() RequestPath {
	p := RequestPath{LocalGID: i.local.GID, RemoteGID: i.remote.GID, LocalLID: i.local.LID,
		RemoteLID: i.remote.LID, SubnetLocal: i.local.infiniband()}
	p.HopLimit, p.TrafficClass = i.routing()
	if i.local.infiniband() {
		p.Rate = i.rate()
	} else {
		p.LocalLID, p.RemoteLID = permissiveLID, permissiveLID
	}
	return p
}

// queryRoute serves QUERY_ROUTE, which is older. The response is struct
// rdma_ucm_query_route_resp.
func (m *Manager) queryRoute(c *Call, req []byte) error {
	i, err := m.lookUp(c, le.Uint32(req[abi.CMQueryID:]))
	if err != nil {
		return err
	}
	b := make([]byte, abi.CMQueryRouteRespSize)
	if i.src.family != afIB { // the response has no room for other addresses
		i.src.put(b[abi.CMQueryRouteRespSrcAddr:])
		i.dst.put(b[abi.CMQueryRouteRespDstAddr:])
	}
	le.PutUint32(b[abi.CMQueryRouteRespIbdevIndex:], noIndex)
	if i.attached {
		be.PutUint64(b[abi.CMQueryRouteRespNodeGUID:], i.m.Devices[i.local.Device].GUID)
		b[abi.CMQueryRouteRespPortNum] = 1
		p := b[abi.CMQueryRouteRespIBRoute:]
		copy(p[abi.UserPathRecDGID:], i.remote.GID[:])
		copy(p[abi.UserPathRecSGID:], i.local.GID[:])
		be.PutUint16(p[abi.UserPathRecDLID:], i.remote.LID)
		be.PutUint16(p[abi.UserPathRecSLID:], i.local.LID)
		be.PutUint16(p[abi.UserPathRecPKey:], defaultPKey)
		if i.hasPath() {
			le.PutUint32(b[abi.CMQueryRouteRespNumPaths:], 1)
			i.pathRecord(p)
		}
	}
	c.respond(le.Uint64(req[abi.CMQueryResponse:]), b)
	return nil
}

// pathRecord completes a struct ib_user_path_rec.
func (i *id) pathRecord(p []byte) {
	le.PutUint32(p[abi.UserPathRecReversible:], reversible)
	le.PutUint32(p[abi.UserPathRecMTU:], uint32(i.mtu()))
	p[abi.UserPathRecHopLimit], p[abi.UserPathRecTrafficClass] = i.routing()
	p[abi.UserPathRecNumbPath] = 1
	p[abi.UserPathRecMTUSelector], p[abi.UserPathRecRateSelector], p[abi.UserPathRecRate] = exactly, exactly,
		i.rate()
	p[abi.UserPathRecPacketLifeTimeSelector], p[abi.UserPathRecPacketLifeTime] = exactly, lifetime
}
