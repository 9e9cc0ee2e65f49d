package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// An account says what an explanation must be: for which client, about which queue, WQE and
// bytes.
type account struct {
	to     *host
	queue  uint32
	index  uint16
	bytes  []byte // nil: the explanation has none
	speaks string // text that the explanation must contain

	receive bool // index is the index of a receive
}

// of returns the account of a WQE of p.
func (p *end) of(index uint16, speaks string) account {
	at := int(index) * 64 % len(p.sq)
	return account{p.h, p.num, index, append([]byte(nil), p.sq[at:at+64]...), speaks, false}
}

// queue returns the account of p as a whole.
func (p *end) queue(index uint16, speaks string) account {
	return account{p.h, p.num, index, nil, speaks, false}
}

// ofReceive returns the account of a receive.
func (p *end) ofReceive(index uint16, speaks string) account {
	at := int(index) * p.stride % len(p.rq)
	return account{p.h, p.num, index, append([]byte(nil), p.rq[at:at+p.stride]...), speaks, true}
}

// counts says what the index of an account counts.
func (a account) counts(s *scene) uint8 {
	switch {
	case s.e.CQs[a.queue] != nil:
		return control.OfCompletion
	case a.receive:
		return control.OfReceive
	}
	return control.OfWQE
}

// dwell makes every suspicion old enough to be explained.
func (r *rig) dwell() {
	r.Helper()
	for range 2 {
		r.settle()
		for _, q := range r.e.Running {
			if q.Suspicion.Since != 0 {
				q.Suspicion.Since = 1
			}
		}
	}
	r.settle()
}

// rail posts a WQE after changing its bytes.
func (p *end) rail(change func(b []byte), c wqe.Ctrl, segments ...any) uint16 {
	p.h.Helper()
	index := p.write(c, segments...)
	at := int(index) * 64 % len(p.sq)
	change(p.sq[at : at+64])
	p.ring()
	return index
}

func setDS(ds byte) func(b []byte) { return func(b []byte) { b[7] = ds } }

func swap32(v uint32) uint32 { return v<<24 | v>>8&0xff<<16 | v>>16&0xff<<8 | v>>24 }

// record stores v in a word of p's record.
func (p *end) record(off uint64, v uint32) { shm.BE32At(p.rec, off).Publish(v) }

// remote returns the account of a WRITE to an address.
func (s *scene) remote(r wqe.Raddr, speaks string) account {
	return s.p.of(s.p.post(ctrl(wqe.OpRDMAWrite), r, s.local.data(0, 8)), speaks)
}

// guarded returns the account of a WRITE to an address of another client. Only that client
// learns why the WRITE is refused.
func (s *scene) guarded(r wqe.Raddr, speaks string) account {
	s.remote(r, "")
	return s.q.queue(0, speaks)
}

// gather returns the account of a WRITE from a piece of memory.
func (s *scene) gather(d wqe.Data, speaks string) account {
	return s.p.of(s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), d), speaks)
}

func (s *scene) receives(list []wqe.Data, speaks string) account {
	s.q.recv(list...)
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 16))
	return s.q.ofReceive(0, speaks)
}

// transport makes a pair of queue pairs of another transport.
func (s *scene) transport(kind uint8) (p, q *end) {
	cp, cq := s.p.h.cq(control.CQ{LogSize: 4}), s.q.h.cq(control.CQ{LogSize: 4})
	p, q = s.p.h.qp(control.QP{Type: kind}, cp, cp), s.q.h.qp(control.QP{Type: kind}, cq, cq)
	p.up(q)
	q.up(p)
	return p, q
}

// small makes a queue pair whose CQ has two entries, and posts enough to overrun that CQ.
func (s *scene) small(index uint16, ci func(c *poller), speaks string) account {
	h := s.p.h
	c := h.cq(control.CQ{LogSize: 1})
	p := h.qp(control.QP{}, c, c)
	p.up(p)
	for range 2 {
		p.post(ctrl(wqe.OpNop))
	}
	s.settle()
	ci(c)
	for range 3 {
		p.post(ctrl(wqe.OpNop))
	}
	return account{h, c.num, index, nil, speaks, false}
}

