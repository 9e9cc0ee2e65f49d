package engine

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The tests of this file list what hardware does with faults and with queues in error, and how
// known clients of hardware behave. Each of these facts is a row, with a subtest of its name.
// The subtest checks the fact itself, or runs other tests that check it.

// named returns a test that runs the faults with these names.
func named(names ...string) func(t *testing.T) {
	return func(t *testing.T) {
		all := make(map[string]mistake)
		for _, f := range mistakes() {
			all[f.name] = f
		}
		for _, name := range names {
			f, ok := all[name]
			require.True(t, ok, "no fault of the name %q", name)
			t.Run(name, func(t *testing.T) { f.run(newScene(t, Config{})) })
		}
	}
}

// Each fault gives its syndrome.
func TestFaultRows(t *testing.T) {
	for row, f := range map[string]func(t *testing.T){
		"gather key unknown, wrong variant, other PD, out of range": named("gather key unknown", "gather key of another variant",
			"gather key of another domain", "gather one byte too many", "gather one byte before"),
		"READ or atomic result key without local write": func(t *testing.T) {
			named("READ into a key without local write")(t)
			TestAtomicWithoutPlaceForItsResult(t)
		},
		"malformed WQE: ds too small, opcode unknown or not allowed on this transport, inline on READ": func(t *testing.T) {
			named("WRITE without remote address", "READ with inline data", "an opcode that no device has")(t)
			t.Run("transports", TestUnknownOpcodes)
			t.Run("sizes", TestBadSizes)
		},
		"message longer than log_msg_max or 2^31, or port limit": func(t *testing.T) {
			t.Run("RC", TestMessageTooLong)
			t.Run("UD", TestSQE)
		},
		"atomic with a result list that is not 8 (4) bytes": TestAtomicFaults,
		"remote key unknown, wrong variant, out of range, no permission, other PD": named("remote key unknown", "remote key of another variant",
			"WRITE one byte past the end", "WRITE without remote write", "READ without remote read", "remote key of another domain"),
		"operation not enabled at the responder QP": named("QP without remote write", "QP without remote read"),
		"atomic address not aligned to its size":    TestAtomicFaults,
		"receive list shorter than the SEND":        named("receive too short", "receive without a list"),
		"receive list key bad":                      named("receive with a bad key", "receive past its key", "receive into a key without local write"),
		"no receive posted: RNR retry; rnr_retry 7 is for ever": func(t *testing.T) {
			named("no receive", "no receive for an immediate")(t)
			t.Run("tries", TestRNRRetryCount)
		},
		"peer absent, not RTR or RTS, wrong QPN": func(t *testing.T) {
			named("peer destroyed", "peer reset", "peer in error", "peer connected to another")(t)
			t.Run("tries", TestTransportRetryCount)
		},
		"SEND_INVAL of a key that may not be invalidated": TestSendInvalFaults,
		"bind failure": TestBindFailures,
		"anything queued after the failure, and posted later in ERR":                        named("remote key unknown"),
		"UC: faults at the responder are the requester's success; UD: no receive, bad qkey": TestLostMessages,
		"zero-length WRITE and READ: keys and addresses are not checked":                    TestZeroLength,
	} {
		t.Run(row, f)
	}
}

// A queue pair in error flushes its queues as hardware does.
func TestErrorStateRows(t *testing.T) {
	for row, f := range map[string]func(t *testing.T){
		"1 the CQEs of successes come before the failing one":              named("gather key unknown"),
		"2 RC and UC go to ERR, UD to SQE":                                 func(t *testing.T) { TestSQE(t); TestUnreliableConnection(t) },
		"3 every later send is flushed, unsignaled too, ce 1 not again":    func(t *testing.T) { named("remote key unknown")(t); TestFirstErrorIsReported(t) },
		"4 every posted receive is flushed; SRQ entries are not":           func(t *testing.T) { named("remote key unknown")(t); TestSRQFault(t) },
		"5 what is posted in ERR is flushed when the record shows it":      named("gather key unknown"),
		"6 the peer learns nothing by itself: it times out":                TestCloseInTheMiddle,
		"7 RST discards everything silently, counters restart, CQEs stay":  func(t *testing.T) { TestResetForgets(t); TestCQEsStayAfterReset(t) },
		"8 SQD finishes what was started, tells, and takes NOPs of any ds": func(t *testing.T) { TestDrain(t); TestDrainedEvent(t); TestNopsInPlace(t); TestNopOfAnySize(t) },
	} {
		t.Run(row, f)
	}
}

