package engine

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/fabric/roce"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// datagram sends a datagram of 8 bytes from a port of the rig's cable to a queue pair. It has a GRH with
// the destination if the port carries GRHs.
func (r *rig) datagram(side int, qpn uint32, to netip.Addr) {
	r.Helper()
	p := r.cable.ports[side]
	op := packet.MakeOpcode(packet.UD, packet.SendOnly)
	grh := 0
	if p.Settings.GRH {
		grh = object.GRHSize
	}
	head, payload, ok := p.Settings.Send.Reserve(op.Info().HeaderSize, grh+8)
	require.True(r, ok)
	clear(payload)
	if grh > 0 && to.IsValid() {
		if to.Is4() {
			payload[execution.Ipv4At] = 0x45
			copy(payload[execution.Ipv4At+16:], to.AsSlice())
		} else {
			payload[0] = 6 << 4
			copy(payload[24:], to.AsSlice())
		}
	}
	packet.BTH{Opcode: op, Migrated: true, PKey: object.DefaultPKey, DestQP: qpn}.Put((*[packet.BTHSize]byte)(head))
	packet.DETH{QKey: qkey, SrcQP: 9}.Put((*[packet.DETHSize]byte)(head[packet.BTHSize:]))
	p.Settings.Send.Publish(r.cable.paths[side].Number)
	if p.Settings.Wake != nil {
		p.Settings.Wake()
	}
}

// gets reports how many receives of a queue pair a datagram takes, and how many strangers it is.
func (r *rig) gets(u *end, to netip.Addr) [2]uint64 {
	r.Helper()
	taken, strangers, received := u.q.RQ.Done, r.cable.ports[0].Port.Stats.Strangers, r.cable.ports[0].Port.Stats.Received
	r.datagram(1, u.num, to)
	r.settle()
	require.Equal(r, received+1, r.cable.ports[0].Port.Stats.Received)
	return [2]uint64{u.q.RQ.Done - taken, r.cable.ports[0].Port.Stats.Strangers - strangers}
}

var taken, strange = [2]uint64{1, 0}, [2]uint64{0, 1}

// A datagram that comes over RoCE, by real sockets, reaches a queue pair only if its client has asked for
// datagrams at that address: not that of a bystander, or of a native client, which never asks, although its
// number and its qkey are right.
func TestDatagramsReachThoseWhoAsked(t *testing.T) {
	r := newRig(t, Config{})
	c := r.newRoCE(roce.Config{Threads: 1, Spin: -1})
	at := c.addrs[0]
	asks, _ := r.listener(9)
	bystander, _ := r.listener(9)
	ask := func(list ...nic.Source) { require.NoError(t, asks.h.c.SetSources(list)) }
	ask(nic.Source{GID: at.As16(), Network: true})
	require.Equal(t, taken, r.gets(asks, at))
	require.Equal(t, strange, r.gets(bystander, at))
	ask(nic.Source{GID: gid("192.0.2.1"), Network: true}, nic.Source{GID: gid("2001:db8::1"), Network: true})
	require.Equal(t, strange, r.gets(asks, at), "it has asked for other addresses")
	ask(nic.Source{GID: at.As16()})
	require.Equal(t, strange, r.gets(asks, at), "it has asked for datagrams of pools only")
	ask(nic.Source{GID: gid("192.0.2.1"), Network: true}, nic.Source{GID: at.As16(), Network: true})
	require.Equal(t, taken, r.gets(asks, at))
	ask()
	require.Equal(t, strange, r.gets(asks, at), "it does not ask any more")
	require.Error(t, asks.h.c.SetSources(make([]nic.Source, nic.MaxSources+1)))
}

// The same in a pool and over UCX, whose peers write the GRH themselves. On InfiniBand there may be none.
func TestDatagramsOfPoolsReachThoseWhoAsked(t *testing.T) {
	r := newRig(t, Config{})
	r.newCable(nic.PortConfig{MTU: 256}, nil)
	asks, _ := r.listener(9)
	bystander, _ := r.listener(9)
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	require.NoError(t, asks.h.c.SetSources([]nic.Source{{GID: v4.As16()}, {GID: v6.As16(), Network: true}}))
	for to, want := range map[netip.Addr][2]uint64{v4: taken, v6: taken, netip.MustParseAddr("192.0.2.2"): strange, {}: strange} {
		require.Equal(t, want, r.gets(asks, to), "%v", to)
		require.Equal(t, strange, r.gets(bystander, to), "%v", to)
	}
	require.NoError(t, asks.h.c.SetSources([]nic.Source{{}}))
	require.Equal(t, taken, r.gets(asks, netip.Addr{}))
	require.Equal(t, strange, r.gets(asks, v4))
}

