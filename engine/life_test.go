package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// busyClient makes a client that has one object of every kind and works with another client
// on every transport. It returns the client, and a function that posts more work.
func busyClient(r *rig, other *host) (h *host, more func(i int)) {
	h = r.host("busy")
	id, _ := h.channel()
	h.events()
	c := h.cq(control.CQ{LogSize: 6, Channel: id, Flags: control.CQIgnoreOverrun})
	oc := other.cq(control.CQ{LogSize: 6, Flags: control.CQIgnoreOverrun})
	s, os := h.srq(control.SRQ{}), other.srq(control.SRQ{})
	src, dst := h.full(4096, 1), other.full(4096, 2)
	for i := range uint16(8) {
		s.put(i, src.data(0, 2000), src.data(2000, 500))
		os.put(i, dst.data(0, 2000), dst.data(2000, 500))
	}
	var ends [][2]*end
	for transport := range uint8(3) {
		p, q := h.qp(control.QP{Type: transport, NoReceive: 1, SRQN: s.num}, c, c), other.qp(control.QP{Type: transport, NoReceive: 1, SRQN: os.num}, oc, oc)
		p.up(q)
		q.up(p)
		ends = append(ends, [2]*end{p, q})
	}
	waiting := h.qp(control.QP{NoReceive: 1}, c, c)
	waiting.up(waiting)
	waiting.post(ctrl(wqe.OpWait), wqe.Wait{Index: 1 << 30, Number: c.num})
	managed := h.qp(control.QP{NoReceive: 1, Managed: 1}, c, c)
	managed.up(managed)
	managed.post(ctrl(wqe.OpNop))
	w, m := h.window(2), h.mkey(4)
	rc := ends[0][0]
	rc.post(umr(w), rc.bind(2, uint8(w), src, 0, 2048, mkeyAll)...)
	rc.post(umr(m), fill(m, mkeyAll, 2000, src.klm(0, 1000), src.klm(2000, 1000))...)
	r.settle()
	return h, func(i int) {
		s.post(2)
		os.post(2)
		for _, e := range ends {
			for side, p := range e {
				if p.q.Attr.State != control.StateRTS || p.sent-uint16(p.q.SQ.Done) > 4 {
					continue
				}
				k, peer := src, e[1-side]
				if side == 1 {
					k = dst
				}
				seg := k.data(i%100, 1500+i%400)
				switch {
				case p.q.Transport == control.QPTypeUD:
					p.post(ctrl(wqe.OpSend), peer.to(), seg)
				case i%3 == 0:
					p.post(ctrl(wqe.OpSend), seg)
				case side == 1 && p.q.Transport == control.QPTypeRC && i%3 == 1:
					p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{RKey: m}, k.data(0, 2000))
				case side == 1 && p.q.Transport == control.QPTypeRC:
					p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: w, Addr: src.addr}, k.data(0, 2000))
				default:
					p.post(ctrl(wqe.OpRDMAWrite), map[bool]*key{true: dst, false: src}[side == 0].raddr(0), seg)
				}
			}
		}
	}
}

