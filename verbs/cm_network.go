//go:build linux && (amd64 || arm64)

package verbs

import (
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/cm"
)

// A cmNetwork tells the connection manager who has which address, as one process sees it.
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

func (n cmNetwork) Local(ip netip.Addr, scope uint32) (cm.Entry, bool) {
	gid := ip.As16()
	for i, d := range n.s.devices {
		for index := range gidTable {
			e, ok := n.net.entry(d, index)
			if ok && e.gid == gid && e.kind == abi.GIDTypeRoCEV2 && (scope == 0 || scope == e.ifindex || !ip.IsLinkLocalUnicast()) {
				return cm.Entry{GID: gid, Index: uint8(index), Device: i}, true
			}
		}
	}
	return cm.Entry{}, false
}

func (n cmNetwork) Owner(ip netip.Addr) (cm.Namespace, cm.GID, bool) {
	gid := ip.As16()
	if ip.IsLoopback() { // all of 127.0.0.0/8 is this host
		return namespaceOf(n.net), gid, true
	}
	owner, d := n.s.owner(n.net, gid)
	if d == nil {
		return nil, gid, false
	}
	return namespaceOf(owner), gid, true
}
