package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// compact is the address vector of p without the bytes that only Ethernet and a GRH need.
func (p *end) compact() wqe.CompactAV {
	a := p.to().CompactAV
	a.Ext, a.RateSL, a.RLID = false, 0x35, p.h.c.Hosted.LID
	return a
}

// infiniBand returns two hosts with LIDs and a GID table.
func infiniBand(r *rig) (a, b *host) {
	a = r.host("a").hosted(nic.Hosted{GID: gid("fe80::5"), LID: 0x11})
	b = r.host("b").hosted(nic.Hosted{GID: gid("fe80::6"), LID: 0x12})
	require.NoError(r, a.c.SetGIDs([]nic.GID{{Addr: gid("fe80::5")}}))
	return a, b
}

// garbage are inline bytes that would be a GRH flag and a GID if they belonged to an address vector.
func garbage() []byte {
	b := bytes.Repeat([]byte{0xee}, 40)
	binary.BigEndian.PutUint32(b[8:], execution.AVGlobal|0x7<<execution.AvIndexAt)
	return b
}

// On InfiniBand a datagram may have a compact address vector, as UCX posts them. Its segments follow after 16
// bytes, with inline data and without, in one block and in several.
func TestCompactDatagram(t *testing.T) {
	r := newRig(t, Config{})
	a, b := infiniBand(r)
	p, q := pairOf(control.QPTypeUD, a, b)
	src, box := a.full(512, 1), b.full(1024, 9)
	for name, list := range map[string][]any{
		"nothing": {},
		"inline":  {garbage()},
		"a piece": {src.data(0, 256)},
		"5 units": {src.data(0, 8), src.data(8, 8), src.data(16, 9), src.data(30, 200), []byte("end")},
	} {
		t.Run(name, func(t *testing.T) {
			var want []byte
			for _, s := range list {
				switch s := s.(type) {
				case []byte:
					want = append(want, s...)
				case wqe.Data:
					at := s.Addr - src.addr
					want = append(want, src.mem[at:at+s.Length()]...)
				}
			}
			q.recv(box.data(0, 1024))
			c := ctrl(wqe.OpSendImm)
			c.Imm = 0x01020304
			p.post(c, append([]any{q.compact()}, list...)...)
			r.settle()
			p.good()
			w := q.rcq.one()
			require.Equal(t, cqe.StatusSuccess, w.Status)
			require.Equal(t, []uint32{uint32(object.GRHSize + len(want)), p.num, 0x01020304}, []uint32{w.ByteLen, w.SrcQP, w.Imm})
			require.Equal(t, []any{cqe.WCWithImm, uint8(5), uint16(0x11)}, []any{w.Flags, w.SL, w.SLID}, "no GRH")
			require.Equal(t, make([]byte, object.GRHSize), box.mem[:object.GRHSize])
			require.Equal(t, want, append([]byte(nil), box.mem[object.GRHSize:][:len(want)]...))
		})
	}
	stranger := q.compact()
	stranger.RLID++
	p.post(ctrl(wqe.OpSend), stranger, src.data(0, 8))
	r.settle()
	p.good()
	q.rcq.none()
}

// A full address vector that ends with the WQE's 16 bytes is too short, and how much is needed is said.
func TestCutAddressVector(t *testing.T) {
	for _, transport := range []uint8{control.QPTypeUD, control.QPTypeDCI} {
		r := newRig(t, Config{})
		p, to, _ := addressing(r, transport)
		next := p.h.events()
		to.Ext = true
		p.post(ctrl(wqe.OpSend), to, p.h.full(8, 1).data(0, 8))
		r.settle()
		require.Equal(t, cqe.LocalQPOp, p.scq.one().Syndrome)
		ev := next()
		require.NotNil(t, ev)
		require.Contains(t, ev.Text, "ds 3 is too small for SEND, which needs at least 4")
	}
}

// addressing returns a queue pair in RTS on InfiniBand, and a compact address vector for its WQEs.
func addressing(r *rig, transport uint8) (p *end, to wqe.CompactAV, dest *host) {
	a, b := infiniBand(r)
	if transport == control.QPTypeDCI {
		d := b.dct()
		to = d.near()
		to.RLID = 0x12
		return a.dci(0), to, b
	}
	p, q := pairOf(transport, a, b)
	return p, q.compact(), b
}

