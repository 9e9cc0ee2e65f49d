package engine

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// gid returns an address as a GID.
func gid(text string) [16]byte { return netip.MustParseAddr(text).As16() }

// toGroup is the address of a multicast group, with the GID of that index as the source.
func toGroup(group string, index uint32) wqe.AV {
	return wqe.AV{CompactAV: wqe.CompactAV{Key: wqe.UDKey(qkey), Ext: true, DQP: execution.MulticastQPN}, HopLimit: 1, GRH: index << execution.AvIndexAt, RGID: gid(group)}
}

// listener returns a UD queue pair of a new client, with n receives of 256 bytes, and their
// memory.
func (r *rig) listener(n int) (*end, *key) {
	r.Helper()
	h := r.host(fmt.Sprintf("listener %d", len(r.e.QPs)))
	c := h.cq(control.CQ{LogSize: 6})
	p := h.qp(control.QP{Type: control.QPTypeUD, LogSQ: 6}, c, h.cq(control.CQ{LogSize: 6}))
	p.up(p)
	box := h.full(16*256, 9)
	for i := range n {
		p.recv(box.data(i*256, 256))
	}
	return p, box
}

const groupA, groupB = "ff0e::77", "ff0e::78"

// A datagram to a group arrives once at each of its queue pairs that can take it, and the WQE
// completes once. The sender receives its own datagram unless it has switched that off.
func TestMulticast(t *testing.T) {
	r := newRig(t, Config{Slice: 64, Burst: 2})
	var ends []*end
	var boxes []*key
	for range 7 {
		p, box := r.listener(4)
		ends, boxes = append(ends, p), append(boxes, box)
	}
	sender, src := ends[0], ends[0].h.full(400, 1)
	require.NoError(t, sender.h.c.Join(sender.num, gid(groupA), nic.ReceivesOwn))
	require.NoError(t, sender.h.c.Join(sender.num, gid(groupB), nic.ReceivesOthers))
	for _, p := range ends[1:6] { // the last is in no group
		require.NoError(t, p.h.c.Join(p.num, gid(groupA), nic.ReceivesOwn))
		require.NoError(t, p.h.c.Join(p.num, gid(groupA), nic.ReceivesOwn), "a second time changes nothing")
	}
	require.NoError(t, ends[3].h.c.Join(ends[3].num, gid(groupB), nic.ReceivesOwn))
	ends[1].toState(control.StateRST) // takes nothing
	strange, _ := r.listener(4)       // has another qkey
	strange.modify(control.QPAttr{QPN: strange.num, Mask: control.AttrQKey, QKey: qkey + 1})
	require.NoError(t, strange.h.c.Join(strange.num, gid(groupA), nic.ReceivesOwn))
	small, _ := r.listener(0) // has no receive
	require.NoError(t, small.h.c.Join(small.num, gid(groupA), nic.ReceivesOwn))

	sender.write(ctrl(wqe.OpSend), toGroup(groupA, 0), src.data(0, 200))
	sender.write(ctrl(wqe.OpSend), toGroup(groupB, 0), src.data(200, 100))
	sender.write(ctrl(wqe.OpSend), toGroup("ff0e::79", 0), src.data(0, 8))
	sender.ring()
	r.settle()
	require.Len(t, sender.scq.all(), 3)
	strange.rcq.none()
	for i, want := range [][]uint32{{240}, nil, {240}, {240, 140}, {240}, {240}, nil} {
		var have []uint32
		for _, w := range ends[i].rcq.all() {
			require.Equal(t, unharmed, w.Syndrome)
			require.Equal(t, sender.num, w.SrcQP)
			have = append(have, w.ByteLen)
		}
		require.Equal(t, want, have, "queue pair %d", i)
		if want != nil {
			r.same(src.mem[:200], boxes[i].mem[object.GRHSize:][:200], "datagram")
		}
	}
	r.same(src.mem[200:300], boxes[3].mem[256+object.GRHSize:][:100], "second datagram")
}

// A member that overruns its CQ, or leaves in the middle, does not keep the datagram from others.
func TestMulticastWithFaults(t *testing.T) {
	r := newRig(t, Config{Slice: 64, Burst: 1})
	var ends []*end
	for range 5 {
		p, _ := r.listener(2)
		ends = append(ends, p)
		require.NoError(t, p.h.c.Join(p.num, gid(groupA), nic.ReceivesOwn))
	}
	short := ends[2]
	short.toState(control.StateRST)
	short.up(short)
	short.recv(short.h.full(64, 1).data(0, 50)) // too short
	src := ends[0].h.full(100, 1)
	ends[0].post(ctrl(wqe.OpSend), toGroup(groupA, 0), src.data(0, 100))
	r.e.Step()
	require.NoError(t, ends[0].h.c.Leave(ends[0].num, gid(groupA)))
	require.NoError(t, ends[4].h.c.Leave(ends[4].num, gid(groupA)))
	require.NoError(t, ends[4].h.c.Leave(ends[4].num, gid(groupA)))
	r.settle()
	ends[0].good()
	for _, i := range []int{1, 3} {
		require.Equal(t, uint32(140), ends[i].rcq.one().ByteLen)
	}
	ends[4].rcq.none()
	// The same block number after RST is another datagram.
	ends[0].toState(control.StateRST)
	ends[0].up(ends[0])
	ends[0].sent = 0
	ends[0].post(ctrl(wqe.OpSend), toGroup(groupA, 0), src.data(0, 10))
	r.settle()
	require.Equal(t, uint32(50), ends[1].rcq.one().ByteLen)
}

