//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// An ah is an address handle. libmlx5 writes the address into the WQEs itself, so the
// object has no data. The server only answers with the Ethernet address for the GID.
type ah struct{ *object }

// createAH serves CREATE_AH. The request is struct ib_uverbs_create_ah.
func createAH(c *call, req []byte) error {
	x := c.x
	p, err := lookup[*pd](c, "pd", le.Uint32(req[abi.CreateAHPDHandle:]), kindPD)
	if err != nil {
		return err
	}
	to := req[abi.CreateAHAttr:] // struct ib_uverbs_ah_attr
	peer := peerAddress{global: to[abi.AHAttrIsGlobal], port: to[abi.AHAttrPortNum],
		sourceGID: to[abi.AHAttrGRHSGIDIndex], gid: [gidSize]byte(to[abi.AHAttrGRHDGID:]),
		lid: le.Uint16(to[abi.AHAttrDLID:])}
	if err := x.checkAddress(peer); err != nil {
		return err
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	a := new(ah)
	a.object = x.add(kindAH, a, func() error {
		x.releasePath(a.object)
		return nil
	}, nil, p.object)
	if err := x.holdForDatagrams(a.object, peer); err != nil {
		return errors.Join(err, x.remove(a.object))
	}
	c.put32(abi.AttrCoreOut, a.handle)
	d := make([]byte, abi.MLX5CreateAHRespSize)
	le.PutUint32(d[abi.MLX5CreateAHRespResponseLength:], uint32(len(d)))
	mac := x.macOf([gidSize]byte(to[abi.AHAttrGRHDGID:]))
	copy(d[abi.MLX5CreateAHRespDMAC:], mac[:])
	c.put(abi.AttrUHWOut, d)
	return nil
}

// A peerAddress is the address of a peer, in a struct ib_uverbs_ah_attr or ib_uverbs_qp_dest.
type peerAddress struct {
	global, port, sourceGID uint8
	class, hops             uint8
	gid                     [gidSize]byte
	lid                     uint16
}

// checkAddress checks the fields that the address of every peer has.
func (x *uctx) checkAddress(to peerAddress) error {
	switch {
	case to.port != 1:
		return refuse(eINVAL, "address: port %d; there is one, 1", to.port)
	case to.global == 0 && x.device.lid != 0:
		return nil
	case to.global == 0:
		return refuse(eINVAL, "address: is_global is 0; on Ethernet every address has a GID (ibv_rc_pingpong and its like: -g 0; qperf: -cm1)")
	}
	if _, ok := x.net.entry(x.device, int(to.sourceGID)); !ok {
		return refuse(eINVAL, "address: sgid_index %d: that entry of the GID table is empty", to.sourceGID)
	}
	return nil
}

// isHere reports whether the address of a connection leads to a device of this engine.
func (x *uctx) isHere(to peerAddress) bool {
	if x.device.lid != 0 {
		return x.s.hasLID(to.lid)
	}
	_, d := x.s.owner(x.net, to.gid)
	return d != nil
}

// noPeer refuses an address to which no path leads.
func (x *uctx) noPeer(to peerAddress, why string) error {
	if x.device.lid != 0 {
		return refuse(unix.EHOSTUNREACH, "peer with LID %#x: no InfiniBand device of this engine has that LID; %s", to.lid, why)
	}
	return refuse(unix.EHOSTUNREACH, "peer %s: no device of this engine has that GID; %s", gidText(to.gid), why)
}

// macOf returns the Ethernet address for a GID. The address is never used if the GID is not
// one of this engine's, because the engine finds receivers by their queue pair numbers.
func (x *uctx) macOf(gid [gidSize]byte) (m [6]byte) {
	if _, d := x.s.owner(x.net, gid); d != nil {
		return d.mac()
	}
	if ip := (&address{gid: gid}).ip(); ip.IsMulticast() && ip.Is4() {
		return [6]byte{1, 0, 0x5e, gid[13] & 0x7f, gid[14], gid[15]} // RFC 1112, section 6.4
	} else if ip.IsMulticast() {
		return [6]byte{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]} // RFC 2464, section 7
	}
	m[0] = 2 // locally administered
	copy(m[1:], gid[11:16])
	return m
}
