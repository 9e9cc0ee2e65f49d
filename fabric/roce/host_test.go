//go:build linux && (amd64 || arm64)

package roce

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

const deadline = 10 * time.Second

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

// loopback returns n addresses of the loopback device that hardly anybody else has.
func loopback(n int) (list []netip.Addr) {
	x, y := byte(rand.IntN(250)+1), byte(rand.IntN(250))
	for i := range n {
		list = append(list, netip.AddrFrom4([4]byte{127, x, y, byte(i + 1)}))
	}
	return list
}

// nextUp returns the next state that the engine was told.
func (h *host) nextUp() bool {
	h.t.Helper()
	select {
	case up := <-h.ups:
		return up
	case <-time.After(deadline):
		require.Fail(h.t, "the engine is not told the state of the link")
		return false
	}
}

func gid(a netip.Addr) [16]byte { return a.As16() }

// to returns a path, which is held until the end of the test.
func (h *host) to(from, to netip.Addr) nic.Path {
	h.t.Helper()
	p, err := h.Hold(nic.Address{GID: gid(to), From: gid(from)})
	require.NoError(h.t, err)
	return p
}

// send puts a packet into the engine's ring, and waits for room.
func (h *host) send(path uint32, head, payload []byte) {
	h.t.Helper()
	until := time.Now().Add(deadline)
	for {
		b, p, ok := h.port.Send.Reserve(len(head), len(payload))
		if ok {
			copy(b, head)
			copy(p, payload)
			h.port.Send.Publish(path)
			h.port.Wake()
			return
		}
		require.True(h.t, time.Now().Before(until), "the carrier takes no packets")
		h.port.Wake()
		time.Sleep(10 * time.Microsecond)
	}
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
	p, ok := h.within(deadline)
	require.True(h.t, ok, "no packet comes: %+v", h.Stats())
	return p
}

// within waits for the next packet for a limited time.
func (h *host) within(d time.Duration) (received, bool) {
	h.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		var p packetring.Packet
		ok, err := h.port.Receive.Next(&p)
		require.NoError(h.t, err)
		if ok {
			r := received{p.Path, bytes.Clone(p.Head[:p.N]), bytes.Clone(p.Payload)}
			h.port.Receive.Free()
			return r, true
		}
		select {
		case <-h.arrived:
		case <-timer.C:
			return received{}, false
		}
	}
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

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for until := time.Now().Add(deadline); !condition(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(until), "%s", what)
	}
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
