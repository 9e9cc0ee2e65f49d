//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"slices"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/verbs"
)

// Messages of clients to boxes of other engines are management datagrams of a class of their own, for queue
// pair 1. Pools and UCX know which engine sends them. By RoCE everybody can send, who reaches the port:
// such a message gets into a box whose number its sender knows, or to a client that has announced a name
// for all.

// sendMessage carries a message from a box of this engine, by the first link that leads to the other engine.
func (t *Table) sendMessage(to nic.BoxMessage, from uint64, who nic.User) error {
	d := rendezvous.Datagram{Device: t.dev.GUID(), From: from, To: to.Number, Value: to.Value}
	if to.Device != 0 {
		p, err := t.reach(nic.Address{GUID: to.Device}, false)
		if err != nil {
			return noWay{err}
		}
		if p != nil {
			d.Sender = to.User + 1 // strangers do not get it
			mad := d.Put()
			return p.Port.SendManagement(p.Number, gsiHeader(), append(make([]byte, grhSize), mad[:]...))
		}
	}
	if to.GID == ([16]byte{}) {
		return fmt.Errorf("%w: pools and UCX do not, and no IP address is known for RoCE", nic.ErrNoWay)
	}
	m, err := rendezvous.ParseMessage(to.Value)
	if err == nil && (m.Kind == rendezvous.Hold || m.Kind == rendezvous.Reject) { // anybody can cause these
		if _, err := t.May(verbs.RemotePort{GID: to.GID, From: t.Own()}, who); err != nil {
			return noWay{err}
		}
		return t.answerAt(to.GID, &d)
	}
	// The path is held while the datagram is sent. The local address stays open for some seconds after that,
	// in which the answer comes.
	p, release, err := t.HoldPath(nic.Address{GID: to.GID}, who)
	if err != nil {
		return noWay{err}
	}
	defer release()
	mad := d.Put()
	return p.Port.SendManagement(p.Number, gsiHeader(), mad[:])
}

// gsi is the number of the queue pair for management datagrams.
const gsi = 1

// gsiHeader returns the BTH and DETH of a datagram from queue pair 1 to queue pair 1.
func gsiHeader() []byte {
	const key, pkey = 0x80010000, 0xffff
	head := make([]byte, gsiHead)
	packet.BTH{Opcode: packet.MakeOpcode(packet.UD, packet.SendOnly), Migrated: true, PKey: pkey,
		DestQP: gsi}.Put((*[packet.BTHSize]byte)(head))
	packet.DETH{QKey: key, SrcQP: gsi}.Put((*[packet.DETHSize]byte)(head[packet.BTHSize:]))
	return head
}

// takeMessage reports whether a packet for queue pair 1 is a message, and delivers it. from is the path by
// which it has come from a pool or UCX; nil: it has come by RoCE.
func (t *Table) takeMessage(from *nic.Path, b []byte) bool {
	if len(b) != gsiHead+grhSize+rendezvous.Size || !rendezvous.Is(b[gsiHead+grhSize:]) {
		return false
	}
	d, err := rendezvous.ParseDatagram((*[rendezvous.Size]byte)(b[gsiHead+grhSize:]))
	if err != nil {
		return true // of another version, or of nobody who means well: its sender hears nothing
	}
	m := nic.BoxMessage{Device: d.Device, Number: d.From, User: nic.NoUser, Value: d.Value}
	if from != nil {
		m.User = d.Sender - 1
		p, ok := t.current.Load().look(nic.Address{GUID: d.Device})
		if !ok || p.Port != from.Port || p.Number != from.Number {
			return true // a peer that speaks in the name of another
		}
		if packet.ParseDETH((*[packet.DETHSize]byte)(b[packet.BTHSize:])).SrcQP != gsi {
			return true // a program's queue pair, whose number the engine puts there, speaks for it
		}
	} else {
		m.GID = sourceOf(b[gsiHead:][:grhSize])
		if _, ok := t.current.Load().look(nic.Address{GUID: d.Device}); ok || d.Device == t.dev.GUID() {
			// Answers, and a queue pair that the client connects, would go to that engine, which has perhaps
			// not sent this. By the address they go to the one that has.
			m.Device = 0
		}
	}
	switch {
	case d.To == 0:
		t.takeNamed(m)
	case d.To == answerBox && d.From == answerBox: // no client: a client's box is in From
		t.takeSummary(from, m)
	default:
		t.deliver(from, d.To, m)
	}
	return true
}

// takeNamed delivers a message to the client that has announced the name for all. If there is none, the
// sender of a Dial is told so.
func (t *Table) takeNamed(m nic.BoxMessage) {
	dial, err := rendezvous.ParseMessage(m.Value)
	if err != nil || dial.Kind != rendezvous.Dial {
		return
	}
	name, boxes := dial.Name, t.boxesOf(dial.Name)
	if len(boxes) == 1 {
		t.deliver(nil, boxes[0], m)
		return
	}
	why := fmt.Sprintf("no client of engine %016x listens as %q for all", t.dev.GUID(), name)
	if len(boxes) > 1 {
		why = fmt.Sprintf("%d clients of engine %016x listen as %q", len(boxes), t.dev.GUID(), name)
	}
	t.refuse(nil, answerBox, m, dial.ID, why)
}

// deliver puts a message into a client's box. A Dial that the client does not get is answered.
func (t *Table) deliver(from *nic.Path, to uint64, m nic.BoxMessage) {
	err := t.dev.Deliver(to, m)
	if err == nil {
		return
	}
	if dial, other := rendezvous.ParseMessage(m.Value); other == nil {
		t.refuse(from, to, m, dial.ID, err.Error())
	}
}

// refuse answers a Dial in place of the box that was dialled, by the path from which it came; nil: by RoCE.
func (t *Table) refuse(from *nic.Path, box uint64, m nic.BoxMessage, id uint64, why string) {
	answer := rendezvous.Message{Kind: rendezvous.Reject, ID: id, Body: rendezvous.Text(why)}
	d := rendezvous.Datagram{Device: t.dev.GUID(), From: box, To: m.Number, Value: string(answer.Append(nil))}
	if from == nil {
		_ = t.answerAt(m.GID, &d)
		return
	}
	mad := d.Put()
	_ = from.Port.SendManagement(from.Number, gsiHeader(), append(make([]byte, grhSize), mad[:]...))
}

// answerAt sends a stranger, who has sent something by RoCE, an answer by the path that there is. None is
// opened for it, and it keeps none open.
func (t *Table) answerAt(gid [16]byte, d *rendezvous.Datagram) error {
	p, err := t.routeOnce(nic.Address{GID: gid, From: t.Own()})
	if err != nil {
		return noWay{err}
	}
	if p.Port == nil {
		return fmt.Errorf("%w: the address is of this engine", nic.ErrNoWay)
	}
	mad := d.Put()
	return p.Port.SendManagement(p.Number, gsiHeader(), mad[:])
}

// answerBox is the box of the engine itself. No client has it, except by chance.
const answerBox = ^uint64(0)

// boxesOf returns the boxes of the clients of this engine that have announced a name for all.
func (t *Table) boxesOf(name string) (boxes []uint64) {
	for _, e := range t.dev.Announced() {
		if e.User != board.AllUsers {
			continue
		}
		if _, n := rendezvous.Split(e.Value); slices.Contains(n.List, name) {
			boxes = append(boxes, n.Box)
		}
	}
	return boxes
}

// noWay is an error that says why no link leads somewhere.
type noWay struct{ error }

func (e noWay) Is(target error) bool { return target == nic.ErrNoWay }
func (e noWay) Unwrap() error        { return e.error }
