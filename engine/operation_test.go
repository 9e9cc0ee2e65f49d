package engine

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The test checks for each operation which bytes move, what the poster's completion says, and
// what the peer's completion says.
func TestOperations(t *testing.T) {
	const imm = 0x01020304
	type result struct {
		op     cqe.WCOpcode
		flags  cqe.WCFlags
		length uint32
	}
	none := result{op: 255}
	for _, row := range []struct {
		op     wqe.Opcode
		poster result
		peer   result // none: the peer has no completion
		moved  string // "out", "in" or "message"
	}{
		{wqe.OpNop, result{op: cqe.WCFromPost}, none, ""},
		{wqe.OpRDMAWrite, result{op: cqe.WCRDMAWrite}, none, "out"},
		{wqe.OpRDMAWriteImm, result{op: cqe.WCRDMAWrite, flags: cqe.WCWithImm}, result{cqe.WCRecvRDMAImm, cqe.WCWithImm, 100}, "out"},
		{wqe.OpRDMARead, result{op: cqe.WCRDMARead, length: 100}, none, "in"},
		{wqe.OpSend, result{op: cqe.WCSend}, result{op: cqe.WCRecv, length: 100}, "message"},
		{wqe.OpSendImm, result{op: cqe.WCSend, flags: cqe.WCWithImm}, result{cqe.WCRecv, cqe.WCWithImm, 100}, "message"},
	} {
		t.Run(row.op.String(), func(t *testing.T) {
			r, p, q := duo(t, Config{})
			local, far, inbox := p.h.full(100, 1), q.h.full(100, 50), q.h.full(128, 90)
			was := append([]byte(nil), far.mem...)
			q.recv(inbox.data(0, 128))
			var seg []any
			switch row.moved {
			case "out", "in":
				seg = []any{far.raddr(0), local.data(0, 100)}
			case "message":
				seg = []any{local.data(0, 100)}
			}
			c := ctrl(row.op)
			c.Imm = imm
			p.post(wqe.Ctrl{Opcode: wqe.OpNop}) // so that the index is not 0
			index := p.post(c, seg...)
			r.settle()

			w := p.scq.one()
			require.Equal(t, cqe.StatusSuccess, w.Status)
			require.Equal(t, row.poster, result{w.Opcode, w.Flags, w.ByteLen})
			require.Equal(t, []uint32{uint32(row.op), uint32(index), p.num, uidx}, []uint32{uint32(w.WQEOpcode), uint32(w.Counter), w.QPN, w.UIdx})
			if row.peer == none {
				q.rcq.none()
			} else {
				w := q.rcq.one()
				require.Equal(t, cqe.StatusSuccess, w.Status)
				require.Equal(t, row.peer, result{w.Opcode, w.Flags, w.ByteLen})
				require.Equal(t, []uint32{0, q.num, p.num, uidx}, []uint32{uint32(w.Counter), w.QPN, w.SrcQP, w.UIdx})
				if w.Flags&cqe.WCWithImm != 0 {
					require.Equal(t, uint32(imm), w.Imm)
				}
			}
			switch row.moved {
			case "out":
				r.same(local.mem, far.mem, "written")
			case "in":
				r.same(was, local.mem, "read")
			case "message":
				r.same(local.mem, inbox.mem[:100], "message")
				require.Equal(t, byte(90+100), inbox.mem[100], "behind the message")
			default:
				r.same(was, far.mem, "nothing")
			}
		})
	}
}