// A packet over a link for a DCT, a DCI, or a queue pair that is connected within the engine is a stranger's.
func TestQueuePairsThatNoLinkReaches(t *testing.T) {
	r := newRig(t, Config{})
	c := r.newRoCE(roce.Config{Threads: 1, Spin: -1})
	h := r.host("dc")
	require.NoError(t, h.c.SetSources([]nic.Source{{GID: c.addrs[0].As16(), Network: true}}))
	d := h.dct()
	far := h.full(64, 7)
	d.s.put(0, far.data(0, 64))
	d.s.post(1)
	i := h.dci(0)
	r.cable = nil
	p, q := pairOf(control.QPTypeRC, h, h)
	r.cable = c
	for name, u := range map[string]*end{"DCT": d.end, "DCI": i, "RC": p, "its peer": q} {
		for _, o := range []packet.Operation{packet.SendOnly, packet.WriteOnly, packet.ReadRequest} {
			for _, s := range []packet.Service{packet.RC, packet.UC, packet.UD, packet.XRC} {
				op := packet.MakeOpcode(s, o)
				info := op.Info()
				if !info.Known {
					continue
				}
				before := c.ports[0].Port.Stats.Strangers
				head, payload, ok := c.ports[1].Settings.Send.Reserve(info.HeaderSize, map[bool]int{true: 8}[info.Payload])
				require.True(t, ok)
				clear(head)
				copy(payload, "attacked")
				packet.BTH{Opcode: op, Migrated: true, PKey: object.DefaultPKey, DestQP: u.num}.Put((*[packet.BTHSize]byte)(head))
				if info.RETH {
					packet.RETH{Addr: far.addr, RKey: far.key, Length: uint32(len(payload))}.Put((*[packet.RETHSize]byte)(head[info.OffRETH:]))
				}
				if info.DETH {
					packet.DETH{QKey: qkey, SrcQP: 9}.Put((*[packet.DETHSize]byte)(head[info.OffDETH:]))
				}
				c.ports[1].Settings.Send.Publish(c.paths[1].Number)
				c.ports[1].Settings.Wake()
				r.settle()
				require.Equal(t, before+1, c.ports[0].Port.Stats.Strangers, "%s: %v", name, op)
			}
		}
	}
	require.NotContains(t, string(far.mem), "attacked")
	require.Equal(t, uint16(1), d.s.s.Ready(), "the receive is still there")
}

// A queue pair takes packets at the address of its connection only, and from its peer only.
func TestConnectionHasTwoAddresses(t *testing.T) {
	r := newRig(t, Config{})
	c := r.newRoCE(roce.Config{Threads: 1, Spin: -1})
	net := c.addrs[0].As4()
	other := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{net[0], net[1], net[2], n}) }
	p, q := pairOf(control.QPTypeRC, r.host("a"), r.host("b"))
	if p.side() != 0 {
		p = q
	}
	far := p.h.full(64, 7)
	write := func(from, to netip.Addr) uint64 {
		if to != c.addrs[0] {
			require.NoError(t, c.ends[0].AddAddress(to))
		}
		if from != c.addrs[1] {
			require.NoError(t, c.ends[1].AddAddress(from))
		}
		path, err := c.ends[1].Hold(nic.Address{GID: to.As16(), From: from.As16()})
		require.NoError(t, err)
		// Another queue pair is connected there.
		_, err = c.ends[0].Hold(nic.Address{GID: from.As16(), From: to.As16()})
		require.NoError(t, err)
		before := c.ports[0].Port.Stats.Strangers
		op := packet.MakeOpcode(packet.RC, packet.WriteOnly)
		info := op.Info()
		head, payload, ok := c.ports[1].Settings.Send.Reserve(info.HeaderSize, 8)
		require.True(t, ok)
		copy(payload, "attacked")
		packet.BTH{Opcode: op, Migrated: true, PKey: object.DefaultPKey, DestQP: p.num, PSN: p.q.Wire.In.PSN}.Put((*[packet.BTHSize]byte)(head))
		packet.RETH{Addr: far.addr, RKey: far.key, Length: 8}.Put((*[packet.RETHSize]byte)(head[info.OffRETH:]))
		c.ports[1].Settings.Send.Publish(path.Number)
		c.ports[1].Settings.Wake()
		r.settle()
		return c.ports[0].Port.Stats.Strangers - before
	}
	require.EqualValues(t, 1, write(c.addrs[1], other(9)), "of the peer, at another address")
	require.EqualValues(t, 1, write(other(10), c.addrs[0]), "of another host, at the address of the connection")
	require.NotContains(t, string(far.mem), "attacked")
	require.EqualValues(t, 0, write(c.addrs[1], c.addrs[0]), "of the peer")
	require.Contains(t, string(far.mem), "attacked")
}

