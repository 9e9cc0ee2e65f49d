package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// A mill is twins that execute one input of the fuzzer.
type mill struct {
	*twins
	pairs [3][2][2]*end // indexed by kind of pair, twin, and side
	keys  [2][]uint32
}

// newMill makes the twins, each with the same keys and three pairs of queue pairs: an RC pair
// with a BlueFlame register, a UC pair, and an RC pair with small completion queues that
// overrun soon.
func newMill(t testing.TB) *mill {
	m := &mill{}
	m.twins = newTwins(t, withRegister)
	for i, w := range []*twin{m.fast, m.slow} {
		m.pairs[0][i] = [2]*end{w.p, w.q}
		for kind, prepare := range []func(a, b *host) (p, q *end){kindOf(control.QPTypeUC), withCQs(control.QP{}, 2, 2)} {
			p, q := prepare(w.a, w.b)
			m.pairs[1+kind][i] = [2]*end{p, q}
		}
		m.keys[i] = w.someKeys()
	}
	return m
}

// someKeys makes keys of every sort for the far memory, and returns them. The first has all
// rights.
func (w *twin) someKeys() []uint32 {
	list := w.b.mkey(4)
	w1 := w.b.window(1)
	w.q.post(umr(list), fill(list, mkeyAll, 4096, w.far.klm(0, 2048), w.far.klm(4096, 2048))...)
	w.q.post(umr(w1), w.q.bind(1, uint8(w1), w.far, 0, 4096, mkeyAll)...)
	w.settle()
	w.q.scq.all()
	return []uint32{
		w.far.key, w.far.key, w.far.key, w1,
		w.e.Keys.FindIndex(list).Key, w.far.key ^ 1,
		keyWith(w.far, w.b.pd, without(control.AccessRemoteWrite)),
		keyWith(w.far, w.b.pd, without(control.AccessRemoteRead|control.AccessRemoteAtomic)),
		keyWith(w.far, w.b.allocPD(), without(0)),
	}
}

// FuzzFastPathAgrees gives the same work to an engine with the fast path and to one
// without, and compares everything that clients can see.
//
// The first byte of an input chooses the pair of queue pairs. Each work request is eight
// bytes: the operation and how it is posted, the length, the place of the local bytes, the
// place of the remote bytes, the kind of remote key, flags, which byte of the WQE is changed,
// and how it is changed. Between work requests, receives are posted and steps are made. The two
// highest bits of the operation say how often it is repeated, at places 8 bytes further on each
// time, so that there are series; only the last but one of these WQEs is changed.
func FuzzFastPathAgrees(f *testing.F) {
	for kind := range byte(3) {
		for op := range byte(12) {
			f.Add([]byte{kind, op, 8, 3, 5, 0, 8, 0, 0})
			f.Add([]byte{kind, op, 8, 3, 5, 0, 8, 0, 0, op + 16, 20, 1, 2, 0, 10, 0, 0, op, 200, 0, 0, 6, 8, 0, 0})
			f.Add([]byte{kind, op, 8, 3, 255, 4, 8, 0, 0, op, 8, 3, 5, 0, 0, 23, 1})
			f.Add([]byte{kind, 0xef, 8, 3, 5, 0, 8, 0, 0, op + 0xe0, 8, 3, 5, 0, 8, 0, 0})
			f.Add([]byte{kind, 0xaf, 8, 3, 5, 0, 8, 0, 0, op + 0xe0, 12, 3, 5, 3, 0, 41, 64, op + 0x90, 8, 1, 1, 0, 8, 23, 1})
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 9 {
			t.Skip()
		}
		m := newMill(t)
		for i, w := range []*twin{m.fast, m.slow} {
			pair := m.pairs[in[0]%3][i]
			w.perform(pair[0], pair[1], m.keys[i], in[1:])
		}
		for _, d := range differ(m.fast.see().withoutWaits(), m.slow.see().withoutWaits()) {
			t.Error(d)
		}
	})
}

// withoutWaits returns s without the number of messages that found no receive: this depends on how far the
// engine has come when a receive is posted.
func (s sight) withoutWaits() sight {
	for i := range s.traffic {
		s.traffic[i][nic.OutOfBuffer], s.traffic[i][nic.RNRNaks] = 0, 0
	}
	return s
}