// recognised has at least one row for each code. The function do of a row does what a client
// does wrong, and returns what must be explained to the client.
var recognised = []struct {
	name string
	code codes.Code
	do   func(s *scene) account
}{
	{"send counter in word 0", codes.RecordWord, func(s *scene) account {
		s.p.write(ctrl(wqe.OpNop))
		s.p.write(ctrl(wqe.OpSend), s.local.data(0, 8), s.local.data(0, 8), s.local.data(0, 8), s.local.data(0, 8))
		s.p.record(0, 3)
		return s.p.queue(0, "word 0 of the doorbell record says 3")
	}},
	{"register without record", codes.RegisterOnly, func(s *scene) account {
		s.p.write(ctrl(wqe.OpNop))
		shm.BE64At(s.p.h.c.UAR.Bytes(), doorbell.UARPageSize+doorbell.BFOffset+doorbell.BFHalf).Publish(uint64(s.p.num)<<8 | 1)
		return s.p.queue(0, "its send record is 0")
	}},
	{"first record in host byte order", codes.RecordByteOrder, func(s *scene) account {
		s.p.write(ctrl(wqe.OpNop))
		binary.LittleEndian.PutUint32(s.p.rec[4:], 1)
		return s.p.queue(0, "which is 1 in host byte order")
	}},
	{"later record in host byte order", codes.RecordByteOrder, func(s *scene) account {
		s.p.post(ctrl(wqe.OpNop))
		s.settle()
		binary.LittleEndian.PutUint32(s.p.rec[4:], 3)
		return s.p.queue(1, "which is 3 in host byte order")
	}},
	{"receive record in host byte order", codes.RecordByteOrder, func(s *scene) account {
		binary.LittleEndian.PutUint32(s.q.rec, 2)
		return s.q.queue(0, "receive record says 0x02000000, which is 2")
	}},
	{"record goes back", codes.RecordBack, func(s *scene) account {
		for range 5 {
			s.p.post(ctrl(wqe.OpNop))
		}
		s.settle()
		s.p.record(4, 3)
		return s.p.queue(5, "2 blocks less")
	}},
	{"record past the ring", codes.RecordRange, func(s *scene) account {
		s.p.record(4, 17)
		return s.p.queue(0, "the ring has 16")
	}},
	{"send in RTR", codes.PostState, func(s *scene) account {
		p := s.p.h.qp(control.QP{}, s.p.scq, s.p.scq)
		p.modify(p.toInit())
		p.modify(p.toRTR(p.num))
		p.post(ctrl(wqe.OpNop))
		return p.queue(0, "1 blocks in state RTR")
	}},
	{"half of a WQE", codes.WQELate, func(s *scene) account {
		p := s.p.h.qp(control.QP{Doorbells: control.DoorbellGuarded}, s.p.scq, s.p.scq)
		p.up(p)
		late := [8]byte(p.sq[8:])
		p.write(ctrl(wqe.OpNop))
		copy(p.sq[8:], late[:])
		p.ring()
		s.settle()
		p.q.Source.LateSince -= clock.Cycles(report.SuspicionTime)
		return p.queue(0, "its 4 bytes at offset 8 have not been written")
	}},

	{"ds 0", codes.DSZero, func(s *scene) account { return s.p.of(s.p.raw(make([]byte, 64)), "ds is 0") }},
	{"WRITE with ds 1", codes.DSSmall, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpRDMAWrite)), "needs at least 2")
	}},
	{"datagram without address", codes.DSSmall, func(s *scene) account {
		p, _ := s.transport(control.QPTypeUD)
		return p.of(p.post(ctrl(wqe.OpSend)), "needs at least 2")
	}},
	{"atomic with ds 3", codes.DSSmall, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{}), "")
	}},
	{"WRITE with a unit too many", codes.DSLarge, func(s *scene) account {
		return s.p.of(s.p.rail(setDS(4), ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8)), "ds 4 counts a unit")
	}},
	{"atomic with a stale unit", codes.DSLarge, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{}, s.local.data(0, 8),
			wqe.Data{ByteCount: 77, LKey: 0x7777}, wqe.Data{}), "ds 6 counts")
	}},
	{"atomic with a second result", codes.DSLarge, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{}, s.local.data(0, 8), s.local.data(8, 8)), "ds 5 counts")
	}},
	{"ds past the record", codes.DSPastRecord, func(s *scene) account {
		return s.p.of(s.p.rail(setDS(5), ctrl(wqe.OpSend)), "ds 5 is 2 blocks")
	}},
	{"index of another slot", codes.IndexMismatch, func(s *scene) account {
		s.p.post(ctrl(wqe.OpNop))
		return s.p.of(s.p.rail(func(b []byte) { b[2] = 9 }, ctrl(wqe.OpNop)), "index 0x0009 in the control segment of block 0x0001")
	}},
	{"QPN of another queue", codes.QPNMismatch, func(s *scene) account {
		change := func(b []byte) { binary.BigEndian.PutUint32(b[4:], s.idle1.num<<8|3) }
		return s.p.of(s.p.rail(change, ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8)), "in the control segment of QP")
	}},
	{"opcode of no device", codes.Opcode, func(s *scene) account { return s.p.of(s.p.post(ctrl(0x7f)), "not executed") }},
	{"READ on UC", codes.Opcode, func(s *scene) account {
		p, _ := s.transport(control.QPTypeUC)
		return p.of(p.post(ctrl(wqe.OpRDMARead), s.far.raddr(0), s.local.data(0, 8)), "on UC")
	}},
	{"not signed", codes.Signature, func(s *scene) account {
		p := s.p.h.qp(control.QP{SignatureOn: 1}, s.p.scq, s.p.scq)
		p.up(p)
		var b [wqe.CtrlSize]byte
		c := wqe.Ctrl{Opcode: wqe.OpNop, QPN: p.num, DS: 1}
		c.Put(&b)
		if wqe.Sign(b[:]) == 0 { // the signature happens to be 0, as if it had been written
			c.Imm = 1
		}
		return p.of(p.post(c), "signature 0x00")
	}},
	{"inline data past ds", codes.InlineRange, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpSend), wqe.Data{ByteCount: wqe.InlineFlag | 13}), "inline data of 13 bytes")
	}},
	{"inline on READ", codes.InlineRead, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpRDMARead), s.far.raddr(0), []byte("data")), "nowhere to put")
	}},
	{"datagram too long", codes.MessageSize, func(s *scene) account {
		p, q := s.transport(control.QPTypeUD)
		return p.of(p.post(ctrl(wqe.OpSend), q.to(), s.p.h.full(4097, 1).data(0, 4097)), "4097 bytes; at most 4096")
	}},
	{"atomic with a long result", codes.AtomicResult, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{}, s.local.data(0, 16)), "with room for 16")
	}},
	{"misaligned atomic", codes.AtomicAlignment, func(s *scene) account {
		return s.p.of(s.p.post(ctrl(wqe.OpAtomicCS), s.far.raddr(4), wqe.Atomic{}, s.local.data(0, 8)), "not a multiple of 8")
	}},
	{"copy between different lengths", codes.MMOLength, func(s *scene) account {
		c := wqe.Ctrl{Opcode: wqe.OpMMO, OpMod: wqe.OpModMMODMA}
		return s.p.of(s.p.post(c, wqe.MMOMeta{}, s.local.data(0, 8), s.local.data(64, 16)), "8 bytes to a place of 16")
	}},
	{"WAIT on no CQ", codes.WaitCQ, func(s *scene) account {
		c := wqe.Ctrl{Opcode: wqe.OpWait, OpMod: wqe.OpModWaitCQ}
		return s.p.of(s.p.post(c, wqe.Wait{Number: s.q.scq.num}), "does not have")
	}},
	{"SEND_EN of no QP", codes.EnableQP, func(s *scene) account {
		return s.p.of(s.p.post(wqe.Ctrl{Opcode: wqe.OpSendEn}, wqe.Wait{Number: s.q.num}), "does not have")
	}},
	{"UMR with half a list", codes.UMRList, func(s *scene) account {
		k := s.p.h.mkey(4)
		segments := fill(k, mkeyAll, 8, wqe.KLM{ByteCount: 8, MKey: s.local.key, Addr: s.local.addr})
		c := segments[0].(wqe.UMRCtrl)
		c.KLMOctowords = 8
		segments[0] = c
		return s.p.of(s.p.post(umr(k), segments...), "list of 8 units")
	}},

	{"lkey in host byte order", codes.KeyByteOrder, func(s *scene) account {
		return s.gather(wqe.Data{ByteCount: 8, LKey: swap32(s.local.key), Addr: s.local.addr}, "host byte order")
	}},
	{"rkey in host byte order", codes.KeyByteOrder, func(s *scene) account {
		return s.remote(wqe.Raddr{Addr: s.far.addr, RKey: swap32(s.far.key)}, "rkey")
	}},
	{"stale variant", codes.KeyStale, func(s *scene) account {
		return s.gather(wqe.Data{ByteCount: 8, LKey: s.local.key ^ 1, Addr: s.local.addr}, "stale")
	}},
	{"stale variant, remote", codes.KeyStale, func(s *scene) account {
		return s.guarded(wqe.Raddr{Addr: s.far.addr, RKey: s.far.key ^ 0xff}, "stale")
	}},
	{"stale variant of another client", codes.KeyRefused, func(s *scene) account {
		return s.remote(wqe.Raddr{Addr: s.far.addr, RKey: s.far.key ^ 0xff}, "why is said to its owner")
	}},
	{"no such key", codes.KeyUnknown, func(s *scene) account {
		return s.gather(wqe.Data{ByteCount: 8, LKey: 0x12300, Addr: s.local.addr}, "lkey 0x00012300 names no memory")
	}},
	{"a stranger's key is as good as none", codes.KeyUnknown, func(s *scene) account {
		return s.gather(s.far.data(0, 8), "names no memory")
	}},
	{"another domain", codes.KeyDomain, func(s *scene) account {
		h := s.p.h
		_, addr := h.take(64)
		return s.gather(wqe.Data{ByteCount: 8, LKey: h.reg(h.allocPD(), addr, 64, control.AccessLocalWrite), Addr: addr}, "another protection domain")
	}},
	{"right is missing", codes.KeyAccess, func(s *scene) account {
		return s.guarded(s.q.h.key(64, control.AccessRemoteRead).raddr(0), "gives remote read, remote write is needed")
	}},
	{"past the end", codes.KeyRange, func(s *scene) account { return s.gather(s.local.data(255, 2), "2 bytes at") }},
	{"byte_count 0", codes.LengthZero, func(s *scene) account { return s.gather(s.local.data(0, 0), "stands for 2^31 bytes") }},
	{"window not bound", codes.KeyUnbound, func(s *scene) account {
		return s.guarded(wqe.Raddr{RKey: s.q.h.window(1)}, "not bound")
	}},
	{"window as lkey", codes.KeyWindow, func(s *scene) account {
		w := s.p.h.window(1)
		s.p.post(umr(w), s.p.bind(1, uint8(w), s.local, 0, 64, mkeyAll)...)
		return s.gather(wqe.Data{ByteCount: 8, LKey: w, Addr: s.local.addr}, "gives remote access only")
	}},
	{"list whose memory is gone", codes.KeyList, func(s *scene) account {
		h := s.p.h
		k, below := h.mkey(4), h.full(64, 3)
		s.p.post(umr(k), fill(k, mkeyAll, 64, wqe.KLM{ByteCount: 64, MKey: below.key, Addr: below.addr})...)
		s.settle()
		h.dereg(below.key)
		return s.gather(wqe.Data{ByteCount: 8, LKey: k}, "entry of its list")
	}},
	{"UMR of registered memory", codes.Bind, func(s *scene) account {
		return s.p.of(s.p.post(umr(s.local.key), s.p.bind(1, 0, s.local, 0, 8, mkeyAll)...), "registered memory")
	}},
	{"UMR of a list that is shorter than its key", codes.Bind, func(s *scene) account {
		k := s.p.h.mkey(4)
		list := fill(k, mkeyAll, 100, s.local.klm(0, 64), s.local.klm(0, 32))
		return s.p.of(s.p.post(umr(k), list...), "than the entries of its list together: it has 100 bytes, they have 96")
	}},
	{"UMR whose length is the sum of a list in an int", codes.Bind, func(s *scene) account {
		k, entry := s.p.h.mkey(4), wqe.KLM{ByteCount: 3 << 29, MKey: s.local.key}
		list := fill(k, mkeyAll, math.MinInt32+1<<30, entry, entry)
		return s.p.of(s.p.post(umr(k), list...), "they have 3221225472, which rdma-core before 61 adds up in an int")
	}},
	{"SEND_INVAL of registered memory", codes.SendInval, func(s *scene) account {
		s.q.recv(s.far.data(0, 64))
		return s.p.of(s.p.post(wqe.Ctrl{Opcode: wqe.OpSendInval, Imm: s.far.key}, s.local.data(0, 8)), "no memory window of type 2")
	}},

	{"no receive", codes.ReceiveNone, func(s *scene) account {
		s.p.q.Attr.RNRRetry = 1
		return s.p.of(s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8)), "gave up after rnr_retry 1")
	}},
	{"datagram without receive", codes.ReceiveNone, func(s *scene) account {
		p, q := s.transport(control.QPTypeUD)
		p.post(ctrl(wqe.OpSend), q.to(), s.local.data(0, 8))
		return account{q.h, q.num, 0, nil, "is lost", true}
	}},
	{"receive too short", codes.ReceiveShort, func(s *scene) account {
		return s.receives([]wqe.Data{s.far.data(0, 8)}, "takes 8 bytes, the message has 16")
	}},
	{"receive list without end", codes.ReceiveNoEnd, func(s *scene) account {
		return s.receives([]wqe.Data{s.far.data(0, 8), {ByteCount: 64, LKey: 0x123400, Addr: 7}}, "unit 1")
	}},
	{"receive list without end, then zeros", codes.ReceiveNoEnd, func(s *scene) account {
		return s.receives([]wqe.Data{s.far.data(0, 8), {}}, "unit 1")
	}},
	{"receive not written", codes.ReceiveUnwritten, func(s *scene) account {
		s.q.record(0, 1)
		s.p.post(ctrl(wqe.OpSend), s.local.data(0, 16))
		return s.q.ofReceive(0, "all zeros")
	}},
	{"key of a receive", codes.KeyStale, func(s *scene) account {
		return s.receives([]wqe.Data{{ByteCount: 64, LKey: s.far.key ^ 1, Addr: s.far.addr}}, "receive 0: lkey")
	}},
	{"receive of byte_count 0", codes.LengthZero, func(s *scene) account {
		return s.receives([]wqe.Data{{LKey: s.far.key, Addr: s.far.addr}}, "2^31")
	}},

	{"no peer at RTR", codes.PeerMissing, func(s *scene) account {
		s.p.toState(control.StateRST)
		s.p.modify(s.p.toInit())
		s.p.modify(s.p.toRTR(15))
		return s.p.queue(0, "did not exist in this engine when this queue pair went to RTR")
	}},
	{"peer is gone", codes.PeerGone, func(s *scene) account {
		s.q.destroy()
		return s.remote(s.far.raddr(0), "has ended")
	}},
	{"peer is not ready", codes.PeerState, func(s *scene) account {
		s.q.toState(control.StateERR)
		return s.remote(s.far.raddr(0), "is in state ERR")
	}},
	{"peer of another transport", codes.PeerTransport, func(s *scene) account {
		p, _ := s.transport(control.QPTypeUC)
		s.p.reset(p)
		return s.remote(s.far.raddr(0), "of transport UC, this one of RC")
	}},
	{"peer not connected back", codes.PeerNotBack, func(s *scene) account {
		s.q.reset(s.idle)
		return s.remote(s.far.raddr(0), "not connected back")
	}},
	{"UC peer not connected back", codes.PeerNotBack, func(s *scene) account {
		p, q := s.transport(control.QPTypeUC)
		q.reset(q)
		return p.of(p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8)), "the message is lost")
	}},
	{"responder does not allow it", codes.ResponderRefuses, func(s *scene) account {
		s.q.modify(control.QPAttr{QPN: s.q.num, Mask: control.AttrState | control.AttrAccess, State: control.StateRTS})
		return s.remote(s.far.raddr(0), "does not allow")
	}},
	{"message for an SRQ of another domain", codes.XRCSRQ, func(s *scene) account {
		x := newXRC(s.p.h, s.q.h)
		other := s.q.h.xsrq(control.XSRQ{XRCDN: s.q.h.openXRCD()}, x.cq)
		return x.p.of(x.p.post(ctrl(wqe.OpSend), wqe.XRC{SRQN: other.num}, s.local.data(0, 8)), "none of the XRC domain")
	}},
	{"DCT that has ended", codes.DCNoTarget, func(s *scene) account {
		p, d := s.p.h.dci(0), s.q.h.dct()
		d.destroy()
		return p.of(p.post(ctrl(wqe.OpRDMAWrite), d.at(), s.far.raddr(0)), "no DCT has the number")
	}},
	{"DCT with another key", codes.DCKey, func(s *scene) account {
		p, to := s.p.h.dci(0), s.q.h.dct().at()
		to.Key++
		return p.of(p.post(ctrl(wqe.OpRDMAWrite), to, s.far.raddr(0)), "its key is another")
	}},
	{"failed stream of a DCI", codes.DCStream, func(s *scene) account {
		p := s.p.h.dci(1)
		p.q.DC.Errored = []uint16{3}
		return p.of(p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Stream: 3}, s.q.h.dct().at(), s.far.raddr(0)), "stream 3")
	}},
	{"compact address vector on Ethernet", codes.AVCompact, func(s *scene) account {
		require.NoError(s, s.p.h.c.SetGIDs([]nic.GID{{Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}}}))
		p, q := s.transport(control.QPTypeUD)
		return p.of(p.post(ctrl(wqe.OpSend), q.compact(), s.local.data(0, 8)), "Ethernet")
	}},
	{"datagram to nobody", codes.UDNoReceiver, func(s *scene) account {
		p, q := s.transport(control.QPTypeUD)
		q.toState(control.StateRST)
		return p.of(p.post(ctrl(wqe.OpSend), q.to(), s.local.data(0, 8)), "listens")
	}},
	{"datagram with another qkey", codes.UDQKey, func(s *scene) account {
		p, q := s.transport(control.QPTypeUD)
		to := q.to()
		to.Key = wqe.UDKey(qkey + 1)
		return p.of(p.post(ctrl(wqe.OpSend), to, s.local.data(0, 8)), "qkey 0x00001ee8")
	}},
	{"datagram while the port is down", codes.PortDown, func(s *scene) account {
		p, q := s.transport(control.QPTypeUD)
		s.d.nic().SetPort(0, false)
		return p.of(p.post(ctrl(wqe.OpSend), q.to(), s.local.data(0, 8)), "the port of nicless0 is down; it is dropped")
	}},
	{"UC after the GID has changed", codes.GIDChanged, func(s *scene) account {
		p, _ := s.transport(control.QPTypeUC)
		s.d.nic().ChangeGID(0)
		return p.of(p.post(ctrl(wqe.OpSend), s.local.data(0, 8)), "the GID of nicless0, the device of QP")
	}},

	{"CQ too small", codes.CQOverrun, func(s *scene) account {
		return s.small(4, func(c *poller) { require.Len(s, c.all(), 2) }, "consumer index 0x000002. Its queue pairs go to error, with 2 completions outstanding; poll before posting more, or make the CQ larger")
	}},
	{"consumer index never advanced", codes.CQNeverPolled, func(s *scene) account {
		return s.small(2, func(*poller) {}, "never been advanced")
	}},
	{"consumer index in host byte order", codes.CQByteOrder, func(s *scene) account {
		return s.small(2, func(c *poller) { binary.LittleEndian.PutUint32(c.rec, 2) }, "is 2 in host byte order")
	}},
	{"consumer index ahead", codes.CQIndex, func(s *scene) account {
		return s.small(2, func(c *poller) { shm.BE32At(c.rec, 0).Publish(7) }, "is not among")
	}},
	{"events are not read", codes.EventLost, func(s *scene) account {
		h := s.p.h
		id, _ := h.channel()
		c := h.cq(control.CQ{LogSize: 4, Channel: id})
		p := h.qp(control.QP{}, c, c)
		p.up(p)
		for i := uint32(0); h.c.Count[control.CounterExplained] == 0; i++ {
			require.Less(s, i, uint32(100_000))
			c.arm(i, false)
			s.e.ObserveArm(s.e.CQs[c.num])
			p.post(ctrl(wqe.OpNop))
			s.e.Step()
			c.all()
		}
		return account{h, c.num, uint16(c.ci), nil, "its event waits: the socket of its channel is full", false}
	}},
	{"memory without pages", codes.MemoryFault, func(s *scene) account {
		_, base, shrink := s.p.h.trusted(1 << 16)
		k := s.p.h.reg(s.p.h.pd, base, 1<<16, control.AccessLocalWrite)
		shrink(0)
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), wqe.Data{ByteCount: 64, LKey: k, Addr: base})
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		s.e.Steps(false)
		return s.p.queue(0, "has no page behind it")
	}},
	{"memory of a process that is not there", codes.ProcessMemory, func(s *scene) account {
		s.p.h.share()
		k := s.p.h.holed()
		return s.gather(k.data(k.page, 64), "cannot be read: EFAULT")
	}},
}