// A client whose address handles do not name a source sends nothing from it, although the router knows a
// way because of other clients; a native client, which has no GID table, sends nothing to other devices.
func TestDatagramsLeaveForThoseWhoAsked(t *testing.T) {
	r := newRig(t, Config{})
	c := r.newCable(nic.PortConfig{MTU: 256}, nil)
	r.d.nic().SetRouter(oneWay{c.ports[0]})
	sent := func(table []nic.GID, list ...nic.Source) uint64 {
		h := r.host("a")
		require.NoError(t, h.c.SetGIDs(table))
		if table == nil {
			h.c.GIDs = nil
		}
		require.NoError(t, h.c.SetSources(list))
		cq := h.cq(control.CQ{LogSize: 4})
		u := h.qp(control.QP{Type: control.QPTypeUD}, cq, cq)
		u.up(u)
		to := u.to()
		to.DQP, to.RGID = 77, gid("192.0.2.9")
		before := c.ports[0].Port.Stats.Sent
		u.post(ctrl(wqe.OpSend), to, h.full(8, 1).data(0, 8))
		r.settle()
		return c.ports[0].Port.Stats.Sent - before
	}
	own := gid("192.0.2.1")
	table := []nic.GID{{Addr: own, UDP: true}}
	require.EqualValues(t, 1, sent(table, nic.Source{GID: own}))
	require.EqualValues(t, 0, sent(table), "no address handle")
	require.EqualValues(t, 0, sent(table, nic.Source{GID: gid("192.0.2.2")}), "of another address")
	require.EqualValues(t, 0, sent(nil), "a native client")
}

// A program's datagram for queue pair 1 of another device says from which queue pair it comes: not from queue
// pair 1, as those of an engine. So the other one knows that a program has written it.
func TestDatagramsToTheManagerNameTheirQueuePair(t *testing.T) {
	r := newRig(t, Config{})
	c := r.newCable(nic.PortConfig{MTU: 256}, &fates{})
	r.d.nic().SetRouter(oneWay{c.ports[0]})
	h := r.host("a")
	own := gid("192.0.2.1")
	require.NoError(t, h.c.SetGIDs([]nic.GID{{Addr: own, UDP: true}}))
	require.NoError(t, h.c.SetSources([]nic.Source{{GID: own}}))
	cq := h.cq(control.CQ{LogSize: 4})
	u := h.qp(control.QP{Type: control.QPTypeUD}, cq, cq)
	u.up(u)
	to := u.to()
	to.DQP, to.Key, to.RGID = 1, wqe.UDKey(0x80010000), gid("192.0.2.9")
	u.post(ctrl(wqe.OpSend), to, h.full(256, 1).data(0, 256))
	var k packetring.Packet
	left := false
	for i := 0; i < 1000 && !left; i++ {
		r.e.Step()
		ok, err := c.from[0].Next(&k)
		require.NoError(t, err)
		left = ok
	}
	require.True(t, left)
	require.EqualValues(t, 1, packet.ParseBTH((*[packet.BTHSize]byte)(k.Head[:])).DestQP)
	require.Equal(t, u.num, packet.ParseDETH((*[packet.DETHSize]byte)(k.Head[packet.BTHSize:])).SrcQP)
}

// oneWay is a router to one port.
type oneWay struct{ p *transport.PortHandle }

func (w oneWay) Route(nic.Address) (nic.Path, error) { return nic.Path{Port: w.p}, nil }
func (w oneWay) HoldPath(nic.Address, nic.User) (path nic.Path, f func(), _ error) {
	return path, f, nil
}
func (w oneWay) Own() (gid [16]byte) { return gid }

// The check whether a client takes a datagram allocates nothing, however many addresses it takes.
func TestDatagramsThatComeAllocateNothing(t *testing.T) {
	if *watched {
		t.Skip("a watch records all explanations, and the text of one is allocated")
	}
	r := newRig(t, Config{})
	r.newCable(nic.PortConfig{MTU: 256}, nil)
	u, _ := r.listener(0)
	var list []nic.Source
	for i := range nic.MaxSources {
		list = append(list, nic.Source{GID: [16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)}})
	}
	require.NoError(t, u.h.c.SetSources(list))
	last := netip.AddrFrom16(list[len(list)-1].GID)
	for name, to := range map[string]netip.Addr{"asked": last, "a stranger": netip.MustParseAddr("192.0.2.1")} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			r.datagram(1, u.num, to)
			r.e.Step()
		}), name)
	}
	require.EqualValues(t, 202, r.cable.ports[0].Port.Stats.Received)
}

// BenchmarkDatagramComes is a datagram that comes over a link and is dropped because there is no receive, for
// a client that takes datagrams at so many addresses, the last of which is that of the datagram.
func BenchmarkDatagramComes(b *testing.B) {
	for _, n := range []int{1, 16, nic.MaxSources} {
		b.Run(fmt.Sprintf("sources=%d", n), func(b *testing.B) {
			r := newRig(b, Config{})
			r.newCable(nic.PortConfig{MTU: 256}, nil)
			u, _ := r.listener(0)
			var list []nic.Source
			for i := range n {
				list = append(list, nic.Source{GID: [16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)}})
			}
			require.NoError(b, u.h.c.SetSources(list))
			to := netip.AddrFrom16(list[n-1].GID)
			b.ReportAllocs()
			for b.Loop() {
				for range 32 {
					r.datagram(1, u.num, to)
				}
				r.e.Step()
			}
			require.Zero(b, r.cable.ports[0].Port.Stats.Strangers)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*32), "ns/datagram")
		})
	}
}