// A datagram to a group counts as received by the members that have taken it, and as sent once.
func TestMulticastIsCounted(t *testing.T) {
	r := newRig(t, Config{})
	sender, _ := r.listener(0)
	takes, _ := r.listener(1)
	short, _ := r.listener(0)
	short.recv(short.h.full(64, 1).data(0, 50)) // too short, which is found before any byte moves
	unready, _ := r.listener(0)
	for _, p := range []*end{takes, short, unready} {
		require.NoError(t, p.h.c.Join(p.num, gid(groupA), nic.ReceivesOwn))
	}
	sender.post(ctrl(wqe.OpSend), toGroup(groupA, 0), sender.h.full(100, 1).data(0, 100))
	r.settle()
	sender.good()
	require.Equal(t, counted{nic.SentPackets: 1, nic.SentBytes: 100, nic.SentMulticast: 1}, countedBy(sender.h))
	require.Equal(t, counted{nic.GotPackets: 1, nic.GotBytes: 100, nic.GotMulticast: 1}, countedBy(takes.h))
	for _, p := range []*end{short, unready} {
		n := traffic.Sum(&p.h.c.Traffic)
		require.Zero(t, n[nic.GotPackets]+n[nic.GotBytes]+n[nic.GotMulticast])
	}
}

// Queue pairs of several shards are in a group.
func TestMulticastAcrossShards(t *testing.T) {
	r := newShards(t, Config{Cores: []int{0, 1, 2}})
	r.shuffle(7)
	var ends []*end
	var boxes []*key
	for range 9 {
		p, box := r.listener(12)
		require.NoError(t, p.h.c.Join(p.num, gid(groupA), nic.ReceivesOthers))
		ends, boxes = append(ends, p), append(boxes, box)
	}
	for i, p := range ends[:4] {
		src := p.h.full(3*64, byte(10*i))
		for n := range 3 {
			p.write(ctrl(wqe.OpSend), toGroup(groupA, 0), src.data(64*n, 64))
		}
		p.ring()
	}
	r.settle()
	for i, p := range ends {
		want := 12
		if i < 4 {
			want = 9
			require.Len(t, p.scq.all(), 3)
		}
		next := make(map[uint32][]byte) // what each sender sends next
		for k, w := range p.rcq.all() {
			want--
			from := w.SrcQP
			next[from] = append(next[from], boxes[i].mem[256*k+object.GRHSize:][:64]...)
		}
		require.Zero(t, want)
		for _, s := range ends[:4] {
			if s != p {
				require.Len(t, next[s.num], 3*64)
			}
		}
	}
}

// Memberships are bounded and charged, and end with their queue pairs and clients.
func TestMemberships(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	p, q := pairOf(control.QPTypeUD, a, a)
	c, _ := pairOf(control.QPTypeRC, a, a)
	require.ErrorIs(t, a.c.Join(c.num, gid(groupA), 0), execution.ErrNotUD)
	require.Error(t, a.c.Join(0xfffffe, gid(groupA), 0))
	require.NoError(t, a.c.Leave(0xfffffe, gid(groupA)))
	for i := range nic.MaxGroups {
		require.NoError(t, a.c.Join(p.num, gid(fmt.Sprintf("ff0e::%x", i)), 0))
	}
	require.ErrorIs(t, a.c.Join(p.num, gid("ff0f::1"), 0), execution.ErrManyGroups)
	require.NoError(t, a.c.Join(q.num, gid("ff0e::1"), 0))
	r.e.Do(func() { require.Len(t, r.e.Groups, nic.MaxGroups) })
	r.e.Do(func() { a.c.RemoveQP(p.q); delete(a.c.QPs, p.num) })
	r.e.Do(func() { require.Len(t, r.e.Groups, 1) })
	b := r.host("b")
	for i := range nic.MaxMembers {
		x := b.qp(control.QP{Type: control.QPTypeUD}, b.cq(control.CQ{LogSize: 2}), b.cq(control.CQ{LogSize: 2}))
		err := b.c.Join(x.num, gid("ff0e::1"), 0)
		if i == nic.MaxMembers-1 {
			require.ErrorIs(t, err, execution.ErrManyMembers)
		} else {
			require.NoError(t, err)
		}
	}
	require.NoError(t, b.c.Close())
	r.e.Do(func() { require.Len(t, r.e.Groups[gid("ff0e::1")].Members, 1) })
	require.Error(t, b.c.Join(1, gid("ff0e::1"), 0))
	require.Error(t, b.c.Leave(1, gid("ff0e::1")))
}