// Completions that are in a completion queue when the queue pair is reset stay in it.
func TestCQEsStayAfterReset(t *testing.T) {
	r, p, q := duo(t, Config{})
	p.post(ctrl(wqe.OpNop))
	p.post(ctrl(wqe.OpNop))
	r.settle()
	p.reset(q)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	require.Equal(t, []uint16{0, 1, 0}, indices(p.scq.all()))
}

// A style is how one kind of client posts and polls.
type style struct {
	fill             byte // value of every byte of the CQ before it is used
	flags            uint32
	logCQE           uint8
	record           uint32 // mask of the bits of the counter that are stored in the record
	opmod            bool   // the opmod byte holds bits 16..23 of the index
	garbage          bool   // every byte that has no meaning has an arbitrary value
	early            bool   // also rings before it updates the record
	rings            int    // how often it rings after it has updated the record
	batch            int    // WQEs for each update of the record
	next             bool   // it writes the next index, with opcode and ds 0, to the register
	blueFlame, flips bool
	inline           bool
	moveCI           bool
	// done polls, and reports whether everything up to this index is done.
	done func(c *poller, index uint16, seen uint64) bool
}

// byOwner polls as libraries on the CPU do. If bare is true, it decides by the owner bit alone
// and does not check for an invalid opcode.
func byOwner(bare bool) func(*poller, uint16, uint64) bool {
	return func(c *poller, index uint16, seen uint64) bool {
		b := c.block(seen)
		own := cqe.OpOwn(b.ObserveTail())
		return uint64(own.Owner()) == seen>>c.log&1 && (bare || own.Opcode() != cqe.Invalid) &&
			own.Opcode() == cqe.Req && binary.BigEndian.Uint16(b[60:]) == index && int32(binary.BigEndian.Uint32(b[44:])) >= 0
	}
}

// byCounter polls a collapsed queue.
func byCounter(c *poller, index uint16, _ uint64) bool {
	return binary.BigEndian.Uint16(c.block(0)[60:]) == index && c.block(0)[63]>>4 != byte(cqe.ReqErr)
}

// Each style of real clients works, for more blocks than a 16-bit index can count.
func TestClientRows(t *testing.T) {
	const collapsed = control.CQCollapsed | control.CQIgnoreOverrun
	for row, s := range map[string]style{
		"rdma-core: 16-bit record once per call, BlueFlame, flipping halves, 0xf0 fill, stale bytes": {
			fill: 0xf0, record: 0xffff, rings: 1, batch: 3, blueFlame: true, flips: true, garbage: true, moveCI: true, done: byOwner(false)},
		"UCX CPU: 0xf1 fill, owner bit only, 128-byte CQEs": {
			fill: 0xf1, logCQE: 7, record: 0xffff, rings: 1, batch: 1, blueFlame: true, flips: true, moveCI: true, done: byOwner(true)},
		"RDMaxcel: index not masked, 24-bit record before any register, N rings after N posts, CE and solicited": {
			fill: 0xf0, record: 0xffffff, opmod: true, rings: 4, batch: 4, blueFlame: true, garbage: true, moveCI: true, done: byOwner(false)},
		"NVSHMEM IBGDA: collapsed, 0xff fill, next index in the register, CI never written": {
			fill: 0xff, flags: collapsed, record: 0xffff, rings: 1, batch: 2, next: true, done: byCounter},
		"NVSHMEM CPU proxy: next index not masked": {
			fill: 0xff, flags: collapsed, record: 0xffff, opmod: true, rings: 1, batch: 1, next: true, done: byCounter},
		"DeepEP: every WQE signaled, 4 posts for one record, all-zero receive entries": {
			fill: 0xff, flags: collapsed, record: 0xffff, rings: 1, batch: 4, next: true, inline: true, done: byCounter},
		"DOCA GPUNetIO: register, record, register; 0xf1 fill, owner bit only; garbage in the control segment": {
			fill: 0xf1, flags: control.CQIgnoreOverrun, record: 0xffff, early: true, rings: 1, batch: 1, next: true, opmod: true, garbage: true, done: byOwner(true)},
		"UCX GPU: 128 WQEs for one record, register, record, register": {
			fill: 0xff, flags: collapsed, record: 0xffff, early: true, rings: 1, batch: 16, next: true, garbage: true, done: byCounter},
		"rocm-xio: 0xff fill, 8-byte register of the last WQE, CI 24 bits": {
			fill: 0xff, record: 0xffff, rings: 1, batch: 1, flips: true, inline: true, moveCI: true, done: byOwner(false)},
		"rocSHMEM, older: 32-bit record, garbage in reserved fields": {
			fill: 0xff, record: 0xffffffff, rings: 1, batch: 2, flips: true, garbage: true, moveCI: true, done: byOwner(false)},
	} {
		t.Run(row, func(t *testing.T) { s.run(t) })
	}
}

