//go:build linux && (amd64 || arm64)

package verbs

import (
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/cm"
)

// A cmNetwork finds the owners of addresses for the connection manager, as one process sees them.
type cmNetwork struct {
	s   *Server
	net *netns
}

// namespaceOf returns what identifies a network namespace for the connection manager. Unlike GID
// tables, ports belong to the namespace, whichever user takes them.
func namespaceOf(n *netns) cm.Namespace {
	key := n.key
	key.uid = 0
	return key
}

func (n cmNetwork) Local(a cm.Name) (cm.Entry, bool) {
	for i, d := range n.s.devices {
		if index, ok := n.index(d, a); ok {
			e, _ := n.net.entry(d, index)
			return cm.Entry{PortAddress: cm.PortAddress{GID: e.gid, LID: d.lid}, Index: uint8(index),
				Device: i}, true
		}
	}
	return cm.Entry{}, false
}

// index returns which entry of a device's GID table an address is of. On InfiniBand, every IP
// address of the namespace is of the port's own GID, as if its interface were one of IPoIB.
func (n cmNetwork) index(d *device, a cm.Name) (index int, ok bool) {
	gid := a.IP.As16()
	if d.lid != 0 {
		return 0, gid == d.linkLocal() || !a.IsGID && n.net.hasIP(a.IP, a.Scope)
	}
	for index := range gidTableSize {
		e, ok := n.net.entry(d, index)
		if ok && e.gid == gid && e.kind == abi.GIDTypeRoCEV2 &&
			(a.Scope == 0 || a.Scope == e.ifindex || !a.IP.IsLinkLocalUnicast()) {
			return index, true
		}
	}
	return 0, false
}

func (n cmNetwork) Owner(a cm.Name) (cm.Namespace, cm.PortAddress, bool) {
	if a.IP.IsLoopback() { // all of 127.0.0.0/8 is this host
		to := cm.PortAddress{GID: a.IP.As16()}
		if e, ok := n.Local(cm.Name{IP: loopbackIP}); ok && e.LID != 0 {
			to = e.PortAddress
		}
		return namespaceOf(n.net), to, true
	}
	var e cm.Entry
	owner := n.s.search(n.net, func(o *netns) (ok bool) {
		e, ok = cmNetwork{n.s, o}.Local(a)
		return ok
	})
	if owner == nil {
		return n.elsewhere(a)
	}
	return namespaceOf(owner), e.PortAddress, true
}

// elsewhere returns the port that has an address and is none of this server's devices.
func (n cmNetwork) elsewhere(a cm.Name) (cm.Namespace, cm.PortAddress, bool) {
	if n.s.fabric == nil || !a.IP.IsValid() || a.IP.IsUnspecified() || a.IP.IsMulticast() {
		return nil, cm.PortAddress{}, false
	}
	to, ok := n.s.fabric.Find(a.IP)
	return cm.Elsewhere, cm.PortAddress{GID: to.GID, LID: to.LID}, ok
}

// loopbackIP is an address that is the host's own in every namespace.
var loopbackIP = netip.AddrFrom4([4]byte{127, 0, 0, 1})