// Each fault is explained once, to the client that caused it and to the log, and to no other
// client.
func TestRecognised(t *testing.T) {
	// progress_test.go and inject_test.go test these: they need a running engine, and rules.
	tested := map[codes.Code]bool{codes.MemorySlow: true, codes.FaultInjected: true}
	for _, row := range recognised {
		tested[row.code] = true
		t.Run(row.name, func(t *testing.T) {
			if report.BlindToRings && (row.code == codes.RecordWord || row.code == codes.RegisterOnly) {
				t.Skip("not looked for under the race detector")
			}
			c, said := logged()
			s := newScene(t, c)
			heard := map[*host]func() *control.Event{s.p.h: s.p.h.events(), s.q.h: s.q.h.events()}
			a := row.do(s)
			s.dwell()
			s.expire()

			var told []*control.Event
			unanswered := uint64(0)
			for h, next := range heard {
				for ev := next(); ev != nil; ev = next() {
					if ev.Kind == control.EventExplanation {
						if h != a.to && (row.code == codes.KeyRefused || strings.HasPrefix(string(ev.Code[:]), "key-refused\x00")) {
							continue // requester and responder have explanations of their own
						}
						if row.code == codes.SendInval && strings.HasPrefix(string(ev.Code[:]), "peer-state\x00") {
							unanswered++ // the responder sends no NAK, so the retries run out
							continue
						}
						require.Same(t, a.to, h, "told to %v: %s", h.c, ev.Text)
						told = append(told, ev)
					}
				}
			}
			require.Len(t, told, 1, said)
			ev := told[0]
			var name [24]byte
			copy(name[:], row.code.String())
			require.Equal(t, string(name[:]), string(ev.Code[:]), ev.Text)
			require.Equal(t, a.queue, ev.Number)
			require.Equal(t, a.index, ev.Index)
			require.Contains(t, ev.Text, a.speaks)
			require.NotContains(t, ev.Text, "%!", "a format that does not fit its values")
			require.Equal(t, a.bytes != nil, ev.HasWQE == 1)
			require.Equal(t, a.counts(s), ev.Of, ev.Text)
			if a.bytes != nil {
				require.Equal(t, a.bytes, ev.WQE[:len(a.bytes)])
			}
			require.Contains(t, said.String(), "code="+row.code.String()+" ")
			require.Equal(t, 1+unanswered, a.to.c.Count[control.CounterExplained])
		})
	}
	for _, row := range recognisedOverLinks {
		tested[row.code] = true
	}
	for _, c := range carriedOnly {
		tested[c] = true
	}
	for c := range codes.Count {
		require.True(t, tested[c], "nothing provokes %v", c)
	}
}

