//go:build linux && (amd64 || arm64)

// Package outage knows the state of a device's ports: whether each is up, and how often its GID has changed.
//
// Servers show programs several devices; all of them are this one device, and each has one port. Clients in
// Go are at port 0.
//
// A connection that a port does not carry is marked in the serial number of the peer (object.QP.Conn.Bound):
// the number with a mark is the number of no queue pair. So a queue pair that is cut off finds no peer, and
// nothing asks for the state of a port while work requests are executed.
package outage

import "sync/atomic"

// Most is the most ports of a device: verbs.MaxDevices, and a bit for each in a word of 32.
const Most = 32

// Marks in the serial number of a peer. A device that made a queue pair each nanosecond would need a century
// to reach them.
const (
	PortDown   uint64 = 1 << 63 // the port is down: the mark goes when it is up again
	GIDChanged uint64 = 1 << 62 // the GID has changed: the mark goes when the queue pair is connected again
	marks             = PortDown | GIDChanged
)

// Cut reports whether the serial number of a peer has a mark.
func Cut(serial uint64) bool { return serial&marks != 0 }

// Ports is the state of all ports of a device. The zero value has ports that are up and have their first
// GIDs. It changes between steps only. State may be called at any time.
type Ports struct {
	// Disturbed is false as long as no port has ever been down or got another GID. It keeps datagrams of
	// devices without faults from asking more.
	Disturbed bool
	ports     [Most]port
}

type port struct {
	down    atomic.Bool
	changes atomic.Uint32 // number of changes of the GID
}

// State returns whether a port is down, and how often its GID has changed. n is less than Most.
func (p *Ports) State(n uint8) (down bool, changes uint32) {
	return p.ports[n].down.Load(), p.ports[n].changes.Load()
}

// Down reports whether port n is down.
func (p *Ports) Down(n uint8) bool { return p.Disturbed && p.ports[n].down.Load() }

// Carry reports whether something from port a reaches port b: both are up.
func (p *Ports) Carry(a, b uint8) bool { return !p.Disturbed || !p.Down(a) && !p.Down(b) }

// Changed reports whether the GID of port n has ever changed.
func (p *Ports) Changed(n uint8) bool { return p.Disturbed && p.ports[n].changes.Load() > 0 }

// SetDown takes port n down or up, and reports whether that changes its state.
func (p *Ports) SetDown(n uint8, down bool) (changed bool) {
	p.Disturbed = true
	return p.ports[n].down.Swap(down) != down
}

// ChangeGID counts one more change of the GID of port n.
func (p *Ports) ChangeGID(n uint8) {
	p.Disturbed = true
	p.ports[n].changes.Add(1)
}
