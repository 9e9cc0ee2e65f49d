//go:build linux && (amd64 || arm64)

package netdev

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
)

// A stranger is a client that announces an interface, and then sends messages of any kind to another one.
type stranger struct {
	t    *testing.T
	c    *nicless.Context
	to   netip.Addr // of the interface that gets the messages
	said announcement
	pd   *nicless.PD
	cq   *nicless.CQ
	qp   *nicless.QP
	mr   *nicless.MR

	receives int // of each queue pair
}

// newStranger connects to an interface. It is named, because an engine lists its interfaces in the order in
// which they announced themselves, and that may be any.
func newStranger(t *testing.T, to *node, said announcement, receives ...int) *stranger {
	t.Helper()
	c := client(t, to.socket)
	s := &stranger{t: t, c: c, to: to.addr, said: said}
	if s.said.life == 0 {
		s.said.life = 1 // less than the other's: its dials go first
	}
	require.NoError(t, c.Announce(s.said.put(nil)))
	s.makeQueues()
	if len(receives) > 0 {
		s.receives = receives[0]
	}
	s.connect()
	return s
}

// noReceives makes a stranger that takes nothing.
const noReceives = 0

func (s *stranger) makeQueues() {
	s.t.Helper()
	s.receives = 100
	var err error
	s.pd, err = s.c.AllocPD()
	require.NoError(s.t, err)
	s.cq, err = s.c.CreateCQ(nicless.CQConfig{})
	require.NoError(s.t, err)
	s.mr, err = s.pd.RegisterMemory(1<<20, nicless.LocalWrite)
	require.NoError(s.t, err)
}

// hears returns the interface's announcement.
func (s *stranger) hears() (a nicless.Announcement) {
	s.t.Helper()
	await.Until(s.t, "the interface announces itself", func() bool {
		list, err := s.c.Announcements()
		require.NoError(s.t, err)
		i := slices.IndexFunc(list, func(one nicless.Announcement) bool {
			found, err := parseAnnouncement(one.Value)
			return err == nil && slices.Contains(found.addresses, s.to)
		})
		if i >= 0 {
			a = list[i]
		}
		return i >= 0
	})
	return a
}

// connect connects another queue pair.
func (s *stranger) connect() {
	s.t.Helper()
	require.NoError(s.t, s.dial())
	for i := range s.receives {
		require.NoError(s.t, s.qp.PostRecv(&nicless.RecvWR{ID: uint64(i), SGE: []nicless.SGE{s.mr.SGE(1<<19, 1<<17)}}))
	}
}

// dial dials the interface with another queue pair.
func (s *stranger) dial() (err error) {
	s.t.Helper()
	s.qp, err = s.pd.CreateQP(nicless.QPConfig{SendCQ: s.cq, SignalAll: true, MaxSendWR: 200, MaxInline: messageSize})
	require.NoError(s.t, err)
	to := s.hears()
	_, err = s.c.DialClient(s.t.Context(), &to, dialled, s.qp, connection)
	return err
}

// sends sends a message, and returns whether it arrived.
func (s *stranger) sends(b []byte) bool {
	s.t.Helper()
	n := copy(s.mr.Bytes(), b)
	require.NoError(s.t, s.qp.PostSend(&nicless.SendWR{ID: noPacket, Op: nicless.Send, SGE: []nicless.SGE{s.mr.SGE(0, n)}}))
	var c [1]nicless.Completion
	for {
		_, err := s.cq.Wait(s.t.Context(), c[:])
		require.NoError(s.t, err)
		if c[0].QPN == s.qp.QPN() && c[0].ID == noPacket { // not a receive
			return c[0].Err() == nil
		}
	}
}

func text(m message, rest ...byte) []byte {
	var head [messageSize]byte
	m.put(&head)
	return append(head[:], rest...)
}