// A client that dies at any step of its work leaves nothing behind: no object, no job, and
// no peer that waits for it for ever. Its memory is not touched again. Receives of its
// peers are put back.
func TestDeathAtAnyPoint(t *testing.T) {
	r := newRig(t, Config{Slice: 256, Burst: 2})
	other := r.host("other")
	by, _ := pair(other, other)
	mark := other.used
	for point := range 60 {
		before := other.population()
		h, more := busyClient(r, other)
		for i := range point {
			more(i)
			r.e.Step()
		}
		require.NoError(t, h.c.Close())
		was := append([]byte(nil), h.mem.Bytes()[:h.used]...)
		r.settle()
		r.same(was, h.mem.Bytes()[:h.used], "memory of a client that is gone")
		for _, q := range stalledQueues(r.e) {
			require.NotEqual(t, object.BehindCQ, q.Stall.Kind)
		}
		r.expire()
		require.Zero(t, underWay(r.e))
		by.post(ctrl(wqe.OpNop))
		r.settle()
		by.good()
		// The objects that the other client made for it go too. Then the counts are as at
		// the start.
		for n := range other.c.QPs {
			if n != by.num && n != by.q.Attr.DestQPN {
				other.call(control.OpDestroyQP, &control.QPN{QPN: n}, &control.Empty{})
			}
		}
		for n, s := range other.c.SRQs {
			require.Zero(t, s.Users)
			other.call(control.OpDestroySRQ, &control.SRQN{SRQN: n}, &control.Empty{})
		}
		for n, c := range other.c.CQs {
			if c.Users == 0 {
				other.call(control.OpDestroyCQ, &control.CQN{CQN: n}, &control.Empty{})
			}
		}
		for _, k := range other.c.MRs {
			other.dereg(k.Key)
		}
		require.Equal(t, before, other.population(), "died after %d steps", point)
		require.LessOrEqual(t, len(r.e.Scratch.Spare), 16)
		other.used = mark
	}
}

// A key that is reregistered in the middle of a transfer is another key.
func TestReregistration(t *testing.T) {
	s := newScene(t, Config{Slice: 64})
	h := s.q.h
	rereg := func(m control.ReregMR) uint32 {
		var ans control.Key
		h.call(control.OpReregMR, &m, &ans)
		return ans.Key
	}
	far := h.full(1024, 3)
	s.p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), s.local.data(0, 256))
	s.e.Step()
	require.NotNil(t, s.p.q.Job)
	k := rereg(control.ReregMR{Key: far.key, What: control.ReregAccess, Access: control.AccessRemoteRead})
	require.Equal(t, far.key>>8, k>>8)
	require.NotEqual(t, far.key, k)
	was := append([]byte(nil), far.mem...)
	s.settle()
	require.Equal(t, cqe.RemoteAccess, s.p.scq.one().Syndrome)
	s.same(was, far.mem, "memory that may only be read")
	s.again()
	s.write(cqe.RemoteAccess, wqe.Raddr{Addr: far.addr, RKey: k})
	// The key is now reregistered with another range, another iova and another domain.
	k = rereg(control.ReregMR{Key: k, What: control.ReregRange | control.ReregAccess, Access: control.AccessLocalWrite | control.AccessRemoteWrite,
		Addr: far.addr + 512, Length: 512, IOVA: 0x9000})
	s.write(unharmed, wqe.Raddr{Addr: 0x9000 + 504, RKey: k})
	require.Equal(t, "written!", string(far.mem[1016:]))
	s.write(cqe.RemoteAccess, wqe.Raddr{Addr: 0x9000 + 505, RKey: k})
	s.write(cqe.RemoteAccess, wqe.Raddr{Addr: 0x8fff, RKey: k})
	pd := h.allocPD()
	k = rereg(control.ReregMR{Key: k, What: control.ReregPD, PDN: pd})
	s.write(cqe.RemoteAccess, wqe.Raddr{Addr: 0x9000, RKey: k})
	h.refused(control.CodeBusy, "", control.OpDeallocPD, &control.PD{PDN: pd}, nil)
	k = rereg(control.ReregMR{Key: k, What: control.ReregPD | control.ReregAccess, PDN: h.pd,
		Access: control.AccessLocalWrite | control.AccessRemoteWrite | control.AccessZeroBased})
	s.write(unharmed, wqe.Raddr{Addr: 0, RKey: k})
	h.call(control.OpDeallocPD, &control.PD{PDN: pd}, &control.Empty{})

	before := *s.e.Keys.Find(k)
	for text, m := range map[string]control.ReregMR{
		"change of 0x0": {}, "change of 0x8": {What: 8}, "PD": {What: control.ReregPD, PDN: 1 << 20},
		"access 0x40": {What: control.ReregAccess, Access: 0x40}, "local write": {What: control.ReregAccess, Access: control.AccessRemoteWrite},
		"not inside": {What: control.ReregRange, Addr: h.base + hostSize, Length: 1}, "0 bytes": {What: control.ReregRange, Addr: h.base},
	} {
		m.Key = k
		err := h.try(control.OpReregMR, &m, &control.Key{}, nil)
		require.ErrorContains(t, err, text)
		require.Equal(t, before, *s.e.Keys.Find(k), text)
	}
	h.refused(control.CodeInvalid, "not of registered memory", control.OpReregMR, &control.ReregMR{Key: h.window(1), What: control.ReregPD}, nil)
	h.refused(control.CodeNotFound, "", control.OpReregMR, &control.ReregMR{Key: k ^ 1, What: control.ReregPD}, nil)
	s.p.h.refused(control.CodeNotFound, "", control.OpReregMR, &control.ReregMR{Key: k, What: control.ReregPD}, nil)
}