// A compact address vector that needs a GID fails its WQE, which is explained: on Ethernet, and to a
// multicast group.
func TestCompactNeedsGID(t *testing.T) {
	for name, row := range map[string]struct {
		transport uint8
		change    func(p *end, to *wqe.CompactAV)
		says      string
	}{
		"UD on Ethernet": {control.QPTypeUD, ethernet, "which an Ethernet port needs"},
		"UD without a GID table": {control.QPTypeUD, func(p *end, to *wqe.CompactAV) {
			ethernet(p, to)
			p.h.c.GIDs = nil
		}, "which an Ethernet port needs"},
		"DC on Ethernet": {control.QPTypeDCI, ethernet, "which an Ethernet port needs"},
		"multicast": {control.QPTypeUD, func(_ *end, to *wqe.CompactAV) { to.DQP = execution.MulticastQPN },
			"which names a multicast group"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			p, to, _ := addressing(r, row.transport)
			row.change(p, &to)
			next := p.h.events()
			p.post(ctrl(wqe.OpSend), to, garbage())
			r.settle()
			require.Equal(t, cqe.LocalQPOp, p.scq.one().Syndrome)
			ev := next()
			require.NotNil(t, ev)
			require.Equal(t, codes.AVCompact.String(), string(bytes.TrimRight(ev.Code[:], "\x00")))
			require.Contains(t, ev.Text, row.says)
		})
	}
}

// ethernet makes the port of p one of RoCE.
func ethernet(p *end, _ *wqe.CompactAV) { p.h.hosted(nic.Hosted{GID: gid("fe80::5")}) }

// A rule of faults finds the receiver of a datagram with a compact address vector.
func TestRuleHarmsReceiverOfCompactDatagram(t *testing.T) {
	r := newRig(t, Config{})
	a, b := infiniBand(r)
	p, q := pairOf(control.QPTypeUD, a, b)
	s := &scene{rig: r, p: p, q: q}
	r.d.nic().SetRouter(farGIDs{r.newCable(nic.PortConfig{MTU: 256}, nil).ports[0]})
	s.setFaults(fault.Rule{Disconnect: true})
	p.post(ctrl(wqe.OpSend), q.compact(), garbage())
	s.settle()
	require.Equal(t, control.StateERR, q.state())
}

// A rule for packets acts on a datagram with a compact address vector that leaves the device.
func TestRuleOfCompactDatagramOnLink(t *testing.T) {
	r := newRig(t, Config{})
	c := r.newCable(nic.PortConfig{MTU: 256}, nil)
	r.d.nic().SetRouter(oneWay{c.ports[0]})
	a, _ := infiniBand(r)
	require.NoError(t, a.c.SetSources([]nic.Source{{}})) // the source of a datagram without a GRH
	cq := a.cq(control.CQ{LogSize: 4})
	u := a.qp(control.QP{Type: control.QPTypeUD}, cq, cq)
	u.up(u)
	s := &scene{rig: r, p: u, q: u}
	set := s.setFaults(fault.Rule{Match: fault.Match{Nth: 1}, Packet: &fault.Packet{Do: fault.Lose}})
	to := u.compact()
	to.DQP, to.RLID = 77, 0x99
	for i := range uint64(2) {
		u.post(ctrl(wqe.OpSend), to, garbage())
		s.settle()
		u.good()
		require.Equal(t, i, c.ports[1].Port.Stats.Received, "the first is lost")
	}
	require.EqualValues(t, 1, set.Acted(0))
}

// farGIDs is a router by which all addresses with a GID leave the device, and no others.
type farGIDs oneWay

func (f farGIDs) Route(a nic.Address) (nic.Path, error) {
	if a.GID == ([16]byte{}) {
		return nic.Path{}, nil
	}
	return oneWay(f).Route(a)
}
func (f farGIDs) HoldPath(a nic.Address, u nic.User) (nic.Path, func(), error) {
	return oneWay(f).HoldPath(a, u)
}
func (farGIDs) Own() (gid [16]byte) { return gid }