// A completion is compared byte for byte.
func TestCompletionBytes(t *testing.T) {
	r, p, q := duo(t, Config{})
	k := q.h.full(16, 0)
	q.recv(k.data(0, 16))
	c := ctrl(wqe.OpSendImm)
	c.Imm, c.Flags = 0xa1b2c3d4, c.Flags|wqe.FlagSolicited
	p.post(c, []byte("hello"))
	r.settle()
	be := binary.BigEndian
	want := make([]byte, 64)
	be.PutUint32(want[24:], p.num)
	be.PutUint32(want[32:], uidx)
	be.PutUint32(want[36:], 0xa1b2c3d4)
	be.PutUint32(want[44:], 5)
	be.PutUint32(want[56:], q.num)
	want[63] = 0x32 // RESP_SEND_IMM, solicited, owner 0
	got := append([]byte(nil), q.rcq.ring[:64]...)
	require.NotZero(t, be.Uint64(got[48:]), "time stamp")
	clear(got[48:56])
	require.Equal(t, want, got)

	want = make([]byte, 64)
	be.PutUint32(want[32:], uidx)
	be.PutUint32(want[56:], uint32(wqe.OpSendImm)<<24|p.num)
	got = append([]byte(nil), p.scq.ring[:64]...)
	clear(got[48:56])
	require.Equal(t, want, got)
}

// Messages of 1 to 30 pieces are gathered and scattered at odd addresses.
func TestPieces(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 6})
	p, q := a.qp(control.QP{LogSQ: 5}, ca, ca), b.qp(control.QP{LogSQ: 5, LogRQStride: 9}, cb, cb)
	p.up(q)
	q.up(p)
	src, dst := a.full(4096, 1), b.full(8192, 7)
	for n := 1; n <= 30; n++ {
		var list []wqe.Data
		var want []byte
		for i := range n {
			off, size := i*97%1000, 1+i*13%70
			list = append(list, src.data(off, size))
			want = append(want, src.mem[off:off+size]...)
		}
		segments := []any{dst.raddr(5)}
		for _, d := range list {
			segments = append(segments, d)
		}
		p.post(ctrl(wqe.OpRDMAWrite), segments...)
		r.settle()
		require.Equal(t, cqe.Syndrome(0), ca.one().Syndrome, "%d pieces", n)
		r.same(want, dst.mem[5:5+len(want)], fmt.Sprintf("written from %d pieces", n))

		var recv []wqe.Data
		for left, i := len(want), 0; left > 0; i++ {
			size := min(left, 1+i*29%200)
			recv = append(recv, dst.data(2000+i*201, size))
			left -= size
		}
		q.recv(recv...)
		p.post(ctrl(wqe.OpSend), segments[1:]...)
		r.settle()
		require.Equal(t, cqe.Syndrome(0), ca.one().Syndrome, "%d pieces", n)
		require.Equal(t, uint32(len(want)), cb.one().ByteLen)
		var got []byte
		for _, d := range recv {
			got = append(got, dst.mem[d.Addr-dst.addr:][:d.ByteCount]...)
		}
		r.same(want, got, fmt.Sprintf("sent from %d pieces to %d", n, len(recv)))

		want = pattern(len(want), byte(n))
		copy(dst.mem[1000:], want)
		segments = segments[:1]
		segments[0] = dst.raddr(1000)
		at := 1500
		got = src.mem[at : at+len(want)]
		for _, d := range list {
			segments = append(segments, src.data(at, int(d.ByteCount)))
			at += int(d.ByteCount)
		}
		p.post(ctrl(wqe.OpRDMARead), segments...)
		r.settle()
		require.Equal(t, uint32(len(want)), ca.one().ByteLen)
		r.same(want, got, fmt.Sprintf("read to %d pieces", n))
	}
}

// Inline data has every length that fits, in one segment and in two.
func TestInline(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{LogSQ: 5}, c, c)
	p.up(p)
	dst := a.full(1200, 0)
	for n := 0; n <= 61*16-4; n++ {
		want := pattern(n, byte(n))
		segments := []any{dst.raddr(3), want}
		if n > 4 && n < 900 {
			segments = []any{dst.raddr(3), want[:n/3], want[n/3:]}
		}
		p.post(ctrl(wqe.OpRDMAWrite), segments...)
		r.settle()
		require.Equal(t, cqe.Syndrome(0), c.one().Syndrome, "%d bytes", n)
		r.same(want, dst.mem[3:3+n], fmt.Sprintf("%d inline bytes", n))
	}
}