func (s style) run(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	c, d := a.cq(control.CQ{LogSize: 5, LogCQE: max(s.logCQE, 6), Flags: s.flags}), b.cq(control.CQ{LogSize: 5, Flags: control.CQIgnoreOverrun})
	for i := range c.ring {
		c.ring[i] = s.fill
	}
	p, q := a.qp(control.QP{}, c, c), b.qp(control.QP{}, d, d) // the receives of q are all zeros
	p.up(q)
	q.up(p)
	src, dst := a.full(64, 1), b.full(64, 2)
	regs := [2]*shm.BE64{shm.BE64At(a.c.UAR.Bytes(), 0x800), shm.BE64At(a.c.UAR.Bytes(), 0x900)}
	seen, total, rung := uint64(0), uint32(0), 0
	for total < 70_000 {
		var head [8]byte
		ring := func() {
			copy(head[:], p.sq[int(uint16(total-1))*64%len(p.sq):])
			if s.next {
				binary.BigEndian.PutUint32(head[:], total<<8)
				head[7] = 0
			}
			half := 0
			if s.flips {
				half = rung & 1
			}
			regs[half].Publish(binary.BigEndian.Uint64(head[:]))
			if s.blueFlame {
				at := 0x800 + half<<8
				copy(a.c.UAR.Bytes()[at+8:at+64], p.sq[int(uint16(total-1))*64%len(p.sq)+8:])
			}
			rung++
		}
		first := total
		for range s.batch {
			block := p.sq[int(total)*64%len(p.sq):][:64]
			if s.garbage {
				copy(block, pattern(64, byte(total)))
			}
			ctrl := wqe.Ctrl{Index: uint16(total), Opcode: wqe.OpRDMAWriteImm, QPN: p.num, DS: 3, Flags: wqe.CEAlways | wqe.FlagSolicited}
			if s.opmod {
				ctrl.OpMod = uint8(total >> 16)
			}
			raddr := dst.raddr(0)
			if s.garbage {
				ctrl.Sig, ctrl.Stream, ctrl.Imm, raddr.Rsvd = 0x5a, 0xa5a5, 0xdeadbeef, 0xdeadbeef
			}
			ctrl.Put((*[16]byte)(block))
			raddr.Put((*[16]byte)(block[16:]))
			if s.inline {
				binary.BigEndian.PutUint32(block[32:], wqe.InlineFlag|8)
				copy(block[36:], src.mem[:8])
			} else {
				src.data(0, 64).Put((*[16]byte)(block[32:]))
			}
			total++
			q.received++
		}
		if s.early {
			ring()
			r.e.Step()
			require.Equal(t, uint64(first), p.q.SQ.Done, "executed before the record said so")
		}
		shm.BE32At(q.rec, 0).Publish(uint32(q.received) & s.record)
		shm.BE32At(p.rec, 4).Publish(total & s.record)
		for range s.rings {
			ring()
		}
		r.e.Step()
		if s.flags&control.CQCollapsed != 0 {
			if !s.done(c, uint16(total-1), 0) {
				t.Fatalf("block %d is not done", total-1)
			}
			continue
		}
		for ; seen < uint64(total); seen++ {
			if !s.done(c, uint16(seen), seen) {
				t.Fatalf("block %d is not done", seen)
			}
		}
		if s.moveCI {
			shm.BE32At(c.rec, 0).Publish(uint32(seen) & 0xffffff)
		}
	}
	if s.inline {
		require.Equal(t, src.mem[:8], dst.mem[:8])
	} else {
		r.same(src.mem, dst.mem, "written")
	}
	require.Equal(t, []uint8{control.StateRTS, control.StateRTS}, []uint8{p.state(), q.state()})
}

// A command of several blocks completes with the index of its first block. The NOP after it,
// whose ds is 2, brings wqe_counter to the last block.
func TestNVSHMEMNop(t *testing.T) {
	r, p, c := single(t, control.CQ{LogSize: 2, Flags: control.CQCollapsed | control.CQIgnoreOverrun})
	k := p.h.full(256, 1)
	p.post(silent(wqe.OpRDMAWrite), k.raddr(0), pattern(100, 3))
	var b [64]byte
	wqe.Ctrl{Opcode: wqe.OpNop, QPN: p.num, DS: 2, Flags: wqe.CEAlways}.Put((*[16]byte)(b[:]))
	index := p.raw(b[:])
	r.settle()
	w, _, _ := c.at0()
	require.Equal(t, []any{unharmed, index}, []any{w.Syndrome, w.Counter})
}
