//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"
	"sync"
)

// An announcement is the last list of this server's addresses that the fabric has got. Other engines of a
// pool find this one by them: unlike on a network, there is no other way to find an address.
type announcement struct {
	mu   sync.Mutex // held while the fabric is updated, so that its last list is the newest
	list []RemotePort
}

// announce gives the fabric the addresses of the ports, if they have changed. The caller holds
// no lock of the tables of addresses.
func (s *Server) announce() {
	if s.fabric == nil {
		return
	}
	a := &s.announced
	a.mu.Lock()
	defer a.mu.Unlock()
	if list := s.ports(); !slices.Equal(list, a.list) {
		a.list = list
		s.fabric.SetAddresses(list)
	}
}

// ports returns the addresses of all ports: first the devices' own, then those of the namespaces, in
// the order in which these were made. Loopback addresses are left out: no other engine can mean
// them.
func (s *Server) ports() (list []RemotePort) {
	seen := make(map[[gidSize]byte]bool)
	add := func(gid [gidSize]byte, lid uint16) {
		if !seen[gid] {
			seen[gid] = true
			list = append(list, RemotePort{GID: gid, LID: lid})
		}
	}
	var ethernet []*device
	for _, d := range s.devices {
		add(d.linkLocal(), d.lid)
		if d.lid == 0 {
			ethernet = append(ethernet, d)
		}
	}
	if len(ethernet) == 0 { // the GID of an InfiniBand port is of no namespace
		return list
	}
	s.networks.mu.Lock()
	all := append([]*netns{s.nowhere}, s.networks.all...)
	s.networks.mu.Unlock()
	for _, n := range all {
		for _, x := range n.present() {
			switch {
			case x.made:
				for _, d := range ethernet {
					add(d.global(), 0)
				}
			case x.class() != classLoopback:
				add(x.gid, 0)
			}
		}
	}
	return list
}

// present returns the slots that have an address.
func (n *netns) present() []slot {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(n.slots), func(x slot) bool { return !x.present })
}