// One WQE can have both pointers and inline data, in any order.
func TestInlineBetweenPointers(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(100, 1), q.h.full(200, 2)
	in := pattern(21, 9)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 10), in, src.data(50, 3), []byte{}, []byte("x"))
	r.settle()
	require.Equal(t, cqe.Syndrome(0), p.scq.one().Syndrome)
	want := append([]byte{}, src.mem[:10]...)
	want = append(append(append(want, in...), src.mem[50:53]...), 'x')
	r.same(want, dst.mem[:len(want)], "mixed")
}

// For a message of 0 bytes no key and no address is checked, but a receive is consumed.
func TestZeroLength(t *testing.T) {
	r, p, q := duo(t, Config{})
	nowhere := wqe.Raddr{Addr: ^uint64(0), RKey: 0xdeadbeef}
	p.post(ctrl(wqe.OpRDMAWrite), nowhere)
	p.post(ctrl(wqe.OpRDMARead), nowhere)
	p.post(ctrl(wqe.OpRDMAWrite), nowhere, []byte{})
	q.recv(wqe.Data{ByteCount: 8, LKey: 0xbad}) // this key is not checked either
	q.recv()
	q.recv()
	p.post(ctrl(wqe.OpRDMAWriteImm), nowhere)
	p.post(ctrl(wqe.OpSend))
	p.post(ctrl(wqe.OpSendImm), []byte{})
	r.settle()
	sent := p.scq.all()
	require.Len(t, sent, 6)
	for i, w := range sent {
		require.Equal(t, cqe.StatusSuccess, w.Status)
		require.Equal(t, uint16(i), w.Counter)
		require.Zero(t, w.ByteLen)
	}
	got := q.rcq.all()
	require.Len(t, got, 3)
	for i, w := range got {
		require.Equal(t, cqe.StatusSuccess, w.Status)
		require.Equal(t, uint16(i), w.Counter)
		require.Zero(t, w.ByteLen)
	}
}

// A WRITE with immediate never looks at the list of the receive it consumes.
func TestWriteImmIgnoresReceiveList(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst, inbox := p.h.full(64, 1), q.h.full(64, 2), q.h.full(64, 3)
	q.recv(wqe.Data{}) // some clients leave the entry all zeros
	q.recv(inbox.data(0, 64))
	was := append([]byte(nil), inbox.mem...)
	for range 2 {
		p.post(ctrl(wqe.OpRDMAWriteImm), dst.raddr(0), src.data(0, 64))
	}
	r.settle()
	require.Len(t, p.scq.all(), 2)
	got := q.rcq.all()
	require.Len(t, got, 2)
	require.Equal(t, uint32(64), got[1].ByteLen)
	r.same(was, inbox.mem, "the receive's memory")
	r.same(src.mem, dst.mem, "written")
}

// byte_count 0 is 2^31 bytes, which no key here has.
func TestByteCountZero(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	index := p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 0))
	r.settle()
	r.failed(p.scq.one(), cqe.LocalProtection, index)
}

// Successful work has a completion if its completion mode asks for one.
func TestCompletionModes(t *testing.T) {
	r, p, _ := duo(t, Config{})
	for _, ce := range []uint8{wqe.CEOnError, wqe.CEFirstError, wqe.CEAlways, wqe.CEEvent} {
		index := p.post(wqe.Ctrl{Opcode: wqe.OpNop, Flags: ce})
		r.settle()
		if ce < wqe.CEAlways {
			p.scq.none()
		} else {
			require.Equal(t, index, p.scq.one().Counter)
		}
	}
}

// The strict order of a queue satisfies fences: the next SEND sends the result of a READ,
// with any fence.
func TestOrderWithinAQueue(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 64})
	src, far, inbox := p.h.full(1000, 1), q.h.full(1000, 50), q.h.full(1000, 9)
	q.recv(inbox.data(0, 1000))
	p.write(silent(wqe.OpRDMARead), far.raddr(0), src.data(0, 1000))
	p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEAlways | wqe.FenceVerbs}, src.data(0, 1000))
	r.settle()
	require.Len(t, p.scq.all(), 1)
	r.same(far.mem, inbox.mem, "read, then sent")
}

