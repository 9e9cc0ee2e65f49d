//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"net/netip"
	"sync/atomic"

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

func (w *cmWire) Path(from cm.Address, to cm.PortAddress) (cm.Path, error) {
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
		if a.IsGID = !ip.IsValid(); ip.IsValid() {
			a.IP = ip
		}
	}
	if a.IP.IsLoopback() { // which nobody else can mean
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

func (w *cmWire) Hold(at cm.Address) (release func()) { return w.fabric.Hold(at.GID) }

// receive takes a packet that has come for queue pair 1.
func (w *cmWire) receive(packet []byte) {
	from, to, mad, err := parseGSI(packet)
	if err != nil {
		w.s.manager.CountMalformed()
		return
	}
	at, theirs := cm.PortAddress{GID: to}, cm.PortAddress{GID: from}
	for _, d := range w.s.devices {
		if d.lid != 0 && d.local == to {
			at.LID = d.lid
			if a, ok := w.fabric.Find(netip.AddrFrom16(from)); ok {
				theirs.LID = a.LID
			}
		}
	}
	w.s.manager.ReceiveMAD(theirs, at, mad)
}