// A diagnosis is short however long the rings are: of the announced entries it reads the
// first and the last ones. Once something has been explained about a queue pair, the device
// makes no further diagnosis of it.
func TestLooksAreShort(t *testing.T) {
	const n = 100
	for name, row := range map[string]struct {
		send, receive int // index of the entry that differs from the others; -1: none
		said          bool
	}{
		"all alike":          {-1, -1, true},
		"in the middle":      {50, 50, true},
		"the first send":     {report.WalkEntries - 1, -1, false},
		"the last send":      {n - 1, -1, false},
		"the first receives": {-1, report.WalkEntries - 1, false},
		"the last receives":  {-1, n - report.WalkEntries, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Config{})
			next := s.p.h.events()
			p := s.p.h.qp(control.QP{LogSQ: 7, LogRQ: 7}, s.p.scq, s.p.scq)
			p.up(p)
			for i := range n {
				p.write(ctrl(wqe.OpNop))
				if i == row.send {
					clear(p.sq[i*64:][:64])
				}
				if i == row.receive {
					p.rq[i*p.stride] = 1
				}
			}
			p.record(0, n)
			s.dwell()
			ev := next()
			if shm.RaceEnabled || !row.said {
				require.Nil(t, ev)
				return
			}
			require.Contains(t, string(ev.Code[:]), codes.RecordWord.String())
			require.Zero(t, testing.AllocsPerRun(10, func() { s.e.DiagnoseQP(p.q) }), "nothing is put into words any more")
		})
	}
}

