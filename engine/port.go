//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/packet"
)

// A port leads to queue pairs of other devices. It is a pair of rings of packets: at their
// other ends is a carrier, which sends the packets over a network, or another device. The
// first shard's thread serves all ports.
//
// The protocol is the InfiniBand transport. wire.go says how a queue pair uses a port.
type port struct {
	cfg     nic.PortConfig
	sh      *shard
	packet  packetring.Packet       // the packet that is being served
	bth     packet.BTH              // its header
	known   [portCache]*qp          // queue pairs that packets have named lately, by the low bits of their numbers
	acks    []*wire                 // of queue pairs that owe an acknowledgement at the end of this batch; each at most once
	users   int                     // queue pairs that use the port
	guards  map[guardKey]*pathGuard // of the paths by which packets come to them
	up      bool
	dead    bool   // closed, or the other side has written what cannot be right
	left    int    // bytes that are left of the budget of this batch
	hot     bool   // polled in each step, because packets have come or gone lately
	idle    uint32 // polls since then
	woken   uint64 // number of packets sent when the carrier was woken last
	stats   nic.PortStats
	inbox   chan [managementSize]byte
	stopped sync.Once
}

// portCache is how many queue pairs a port finds without looking into the device's table.
const portCache = 256

// managementSize is room for a path number, the length, and a packet for QP 1: headers, a GRH and
// a MAD of 256 bytes.
const managementSize = 8 + 24 + grhSize + 256

// inboxSize is how many packets for QP 1 wait for the carrier's function.
const inboxSize = 64

// A portBatch is how many packets a step takes from one port, and how many bytes they
// may have together, before other clients have their turn.
const portBatch = 64

var (
	errPortMTU  = errors.New("engine: port with an impossible MTU")
	errPortDown = errors.New("engine: the link is down")
	errPortFull = errors.New("engine: the port's ring is full")

	errPortFault = errors.New("engine: the port's ring has lost its memory")
)

// AddPort gives the device a port.
func (d nicDevice) AddPort(cfg nic.PortConfig) (nic.Port, error) {
	if cfg.MTU < 256 || cfg.MTU > packetring.MaxPayload-grhSize || cfg.MTU%4 != 0 {
		return nil, fmt.Errorf("%w: %d; a multiple of 4 from 256 to %d is needed", errPortMTU, cfg.MTU, packetring.MaxPayload-grhSize)
	}
	if longest := cfg.Send.Longest(); cfg.MTU+grhSize > longest {
		return nil, fmt.Errorf("%w: %d; the ring takes payloads of %d bytes at any time, and a GRH has %d", errPortMTU, cfg.MTU, longest, grhSize)
	}
	p := &port{cfg: cfg, sh: d.shards[0], inbox: make(chan [managementSize]byte, inboxSize)}
	if cfg.Management != nil {
		go manage(p)
	}
	d.Do(func() {
		p.sh.ports = append(p.sh.ports, p)
		p.acks = slices.Grow(p.acks, portBatch)
		p.sh.portChanges++
	})
	return &portHandle{p, &d.loops[0].portServer}, nil
}

// SetRouter names who finds paths to other devices, and forgets the paths that it has found.
func (d nicDevice) SetRouter(r nic.Router) {
	d.Do(func() {
		d.router = r
		d.routes++
	})
}

// SetPath names the path to the peer that a queue pair is connected with next.
func (c *caller) SetPath(qpn uint32, to nic.Path) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.e.Do(func() {
		if q := c.qps[qpn]; q != nil {
			q.conn.path = &to
		} else {
			err = notFound("QP", qpn)
		}
	})
	return err
}

// A portHandle is a port as its carrier and the device's router see it.
type portHandle struct {
	*port
	sh *portServer
}

// Arrived wakes the device's thread if it sleeps.
func (h *portHandle) Arrived() { h.sh.wake() }