// A queue pair may be its own peer.
func TestLoopback(t *testing.T) {
	r := newRig(t, Config{Slice: 64})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{}, c, c)
	p.up(p)
	k, m := a.full(1000, 3), a.full(1000, 9)
	p.recv(m.data(500, 500))
	p.post(ctrl(wqe.OpRDMAWrite), m.raddr(0), k.data(0, 500))
	p.post(ctrl(wqe.OpSend), k.data(500, 500))
	r.settle()
	list := c.all()
	require.Len(t, list, 3)
	require.Equal(t, []cqe.Opcode{cqe.Req, cqe.RespSend, cqe.Req}, []cqe.Opcode{list[0].Kind, list[1].Kind, list[2].Kind})
	r.same(k.mem, m.mem, "looped back")
	// The queue pair is requester and responder, so one error ends both sides.
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: 1}, k.data(0, 8))
	r.settle()
	r.failed(c.one(), cqe.RemoteAccess, 2)
	require.Equal(t, control.StateERR, p.state())
}

// A WQE of three blocks begins in each slot of the ring. At the end of the ring it
// continues at the ring's start.
func TestWrap(t *testing.T) {
	for start := range uint16(16) {
		r, p, q := duo(t, Config{})
		src, dst := p.h.full(700, byte(start)), q.h.full(700, 100)
		for range start {
			p.post(silent(wqe.OpNop))
		}
		r.settle()
		in := pattern(130, 5)
		index := p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), in, src.data(0, 17))
		require.Equal(t, start, index)
		require.Equal(t, start+3, p.sent)
		r.settle()
		require.Equal(t, index, p.scq.one().Counter)
		r.same(in, dst.mem[:130], "inline around the end")
		r.same(src.mem[:17], dst.mem[130:147], "a pointer around the end")
		list := []any{dst.raddr(0)}
		for i := range 10 {
			list = append(list, src.data(i*70, 60))
		}
		for range 8 { // 24 blocks, once around
			index = p.post(ctrl(wqe.OpRDMAWrite), list...)
			r.settle()
			require.Equal(t, index, p.scq.one().Counter)
		}
		for i := range 10 {
			r.same(src.mem[i*70:i*70+60], dst.mem[i*60:i*60+60], "pointers around the end")
		}
	}
}

// A queue executes more blocks than an index of 16 bits can number, in WQEs of 1 to 3
// blocks.
func TestIndexWraps(t *testing.T) {
	r, p, q := duo(t, Config{})
	dst := q.h.full(200, 0)
	in := pattern(140, 1)
	for total, i := 0, 0; total < 70_000; i++ {
		size := 1 + i*37%140
		in[0] = byte(i)
		before := p.sent
		index := p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), in[:size])
		total += int(p.sent - before)
		r.e.Step()
		w, _, ok := p.scq.next()
		if !ok || w.Counter != index || w.Kind != cqe.Req || dst.mem[0] != byte(i) {
			t.Fatalf("wqe %d at %d blocks: %t %+v", i, total, ok, w)
		}
	}
	// Receives have a counter of their own.
	for i := range 66_000 {
		q.recv()
		p.post(ctrl(wqe.OpSend))
		r.e.Step()
		w, _, ok := q.rcq.next()
		if _, _, sent := p.scq.next(); !ok || !sent || w.Counter != uint16(i) {
			t.Fatalf("receive %d: %t %+v", i, ok, w)
		}
	}
}

// The engine allocates nothing while no work request fails, with and without slices.
func TestStepDoesNotAllocate(t *testing.T) {
	if *watched {
		t.Skip("a watch records all explanations, and the text of one is allocated")
	}
	for _, slice := range []int{256, 4096} {
		r, p, q := duo(t, Config{Slice: slice})
		src, dst := p.h.full(1000, 1), q.h.full(1000, 0)
		for range 16 {
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
		}
		p.sent = 0
		require.Zero(t, testing.AllocsPerRun(100, func() {
			p.sent++ // announces again what is in the ring
			p.ring()
			for range 4 {
				r.e.Step()
			}
			if _, _, ok := p.scq.next(); !ok {
				t.Fatal("no completion")
			}
		}))
	}
}