// A client that tries to connect to a queue pair of another client, which has not named it
// as its peer, learns only that this queue pair exists, whatever its state and its
// transport are.
func TestStrangersLearnNoMoreThanExistence(t *testing.T) {
	for _, transport := range []uint8{control.QPTypeRC, control.QPTypeUC, control.QPTypeUD} {
		for name, state := range map[string]func(v *end){
			"RST":  func(*end) {},
			"INIT": func(v *end) { v.modify(v.toInit()) },
			"RTS":  func(v *end) { v.up(v) },
			"ERR":  func(v *end) { v.up(v); v.toState(control.StateERR) },
		} {
			r := newRig(t, Config{})
			victim, spy := r.host("victim"), r.host("spy")
			vc, sc := victim.cq(control.CQ{LogSize: 4}), spy.cq(control.CQ{LogSize: 4})
			next := spy.events()
			v, s := victim.qp(control.QP{Type: transport}, vc, vc), spy.qp(control.QP{}, sc, sc)
			state(v)
			s.up(v)
			s.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
			r.expire()
			require.Equal(t, fmt.Sprintf("peer QP %#06x exists, but does not answer: it is not connected back to %#06x, or not yet; gave up after retry_cnt 2",
				v.num, s.num), next().Text, "%s", name)
		}
	}
}