// A hostile peer's messages are refused, and harm no other peer.
func TestHostileMessages(t *testing.T) {
	socket := serve(t)
	slots := filepath.Join(filepath.Dir(socket), "slots")
	friend := start(t, socket, "10.1.0.2", slotsOf(t, slots, 1))
	a := start(t, socket, "10.1.0.1", slotsOf(t, slots, 0))
	a.meets(friend)
	friend.meets(a)

	// The stranger maps the slots, too, and signs an area.
	mem := &Config{}
	slotsOf(t, slots, 2)(mem)
	area, err := newSlots(mem.Slots.region, 4, 2, false)
	require.NoError(t, err)
	own := announcement{life: 1, mtu: 65520, area: 2, slots: area.count, name: "evil\n", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
	area.sign(own.life)
	s := newStranger(t, a, own)

	good := packet(own.addresses[0], a.addr, 700, 1)
	slot := area.slot(2, 0)
	copy(slot[packetAt:], good)
	area.publish(slot, 9, len(good))
	with := func(change func(b []byte)) []byte {
		b := packet(own.addresses[0], a.addr, 700, 1)
		change(b)
		return text(message{kind: kindPacket, length: uint32(len(b))}, b...)
	}
	for name, b := range map[string][]byte{
		"empty":                 nil,
		"short":                 make([]byte, messageSize-1),
		"kind 0":                make([]byte, messageSize),
		"kind 5":                text(message{kind: 5, length: 100}),
		"length too small":      text(message{kind: kindPacket, length: HeaderSize}, make([]byte, HeaderSize)...),
		"length too large":      text(message{kind: kindSlot, length: MaxPacket + 1, tag: 9}),
		"length lies":           text(message{kind: kindPacket, length: 700}, make([]byte, 600)...),
		"more behind freed":     text(message{kind: kindFreed}, 1),
		"slot too large":        text(message{kind: kindSlot, slot: uint16(area.count), length: 700, tag: 9}),
		"slot 65535":            text(message{kind: kindSlot, slot: 65535, length: 700, tag: 9}),
		"another tag":           text(message{kind: kindSlot, slot: 0, length: uint32(len(good)), tag: 8}),
		"slot never written":    text(message{kind: kindSlot, slot: 1, length: uint32(len(good)), tag: 9}),
		"slot's length lies":    text(message{kind: kindSlot, slot: 0, length: uint32(len(good)) + 1, tag: 9}),
		"no IP":                 with(func(b []byte) { b[HeaderSize] = 0x20 }),
		"another's address":     with(func(b []byte) { copy(b[HeaderSize+12:], friend.addr.AsSlice()) }),
		"the receiver's":        with(func(b []byte) { copy(b[HeaderSize+12:], a.addr.AsSlice()) }),
		"to another":            with(func(b []byte) { copy(b[HeaderSize+16:], friend.addr.AsSlice()) }),
		"IP length":             with(func(b []byte) { b[HeaderSize+2]++ }),
		"checksum beyond":       with(func(b []byte) { b[0], b[6], b[7] = 1, 0xff, 0xff }),
		"GSO without TCP":       with(func(b []byte) { b[1], b[4] = 1, 200 }),
		"GSO of size 0":         with(func(b []byte) { b[1] = 5 }),
		"GSO of an unknown way": with(func(b []byte) { b[1] = 77 }),
	} {
		before := a.refused(own.addresses[0])
		require.True(t, s.sends(b), name)
		a.until("it refuses "+name, func(Stats) bool { return a.refused(own.addresses[0]) == before+1 })
	}
	require.Empty(t, a.wire.out)

	// Correct packets are delivered, in a message and in a slot.
	require.True(t, s.sends(with(func([]byte) {})))
	require.Equal(t, good, a.gets())
	require.True(t, s.sends(text(message{kind: kindSlot, length: uint32(len(good)), tag: 9})))
	require.Equal(t, good, a.gets())

	// A message that frees more than was sent ends the session. The next one is as good as new.
	require.True(t, s.sends(text(message{kind: kindFreed, freed: 1})))
	a.until("the session has ended", func(Stats) bool { return !a.isUp(own.addresses[0]) })
	s.connect()
	require.True(t, s.sends(with(func([]byte) {})))
	require.Equal(t, good, a.gets())

	// A message that fits into no receive is refused by the engine, and ends the session too.
	require.False(t, s.sends(make([]byte, bufferSize+1)))
	a.sends(friend.addr, 3000, 5)
	require.Equal(t, packet(a.addr, friend.addr, 3000, 5), friend.gets())
}

func (n *node) isUp(with netip.Addr) bool {
	for _, p := range n.in.Stats().Peers {
		if p.Addresses[0] == with {
			return p.Up
		}
	}
	return false
}

func (n *node) refused(from netip.Addr) uint64 {
	for _, p := range n.in.Stats().Peers {
		if p.Addresses[0] == from {
			return p.Refused
		}
	}
	return 0
}

// Random messages are survived.
func TestRandomMessages(t *testing.T) {
	a := start(t, serve(t), "10.1.0.1")
	s := newStranger(t, a, announcement{mtu: 65520, area: -1, name: "random", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}})
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := packet(s.said.addresses[0], a.addr, random.IntN(300), 1)
		b = text(message{kind: kindPacket, length: uint32(len(b))}, b...)
		for range random.IntN(4) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		if !s.sends(b) {
			s.connect()
		}
		for len(a.wire.out) > 0 {
			<-a.wire.out
		}
		if a.in.Stats().Peers[0].Up {
			continue
		}
		s.connect()
	}
}

