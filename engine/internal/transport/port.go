//go:build linux && (amd64 || arm64)

package transport

import (
	"encoding/binary"
	"errors"
	"runtime/debug"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/procmem"
)

const (
	// InboxSize is how many packets for QP 1 wait for the carrier's function.
	InboxSize = 64

	// PortBatch is how many packets a step takes from one port, and how many bytes they
	// may have together, before other clients have their turn.
	PortBatch = 64
)

var (
	ErrPortMTU  = errors.New("engine: port with an impossible MTU")
	ErrPortDown = errors.New("engine: the link is down")
	errPortFull = errors.New("engine: the port's ring is full")

	ErrPortFault = errors.New("engine: the port's ring has lost its memory")
)

// A PortHandle is a port as its carrier and the device's router see it.
type PortHandle struct {
	*object.Port
	Server *PortServer
}

// NewPort returns a port of the shard sh that is not served yet.
func NewPort(cfg nic.PortConfig, sh *object.Shard) *object.Port {
	p := &object.Port{Settings: cfg, Shard: sh, Inbox: make(chan [object.ManagementSize]byte, InboxSize)}
	if cfg.Loses {
		p.Paths.Store = recovery.NewStore()
	}
	return p
}

// Arrived wakes the device's thread if it sleeps.
func (h *PortHandle) Arrived() { h.Server.Wake() }

// SetUp says whether the link works.
func (h *PortHandle) SetUp(up bool) {
	p := h.Port
	p.Shard.Do(func() {
		if p.Up == up || p.Dead {
			return
		}
		p.Up, p.Stats.Up = up, up
		p.Woken = 0 // the carrier may reset the rings while the port is down
		p.SetHot(up)
		p.Shard.PortChanges++
		h.Server.RecordLink(p, p.Shard.WatchesAll)
		if up {
			h.Server.resumeWires(p)
		}
	})
}

// Stats returns the counters of the port.
func (h *PortHandle) Stats() (s nic.PortStats) {
	p := h.Port
	p.Shard.Do(func() {
		s = p.Stats
		s.QueuePairs = p.Users
	})
	return s
}

// PathCounts implements nic.Port.
func (h *PortHandle) PathCounts() (all map[uint32]nic.PathCounts) {
	h.Port.Shard.Do(func() { all = h.Port.Paths.Counts() })
	return all
}

// Close takes the port away from the device.
func (h *PortHandle) Close() error {
	p := h.Port
	p.Shard.Do(p.Retire)
	p.Stopped.Do(func() { close(p.Inbox) })
	return nil
}

// PortAt returns the port whose rings contain an address. It returns nil if there is no such port, or if this
// shard may not touch ports now.
func (sh *PortServer) PortAt(addr uintptr) *object.Port {
	first := sh.Shards[0]
	if !sh.Holds(first) {
		return nil
	}
	for _, p := range first.Ports {
		for _, ring := range [][2][]byte{p.Settings.Send.Memory(), p.Settings.Receive.Memory()} {
			for _, mem := range ring {
				if v := procmem.VecOf(mem); uint64(addr)-v.Addr < v.Len {
					return p
				}
			}
		}
	}
	return nil
}

const managementQPN = 1 // number of the queue pair for management datagrams, the GSI

// deliverManagement gives the packet in p, which is for QP 1, to the port's function for such packets. If the
// inbox is full, the packet is lost, as on any network.
func (sh *PortServer) deliverManagement(p *object.Port) {
	k := &p.Packet
	if p.Settings.Loses && sh.takeAgreement(p) {
		return
	}
	if p.Settings.Management == nil || k.N+len(k.Payload) > object.ManagementSize-8 {
		p.Stats.ManagementMissed++
		return
	}
	var b [object.ManagementSize]byte
	putManagement(&b, k)
	select {
	case p.Inbox <- b:
	default:
		p.Stats.ManagementMissed++
	}
}

// Manage calls the port's function for packets for QP 1.
func Manage(p *object.Port) {
	for b := range p.Inbox {
		path, packet := getManagement(&b)
		p.Settings.Management(path, packet)
	}
}

// SendManagement sends a packet of QP 1 on a path.
func (h *PortHandle) SendManagement(path uint32, head, payload []byte) (err error) {
	p := h.Port
	p.Shard.Do(func() {
		if !p.Up {
			err = ErrPortDown
			return
		}
		panics := debug.SetPanicOnFault(true) // this may be the caller's goroutine
		defer debug.SetPanicOnFault(panics)
		defer p.FailAfterFault()
		err = ErrPortFault // the result if a fault of memory ends this function
		h, to, ok := p.Settings.Send.Reserve(len(head), len(payload))
		if !ok {
			err = errPortFull
			return
		}
		copy(h, head)
		copy(to, payload)
		p.Publish(path, len(payload))
		err = nil
	})
	return err
}

// putManagement writes a packet for QP 1: path:32 | length:32 | headers and payload.
func putManagement(b *[object.ManagementSize]byte, k *packetring.Packet) {
	binary.BigEndian.PutUint32(b[0:], k.Path)
	binary.BigEndian.PutUint32(b[4:], uint32(k.N+len(k.Payload)))
	copy(b[8:], k.Head[:k.N])
	copy(b[8+k.N:], k.Payload)
}

// getManagement returns what putManagement has written.
func getManagement(b *[object.ManagementSize]byte) (path uint32, packet []byte) {
	return binary.BigEndian.Uint32(b[0:]), b[8:][:binary.BigEndian.Uint32(b[4:])]
}

// resumeWires marks the queue pairs of a port warm, because its link works again.
func (sh *wires) resumeWires(p *object.Port) {
	for _, q := range sh.Running {
		if q.Wire != nil && q.Wire.Port == p {
			sh.MarkWarm(q)
		}
	}
}
