//go:build linux && (amd64 || arm64)

package roce

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

const (
	looks     = 1000 // without a pause: for longer than a packet takes between threads that have cores
	sendAgain = 20   // looks, about a millisecond each
)

// A host is a carrier, and a stand-in for its engine: the test itself is at the other ends of the
// rings.
type host struct {
	*Carrier
	t       testing.TB
	port    nic.PortConfig
	arrived chan struct{}
	up      atomic.Bool
	ups     chan bool
	closed  atomic.Bool
	trims   atomic.Int32
}

// An enginePort is the port of a host's engine.
type enginePort struct{ h *host }

func (p enginePort) Arrived() {
	select {
	case p.h.arrived <- struct{}{}:
	default:
	}
}

func (p enginePort) SetUp(up bool) {
	p.h.up.Store(up)
	p.h.ups <- up
}

func (p enginePort) SendManagement(uint32, []byte, []byte) error { panic("roce: not used") }
func (p enginePort) Stats() nic.PortStats                        { return nic.PortStats{} }
func (p enginePort) PathCounts() map[uint32]nic.PathCounts       { return nil }
func (p enginePort) Trim()                                       { p.h.trims.Add(1) }
func (p enginePort) Close() error                                { p.h.closed.Store(true); return nil }

// newHost returns a host with a carrier that is not started.
func newHost(t testing.TB, cfg Config) *host {
	t.Helper()
	if cfg.Log == nil && testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c, err := New(cfg)
	require.NoError(t, err)
	h := &host{Carrier: c, t: t, port: c.PortConfig(), arrived: make(chan struct{}, 1), ups: make(chan bool, 100)}
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return h
}

// startHost returns a host that works, with local addresses.
func startHost(t testing.TB, cfg Config, addresses ...netip.Addr) *host {
	t.Helper()
	h := newHost(t, cfg)
	require.NoError(t, h.Start(enginePort{h}))
	for _, a := range addresses {
		require.NoError(t, h.AddAddress(a))
	}
	return h
}

// nextUp returns the next state that the engine got.
func (h *host) nextUp() bool {
	h.t.Helper()
	return await.Receive(h.t, "the engine is told the state of the link", h.ups)
}

func gid(a netip.Addr) [16]byte { return a.As16() }

// to returns a path, which is held until the end of the test.
func (h *host) to(from, to netip.Addr) nic.Path {
	h.t.Helper()
	p, err := h.Hold(nic.Address{GID: gid(to), From: gid(from)})
	require.NoError(h.t, err)
	return p
}

// put puts a packet into the engine's ring. It returns false if the ring has no room.
func (h *host) put(path uint32, head, payload []byte) bool {
	b, p, ok := h.port.Send.Reserve(len(head), len(payload))
	if ok {
		copy(b, head)
		copy(p, payload)
		h.port.Send.Publish(path)
	}
	h.port.Wake()
	return ok
}

// send puts a packet into the engine's ring, and waits for room.
func (h *host) send(path uint32, head, payload []byte) {
	h.t.Helper()
	await.Until(h.t, "the carrier takes packets", func() bool {
		return h.put(path, head, payload)
	}, func() any { return h.Stats() })
}

// together has the carrier send what put puts into the ring as one batch: the carrier's thread waits for the
// socket of the path meanwhile, with those of the packets that it has taken already.
func (h *host) together(path uint32, put func()) {
	h.t.Helper()
	use := &h.paths.find(path).from.use
	use.Lock()
	defer use.Unlock()
	put()
}

// A received packet is a copy of what was in the engine's ring.
type received struct {
	path    uint32
	head    []byte
	payload []byte
}

// next waits for the next packet.
func (h *host) next() received {
	h.t.Helper()
	for range looks { // most come at once
		if p, ok := h.took(); ok {
			return p
		}
		runtime.Gosched()
	}
	return h.comes(func() {})
}

// comes waits for the next packet, and does again what may bring it.
func (h *host) comes(again func()) (r received) {
	h.t.Helper()
	looked := 0
	await.Until(h.t, "a packet arrives", func() (ok bool) {
		if looked%sendAgain == 0 {
			again()
		}
		looked++
		r, ok = h.took()
		return ok
	}, func() any { return h.Stats() })
	return r
}

// counted waits until the carrier has counted exactly this many packets that it has received: it counts them
// after it has put them into the ring, so the test may have the last one before.
func (h *host) counted(packets int) {
	h.t.Helper()
	await.Until(h.t, fmt.Sprintf("%d packets are counted", packets), func() bool {
		return h.Stats().Received.Packets == uint64(packets)
	}, func() any { return h.Stats() })
}

// took returns the next packet if it is there.
func (h *host) took() (r received, ok bool) {
	h.t.Helper()
	var p packetring.Packet
	ok, err := h.port.Receive.Next(&p)
	require.NoError(h.t, err)
	if ok {
		r = received{p.Path, bytes.Clone(p.Head[:p.N]), bytes.Clone(p.Payload)}
		h.port.Receive.Free()
	}
	return r, ok
}

// head returns headers of an opcode that hardly have zeros.
func head(o packet.Opcode, psn uint32) []byte {
	b := make([]byte, o.Info().HeaderSize)
	for i := range b {
		b[i] = byte(i*7 + int(psn))
	}
	packet.BTH{Opcode: o, PKey: 0xffff, DestQP: 0x123456, PSN: psn, Migrated: true}.Put((*[packet.BTHSize]byte)(b))
	return b
}

// content returns n bytes that depend on a number.
func content(n int, number uint32) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(uint32(i)*3 + number*5 + 1)
	}
	return b
}

var (
	writeOnly   = packet.MakeOpcode(packet.RC, packet.WriteOnly)
	writeMiddle = packet.MakeOpcode(packet.RC, packet.WriteMiddle)
	acknowledge = packet.MakeOpcode(packet.RC, packet.Acknowledge)
	udSend      = packet.MakeOpcode(packet.UD, packet.SendOnly)
)

// opcodes returns all opcodes that are known.
func opcodes() (list []packet.Opcode) {
	for o := range 256 {
		if packet.Opcode(o).Info().Known {
			list = append(list, packet.Opcode(o))
		}
	}
	if len(list) < 50 {
		panic(fmt.Sprint("roce: ", len(list), " opcodes"))
	}
	return list
}

func addressOf(to netip.Addr, class, hops uint8) nic.Address {
	return nic.Address{GID: gid(to), Class: class, HopLimit: hops}
}