// The header before a datagram has the addresses of sender and receiver, in the form of the
// sender's GID.
func TestDatagramHeaders(t *testing.T) {
	table := []nic.GID{{Addr: gid("fe80::1")}, {Addr: gid("fe80::1"), UDP: true}, {Addr: gid("::ffff:192.0.2.1")}, {Addr: gid("::ffff:192.0.2.1"), UDP: true}, {}}
	be := binary.BigEndian
	v6 := func(next byte, from, to string) []byte {
		h := make([]byte, object.GRHSize)
		be.PutUint32(h, 6<<28|0x5c<<20|0xabcde)
		size := 8 + 20 + 4
		if next == execution.NextUDP {
			size += 8
		}
		be.PutUint16(h[4:], uint16(size))
		h[6], h[7] = next, 9
		a, b := gid(from), gid(to)
		copy(h[8:], a[:])
		copy(h[24:], b[:])
		return h
	}
	v4 := append(make([]byte, 20), 0x45, 0x5c, 0, 60, 0, 0, 0x40, 0, 9, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 9)
	sum := uint32(0)
	for i := 20; i < 40; i += 2 {
		sum += uint32(be.Uint16(v4[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	be.PutUint16(v4[30:], ^uint16(sum))
	for name, x := range map[string]struct {
		index uint32
		to    string
		lid   [2]uint16 // of sender and receiver; 0: Ethernet
		rlid  uint16
		grh   bool
		sl    uint8 // of the completion
		want  []byte
	}{
		"v1":                      {index: 0, to: "fe80::2", grh: true, want: v6(execution.NextIBA, "fe80::1", "fe80::2")},
		"v2":                      {index: 1, to: "fe80::2", grh: true, sl: 9, want: v6(execution.NextUDP, "fe80::1", "fe80::2")},
		"IPv4":                    {index: 3, to: "::ffff:192.0.2.9", grh: true, sl: 10, want: v4},
		"IPv4 of version 1":       {index: 2, to: "::ffff:192.0.2.9", grh: true, want: v6(execution.NextIBA, "::ffff:192.0.2.1", "::ffff:192.0.2.9")},
		"IPv4 to IPv6":            {index: 3, to: "2001:db8::9", grh: true, sl: 9, want: v6(execution.NextUDP, "::ffff:192.0.2.1", "2001:db8::9")},
		"an empty entry":          {index: 4, to: "fe80::2", grh: true, want: v6(execution.NextIBA, "fe80::5", "fe80::2")},
		"no such entry":           {index: 200, to: "fe80::2", grh: true, want: v6(execution.NextIBA, "fe80::5", "fe80::2")},
		"InfiniBand":              {lid: [2]uint16{1, 2}, rlid: 2, sl: 5, want: make([]byte, object.GRHSize)},
		"InfiniBand with a GRH":   {lid: [2]uint16{1, 2}, rlid: 2, to: "fe80::2", grh: true, sl: 5, want: v6(execution.NextIBA, "fe80::1", "fe80::2")},
		"InfiniBand, another LID": {lid: [2]uint16{1, 2}, rlid: 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			a, b := r.host("a").hosted(nic.Hosted{GID: gid("fe80::5"), LID: x.lid[0]}), r.host("b").hosted(nic.Hosted{LID: x.lid[1]})
			require.NoError(t, a.c.SetGIDs(table))
			p, q := pairOf(control.QPTypeUD, a, b)
			box := b.full(100, 3)
			q.recv(box.data(0, 100))
			to := q.to()
			to.RLID, to.GRH, to.RateSL = x.rlid, x.index<<execution.AvIndexAt|0xabcde, 0x35
			if x.to != "" {
				to.RGID = gid(x.to)
			}
			if x.lid[0] != 0 && x.grh {
				to.GRH |= execution.AVGlobal
			}
			p.post(ctrl(wqe.OpSend), to, a.full(8, 1).data(0, 8))
			r.settle()
			p.good()
			if x.want == nil {
				q.rcq.none()
				return
			}
			w := q.rcq.one()
			require.Equal(t, uint32(48), w.ByteLen, "byte_cnt includes the 40 bytes in any case")
			require.Equal(t, x.grh, w.Flags&cqe.WCGRH != 0)
			require.Equal(t, x.sl, w.SL)
			require.Equal(t, x.want, box.mem[:object.GRHSize])
		})
	}
	a := newRig(t, Config{}).host("a")
	require.ErrorIs(t, a.c.SetGIDs(make([]nic.GID, nic.MaxGIDs+1)), execution.ErrManyGIDs)
	require.NoError(t, a.c.Close())
	require.Error(t, a.c.SetGIDs(nil))
}