// dsByte is where ds is in the control segment.
const dsByte = 7

// mostTimes is how often a work request is repeated at most.
const mostTimes = 7

// perform posts the work that the input in describes, from p to q. It reads the engine's state
// only when the engine has nothing more to do, because before that the two engines may have
// made different progress.
func (w *twin) perform(p, q *end, keys []uint32, in []byte) {
	posted, receives := 0, 0 // numbers of WQEs and receives since the engine last had nothing to do
	for acts := 0; len(in) >= 8 && acts < mostActs; acts++ {
		if posted+mostTimes > len(p.sq)/wqe.BlockSize || receives+mostTimes > len(q.rq)/q.stride {
			w.settle()
			if posted, receives = int(p.sent-uint16(p.q.SQ.Done)), int(q.received-uint16(q.q.RQ.Done)); posted > 2 || receives > 2 {
				return // the queue pairs wait for each other
			}
		}
		times := [...]int{1, 2, 4, mostTimes}[in[0]>>6]
		for k := range times {
			if w.one(p, q, keys, in, k, k == times-2 || times == 1) {
				posted++
			} else {
				receives++
			}
		}
		switch in[0] >> 4 & 3 {
		case 0:
			p.ring()
		case 1:
			p.ring()
			w.e.Step()
		case 2:
			if p.q.SQ.BlueFlame != nil {
				p.postBlueFlame()
				w.e.Step()
			}
			p.ring()
		}
		if in[6] != 0 && int(in[6])%wqe.BlockSize == dsByte {
			// If ds reaches past the record, what is checked next depends on how much the record announces
			// then, and the two engines may come to it at different times.
			w.settle()
			if uint16(p.q.SQ.Done) != p.sent {
				return
			}
		}
		in = in[8:]
	}
	p.ring()
}

// one posts the WQE or the receive that the first eight bytes of in describe, for the k-th time. It
// changes a byte of the WQE if change is true. It reports whether it has posted a WQE.
func (w *twin) one(p, q *end, keys []uint32, in []byte, k int, change bool) bool {
	length, near, far := int(in[1]&0x7f), int(in[2])*31+8*k, int(in[3])*32+8*k
	if in[1]&0x80 != 0 {
		length *= 64
	}
	length = min(length, max(8192-near, 0))
	remote := wqe.Raddr{Addr: w.far.addr + uint64(far), RKey: keys[int(in[4])%len(keys)]}
	local, result := w.local.data(near, length), w.local.data(near&^7, 8)
	c := wqe.Ctrl{Flags: in[5] & (wqe.CEMask | wqe.FlagSolicited), Imm: uint32(in[1]) << 8}
	var segments []any
	switch in[0] & 15 {
	case 0, 1:
		c.Opcode, segments = wqe.OpRDMAWrite, []any{remote, local}
	case 2:
		c.Opcode, segments = wqe.OpRDMAWrite, []any{remote, pattern(length%29, in[2])}
	case 3:
		c.Opcode, segments = wqe.OpRDMARead, []any{remote, local}
	case 4, 5:
		c.Opcode, segments = wqe.OpSend, []any{local}
	case 6:
		c.Opcode, segments = wqe.OpSendImm, []any{local}
	case 7:
		c.Opcode, segments = wqe.OpSend, []any{pattern(length%45, in[2])}
	case 8:
		c.Opcode, segments = wqe.OpAtomicFA, []any{remote, wqe.Atomic{SwapAdd: uint64(in[1])}, result}
	case 9:
		c.Opcode, segments = wqe.OpAtomicCS, []any{remote, wqe.Atomic{SwapAdd: uint64(in[1]), Compare: uint64(in[2])}, result}
	case 10:
		c.Opcode, segments = wqe.OpRDMAWriteImm, []any{remote, local}
	default:
		q.recv(w.inbox.data(near, length), w.inbox.data(far&4095, 64))
		return false
	}
	at := int(p.write(c, segments...)) * wqe.BlockSize % len(p.sq)
	if in[6] != 0 && change {
		p.sq[at+int(in[6])%wqe.BlockSize] ^= in[7]
	}
	return true
}
