//go:build linux && (amd64 || arm64)

package request

import (
	"log/slog"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/outage"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// A port that clients see goes down and comes back, or gets another GID. The connections of its queue pairs
// are cut: marked (package outage), and taken off their links. A queue pair that is cut finds no peer, as if
// the peer were gone, and takes no other path through the device than before. Datagrams, which have no
// connection, ask for the state of the ports.

// portNumber is the number of the port in events: each device that a client sees has one.
const portNumber = 1

// PortState returns the state of a port. It does not wait.
func (d Device) PortState(n uint8) (s nic.PortState) {
	s.Down, s.Changes = d.Outages.State(n)
	return s
}

// SetPort takes a port down, or up.
func (d Device) SetPort(n uint8, up bool) { d.Do(func() { ports{d}.setPort(n, up) }) }

// ChangeGID gives a port another GID.
func (d Device) ChangeGID(n uint8) { d.Do(func() { ports{d}.changeGID(n) }) }

// ports changes the state of the ports, between two steps.
type ports struct{ Device }

// setPort is SetPort between two steps. All queue pairs are looked at between the same two steps, because
// half a port cannot be down: each takes about 0.1 us. Only those may ask for it who could hold the thread
// anyway.
func (d ports) setPort(n uint8, up bool) {
	if !d.Outages.SetDown(n, !up) {
		return
	}
	kind, text := control.EventPortError, "a port is down"
	if up {
		kind, text = control.EventPortActive, "a port is up again"
	}
	for _, q := range d.QPs {
		switch {
		case q.Client.Hosted.Port != n:
		case up:
			d.mend(q, outage.PortDown)
		default:
			d.cut(q, outage.PortDown)
		}
	}
	d.Journal.Log(slog.LevelInfo, text, "device", d.DeviceNames().Of(n))
	d.notifyPort(n, kind)
}

// changeGID is ChangeGID between two steps.
func (d ports) changeGID(n uint8) {
	before := d.PortState(n).Changes
	d.Outages.ChangeGID(n)
	change := nic.PortState{Changes: before ^ d.PortState(n).Changes}
	for _, sh := range d.Shards {
		for c := range sh.Clients {
			if c.Hosted.Port == n {
				c.Hosted.GID = change.GID(c.Hosted.GID)
			}
		}
	}
	for _, q := range d.QPs {
		if q.Client.Hosted.Port == n {
			d.cut(q, outage.GIDChanged)
		}
	}
	d.Routes++ // datagrams ask for their paths again
	d.Journal.Log(slog.LevelInfo, "a port has another GID", "device", d.DeviceNames().Of(n))
	d.notifyPort(n, control.EventGIDChange)
}

// subnetEvents has the events of the things that a subnet manager does.
var subnetEvents = map[fault.Subnet]control.EventKind{
	fault.ChangeLID: control.EventLIDChange, fault.ChangePKey: control.EventPKeyChange,
	fault.ChangeSM: control.EventSMChange, fault.Reregister: control.EventReregister,
}

// notifyPort sends an event to all clients of a port.
func (d ports) notifyPort(n uint8, kind control.EventKind) {
	for _, sh := range d.Shards {
		for c := range sh.Clients {
			if c.Hosted.Port == n {
				c.Event(kind, portNumber)
			}
		}
	}
}

// cut cuts the connection of q, if it has one, and ends the transfers of q and to q: their work requests are
// executed again from the beginning.
func (d ports) cut(q *object.QP, mark uint64) {
	sh := d.Loops[q.Client.Shard.Number]
	if q.Wire != nil && !outage.Cut(q.Conn.Bound) {
		sh.CutWire(q)
	}
	if q.Wire != nil || q.Conn.Bound != 0 {
		q.Conn.Bound |= mark
	}
	q.Conn.Peer = nil
	q.Life++
	if q.Job != nil && q.Job.Peer != nil {
		sh.EndJob(q)
	}
}

// mend takes a mark from the connection of q.
func (d ports) mend(q *object.QP, mark uint64) {
	was := outage.Cut(q.Conn.Bound)
	q.Conn.Bound &^= mark
	if q.Wire != nil && was && !outage.Cut(q.Conn.Bound) {
		d.Loops[q.Client.Shard.Number].MendWire(q)
	}
}

// queryPort serves OpQueryPort.
func queryPort(c *Client, _ *control.Empty, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	s := c.Device.PortState(c.Hosted.Port)
	p := &control.Port{State: control.PortActive, Changes: s.Changes, GID: c.Hosted.GID}
	if s.Down {
		p.State = control.PortDown
	}
	return p, nil
}