// Announcements that cannot be right make no peer, and the log says why.
func TestHostileAnnouncements(t *testing.T) {
	socket := serve(t)
	base := announcement{life: 5, mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.3")}}
	for name, bad := range map[string]struct {
		change func(x *announcement)
		bytes  func(b *[]byte)
		why    string
	}{
		"its address":  {change: func(x *announcement) { x.addresses[0] = netip.MustParseAddr("10.1.0.1") }, why: "it says that it has 10.1.0.1, an address of this interface"},
		"no address":   {change: func(x *announcement) { x.addresses = nil }, why: "it has no address"},
		"twice":        {change: func(x *announcement) { x.addresses = append(x.addresses, x.addresses[0]) }, why: "it says that it has 10.1.0.3 twice"},
		"version 1":    {bytes: func(b *[]byte) { (*b)[4] = 1 }, why: "it has version 1; this interface has version 3"},
		"version 2":    {bytes: func(b *[]byte) { (*b)[4] = 2 }, why: "it has version 2; this interface has version 3"},
		"life 0":       {change: func(x *announcement) { x.life = 0 }, why: "its life is 0"},
		"length":       {bytes: func(b *[]byte) { *b = (*b)[:len(*b)-1] }, why: "it announces 1 addresses and a host's name of 0 bytes in 55 bytes"},
		"long host":    {bytes: func(b *[]byte) { (*b)[23] = 200 }, why: "it announces 1 addresses and a host's name of 200 bytes; 4 and 63 are possible"},
		"host":         {change: func(x *announcement) { x.host = "a.b" }, why: `it announces the host's name \"a.b\", which is no label`},
		"flags":        {bytes: func(b *[]byte) { (*b)[22] = 2 }, why: "it has flags 0x2; 0, 1 and 3 are possible, and 4 more"},
		"addresses":    {bytes: func(b *[]byte) { (*b)[20] = 200 }, why: "it announces 51201 addresses"},
		"area":         {change: func(x *announcement) { x.area = maxAreas }, why: "it announces area 16"},
		"another name": {why: "it cannot be dialled: it listens under no name"},
	} {
		t.Run(name, func(t *testing.T) {
			var out lines
			a := start(t, socket, "10.1.0.1", func(c *Config) { c.Log = logTo(&out) })
			defer a.stop()
			c, err := nicless.Dial(socket)
			require.NoError(t, err)
			defer c.Close()
			if name != "another name" {
				_, err := c.ListenName(dialled, nicless.ListenConfig{})
				require.NoError(t, err)
			}
			x := base
			x.addresses = slices.Clone(base.addresses)
			if bad.change != nil {
				bad.change(&x)
			}
			b := x.put(nil)
			if bad.bytes != nil {
				bad.bytes(&b)
			}
			require.NoError(t, c.Announce(b))
			await.Until(t, "the log says why", func() bool {
				return strings.Contains(out.text(), bad.why)
			}, func() any { return bad.why })
			require.Empty(t, a.in.Stats().Peers)
			if name == "another name" {
				return
			}
			require.NoError(t, c.Announce(base.put(nil)))
			a.until("there is one peer", func(s Stats) bool { return len(s.Peers) == 1 })
			require.False(t, a.in.Stats().Peers[0].Up)
			require.NoError(t, c.Announce(nil))
			a.until("there is no peer", func(s Stats) bool { return len(s.Peers) == 0 })
		})
	}
}

func FuzzAnnouncement(f *testing.F) {
	f.Add([]byte{})
	full := announcement{life: 1, mtu: 65520, area: 3, slots: 17, name: "nicless0n", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("fd00::1")}, claim: picked, host: "web-1", toAll: true}
	f.Add(full.put(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnnouncement(b)
		if err != nil {
			return
		}
		again, err := parseAnnouncement(a.put(nil))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(a), fmt.Sprint(again))
	})
}

// The longest announcement fits.
func TestAnnouncementFits(t *testing.T) {
	require.LessOrEqual(t, announceSize, nicless.MaxAnnouncement)
}
