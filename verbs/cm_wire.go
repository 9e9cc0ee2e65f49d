//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/cm"
)

// A cmWire carries the connection manager's datagrams over the links of a fabric.
type cmWire struct {
	s      *Server
	fabric Fabric
	psn    atomic.Uint32
}

// remotePort returns a port elsewhere, as a fabric is asked for it.
func remotePort(from, to cm.PortAddress) RemotePort {
	return RemotePort{GID: to.GID, From: from.GID, LID: to.LID}
}

func (w *cmWire) Path(from cm.Address, to cm.PortAddress, p *cm.Program) (cm.Path, error) {
	if _, err := w.fabric.May(remotePort(from.PortAddress, to), p.Owner.(*process).user()); err != nil {
		return cm.Path{}, err
	}
	bytes, err := w.fabric.MTU(remotePort(from.PortAddress, to))
	switch {
	case err != nil:
		return cm.Path{}, err
	case bytes != 0 && bytes < mtuBytes(mtu256):
		return cm.Path{}, errors.New("its packets are shorter than 256 bytes")
	}
	return cm.Path{MTU: mtuOf(bytes)}, nil
}

// mtuOf returns the largest MTU that a path has, as in enum ib_mtu; 0 if that is not known.
func mtuOf(bytes int) (mtu uint8) {
	for m := uint8(mtu256); m <= abi.MTU4096 && mtuBytes(m) <= bytes; m++ {
		mtu = m
	}
	return mtu
}

const mtu256 = 1 // the least of enum ib_mtu

func mtuBytes(mtu uint8) int { return 128 << mtu }

func (w *cmWire) SendMAD(from, to cm.PortAddress, mad *cm.MAD) error {
	var head [gsiHead]byte
	var grh [grhSize]byte
	putGSI(&head, &grh, w.psn.Add(1), from.GID, to.GID)
	return w.fabric.SendManagement(remotePort(from, to), head[:], grh[:], mad[:])
}

// Home returns the first namespace that has the address, in the order in which they were made.
func (w *cmWire) Home(to cm.PortAddress, ip netip.Addr) (cm.Namespace, bool) {
	a := cm.Name{IP: netip.AddrFrom16(to.GID).Unmap()}
	if to.LID != 0 {
		a.IsGID = !ip.IsValid()
		if !a.IsGID {
			a.IP = ip
		}
	}
	if a.IP.IsLoopback() { // no other engine can mean a loopback address of this host
		return nil, false
	}
	n := w.s.search(w.s.nowhere, func(o *netns) bool {
		e, ok := cmNetwork{w.s, o}.Local(a)
		return ok && (to.LID == 0 || e.GID == to.GID)
	})
	if n == nil {
		return nil, false
	}
	return namespaceOf(n), true
}

// Hold opens the address if the way is RoCE, and asks for datagrams there.
func (w *cmWire) Hold(at cm.Address, to cm.PortAddress, p *cm.Program) *cm.Held {
	owner := p.Owner.(*process)
	a, user := owner.subscriber, owner.user()
	reach := Reach{Release: func() {}}
	network, err := true, error(nil)
	if to != (cm.PortAddress{}) {
		network, err = w.fabric.May(remotePort(at.PortAddress, to), user)
	}
	switch {
	case err != nil: // Path says so
		return &cm.Held{Release: reach.Release, Covers: func(cm.GID) bool { return false }}
	case network:
		list, all, why := [][gidSize]byte{at.GID}, at.GID == cm.GID{}, "a program waits for connections"
		switch {
		case to != (cm.PortAddress{}):
			why = "rdma_cm connects to " + netip.AddrFrom16(to.GID).Unmap().String()
		case all:
			list, why = w.gidsOf(p), why+" on all addresses"
		}
		reach = w.fabric.Hold(list, all, why, user)
	}
	drops := []func(){reach.Release}
	for _, gid := range reach.GIDs {
		drops = append(drops, a.subscribe(nic.Source{GID: gid, Network: true}))
	}
	if at.GID != (cm.GID{}) {
		drops = append(drops, a.subscribe(nic.Source{GID: at.GID})) // from pools and UCX
	}
	if at.LID != 0 {
		drops = append(drops, a.subscribe(nic.Source{}))
	}
	h := &cm.Held{
		Release: func() {
			for _, f := range drops {
				f()
			}
		},
		Covers: func(gid cm.GID) bool { return slices.Contains(reach.GIDs, [gidSize]byte(gid)) },
	}
	if reach.Missing != nil {
		h.Missing = reach.Missing.Error()
	}
	return h
}

// gidsOf returns the addresses of a program's namespace that are those of a RoCE device.
func (w *cmWire) gidsOf(p *cm.Program) (list [][gidSize]byte) {
	n, ok := p.Network.(cmNetwork)
	if !ok || !slices.ContainsFunc(w.s.devices, func(d *device) bool { return d.lid == 0 }) {
		return nil
	}
	for _, x := range n.net.present() {
		if !x.made && !slices.Contains(list, x.gid) {
			list = append(list, x.gid)
		}
	}
	return list
}

// receive takes a packet that has come for queue pair 1.
func (w *cmWire) receive(packet []byte, network bool) {
	from, to, mad, err := parseGSI(packet)
	if err != nil {
		w.s.manager.CountMalformed()
		return
	}
	if mad[1] != cm.Class && !network {
		w.s.receiveMAD(from, to, mad)
		return
	}
	at, theirs := cm.PortAddress{GID: to}, cm.PortAddress{GID: from}
	for _, d := range w.s.devices {
		if d.lid != 0 && d.linkLocal() == to {
			at.LID = d.lid
			if a, ok := w.fabric.Find(netip.AddrFrom16(from)); ok {
				theirs.LID = a.LID
			}
		}
	}
	w.s.manager.ReceiveMAD(theirs, at, mad, network)
}

// notes describes in sentences what was not done for strangers.
func (w *cmWire) notes() (notes []string) {
	s := w.s.manager.WireStats()
	if s.OverBudget > 0 {
		notes = append(notes, fmt.Sprintf("requests for connections that were dropped, because their address has sent too many: %d", s.OverBudget))
	}
	if n := s.Strangers + s.Malformed; n > 0 {
		notes = append(notes, fmt.Sprintf("management datagrams of nobody who is known to the connection manager: %d", n))
	}
	return append(notes, w.s.farNotes()...)
}