func (h *portHandle) SetUp(up bool) {
	p := h.port
	p.sh.Do(func() {
		if p.up == up || p.dead {
			return
		}
		p.up, p.stats.Up = up, up
		p.woken = 0 // the carrier may reset the rings while the port is down
		p.setHot(up)
		p.sh.portChanges++
		if up {
			h.sh.resumeWires(p)
		}
	})
}

func (h *portHandle) Stats() (s nic.PortStats) {
	p := h.port
	p.sh.Do(func() {
		s = p.stats
		s.QueuePairs = p.users
	})
	return s
}

func (h *portHandle) Close() error {
	p := h.port
	p.sh.Do(p.retire)
	p.stopped.Do(func() { close(p.inbox) })
	return nil
}

// retire takes the port away from its shard. Its queue pairs find it dead.
func (p *port) retire() {
	p.dead, p.up, p.stats.Up = true, false, false
	p.setHot(false)
	p.sh.ports = slices.DeleteFunc(p.sh.ports, func(o *port) bool { return o == p })
	p.sh.portChanges++
}

// fail is called when the other side has written into the ring what cannot be right.
func (p *port) fail(err error) {
	p.retire()
	p.sh.journal.Log(slog.LevelError, "a link is given up: its ring holds what no packet can be", "link", p.cfg.Name, "error", err.Error())
	if p.cfg.Failed != nil {
		go p.cfg.Failed(err)
	}
}

// portAt returns the port that has an address in its rings: nil if none has, or if this shard may
// not touch ports now.
func (sh *portServer) portAt(addr uintptr) *port {
	first := sh.shards[0]
	if !sh.holds(first) {
		return nil
	}
	for _, p := range first.ports {
		for _, mem := range [][]byte{p.cfg.Send.Memory(), p.cfg.Receive.Memory()} {
			if v := procmem.VecOf(mem); uint64(addr)-v.Addr < v.Len {
				return p
			}
		}
	}
	return nil
}

const (
	managementQPN = 1
	defaultPKey   = 0xffff
)

// deliverManagement gives a packet for QP 1 to the function of the port. If too many wait, the
// packet is lost, as on any network.
func (sh *portServer) deliverManagement(p *port) {
	k := &p.packet
	if p.cfg.Management == nil || k.N+len(k.Payload) > managementSize-8 {
		p.stats.ManagementMissed++
		return
	}
	var b [managementSize]byte
	putManagement(&b, k)
	select {
	case p.inbox <- b:
	default:
		p.stats.ManagementMissed++
	}
}

// manage calls the port's function for packets for QP 1.
func manage(p *port) {
	for b := range p.inbox {
		path, packet := getManagement(&b)
		p.cfg.Management(path, packet)
	}
}

func (h *portHandle) SendManagement(path uint32, head, payload []byte) (err error) {
	p := h.port
	p.sh.Do(func() {
		if !p.up {
			err = errPortDown
			return
		}
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // this may be the caller's goroutine
		defer p.failAfterFault()
		err = errPortFault // if it stays so
		h, to, ok := p.cfg.Send.Reserve(len(head), len(payload))
		if !ok {
			err = errPortFull
			return
		}
		copy(h, head)
		copy(to, payload)
		p.publish(path, len(payload))
		err = nil
	})
	return err
}

// putManagement writes a packet for QP 1: path:32 | length:32 | headers and payload.
func putManagement(b *[managementSize]byte, k *packetring.Packet) {
	binary.BigEndian.PutUint32(b[0:], k.Path)
	binary.BigEndian.PutUint32(b[4:], uint32(k.N+len(k.Payload)))
	copy(b[8:], k.Head[:k.N])
	copy(b[8+k.N:], k.Payload)
}

func getManagement(b *[managementSize]byte) (path uint32, packet []byte) {
	return binary.BigEndian.Uint32(b[0:]), b[8:][:binary.BigEndian.Uint32(b[4:])]
}