// To a requester, a refused key of another client is only explained as refused, in the same words
// whatever is wrong with the key. To the owner the reason is explained.
func TestRefusedKeysTellNothing(t *testing.T) {
	for name, r := range map[string]func(s *scene) wqe.Raddr{
		"none":  func(*scene) wqe.Raddr { return wqe.Raddr{Addr: 0x5000, RKey: 0x12345600} },
		"stale": func(s *scene) wqe.Raddr { return wqe.Raddr{Addr: 0x5000, RKey: s.far.key ^ 1} },
		"range": func(s *scene) wqe.Raddr { return wqe.Raddr{Addr: 0x5000, RKey: s.far.key} },
		"domain": func(s *scene) wqe.Raddr {
			return wqe.Raddr{Addr: 0x5000, RKey: s.q.h.reg(s.q.h.allocPD(), s.far.addr, 64, 0)}
		},
		"not bound": func(s *scene) wqe.Raddr { return wqe.Raddr{Addr: 0x5000, RKey: s.q.h.window(1)} },
	} {
		s := newScene(t, Config{})
		requester, owner := s.p.h.events(), s.q.h.events()
		raddr := r(s)
		s.p.post(ctrl(wqe.OpRDMAWrite), raddr, s.local.data(0, 8))
		s.settle()
		require.Equal(t, fmt.Sprintf("RDMA_WRITE: rkey %#08x does not give peer QP %#06x's memory, 8 bytes at 0x5000; why is said to its owner",
			raddr.RKey, s.q.num), requester().Text, name)
		ev := owner()
		for ev.Kind != control.EventExplanation {
			ev = owner()
		}
		require.Contains(t, ev.Text, fmt.Sprintf("RDMA_WRITE of peer QP %#06x: rkey", s.p.num))
	}
}

// An explanation that is held back is not formatted. So a stream of lost messages costs
// little more than counting them.
func TestWordsAreFoundOnlyToBeSaid(t *testing.T) {
	if *watched {
		t.Skip("a watch records all explanations")
	}
	c, _ := logged()
	s := newScene(t, c)
	said := 0
	loud := object.Because(codes.PeerState, "%v", wordy(func() { said++ }))
	s.e.ExplainQueue(s.p.q, loud.Code, "%s", loud)
	s.p.h.c.Quiet[loud.Code].Until = ^uint64(0)
	for range 9 {
		s.e.ExplainQueue(s.p.q, loud.Code, "%s", loud)
	}
	require.Equal(t, 1, said)
}

// A wordy value counts how often it is formatted.
type wordy func()

func (w wordy) String() string { w(); return "" }