// Keys of every kind count towards one limit.
func TestKeyLimit(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{MRs: 3}})
	h := r.host("h")
	h.window(1)
	m := h.mkey(3)
	h.full(8, 1)
	for op, m := range map[control.Op]control.Message{
		control.OpAllocMW: &control.MW{PDN: h.pd, Kind: 1}, control.OpCreateMkey: &control.Mkey{PDN: h.pd, Entries: 1},
		control.OpRegMR: &control.MR{PDN: h.pd, Addr: h.base, Length: 1},
	} {
		h.refused(control.CodeLimit, "keys: this client has 3", op, m, nil)
	}
	h.refused(control.CodeInvalid, "type 3", control.OpAllocMW, &control.MW{PDN: h.pd, Kind: 3}, nil)
	h.refused(control.CodeInvalid, "0 entries", control.OpCreateMkey, &control.Mkey{PDN: h.pd}, nil)
	h.refused(control.CodeInvalid, "53 entries", control.OpCreateMkey, &control.Mkey{PDN: h.pd, Entries: 53}, nil)
	h.refused(control.CodeNotFound, "PD", control.OpAllocMW, &control.MW{PDN: 99, Kind: 1}, nil)
	h.refused(control.CodeNotFound, "PD", control.OpCreateMkey, &control.Mkey{PDN: 99, Entries: 1}, nil)
	h.dereg(m)
	h.mkey(1)
}

// If a receiver's memory loses its pages, the receiver is at fault. On an unreliable
// transport the sender's message succeeds, and the sender continues.
func TestReceiverMemoryGoesAway(t *testing.T) {
	for _, transport := range []uint8{control.QPTypeUC, control.QPTypeUD} {
		t.Run(fmt.Sprint(states.Transports[transport].Name), func(t *testing.T) {
			r := newRig(t, Config{})
			p, q := pairOf(transport, r.host("a"), r.host("b"))
			s, u := pairOf(transport, p.h, r.host("c"))
			_, base, shrink := q.h.trusted(1 << 16)
			key := q.h.reg(q.h.pd, base, 1<<16, control.AccessAll&^control.AccessZeroBased)
			q.recv(wqe.Data{ByteCount: 4096, LKey: key, Addr: base})
			box := u.h.full(64, 1)
			u.recv(box.data(0, 64))
			shrink(0)
			r.start()
			send := func(p, to *end) {
				if transport == control.QPTypeUD {
					p.post(ctrl(wqe.OpSend), to.to(), []byte("hello"))
				} else {
					p.post(ctrl(wqe.OpSend), []byte("hello"))
				}
			}
			send(p, q)
			require.Equal(t, unharmed, p.scq.await().Syndrome)
			require.Equal(t, cqe.Flush, q.rcq.await().Syndrome)
			send(s, u)
			require.Equal(t, unharmed, s.scq.await().Syndrome)
			require.Equal(t, unharmed, u.rcq.await().Syndrome)
			r.e.Do(func() {
				require.Equal(t, []uint8{control.StateRTS, control.StateERR}, []uint8{p.state(), q.state()})
			})
		})
	}
}
