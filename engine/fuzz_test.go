package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// FuzzEngineWQE writes any bytes into the rings of a live queue pair and any
// values into its records. The engine must survive; memory without a key, and
// memory of somebody else, must stay as it is; and somebody else's work must
// go on.
//
// The first bytes choose records and what is patched, so that the fuzzer need
// not guess keys: 1 gives the remote segment a key that is valid, 2 the local
// ones, 4 the receive's.
func FuzzEngineWQE(f *testing.F) {
	r := newRig(f, Config{Slice: 64, Burst: 4})
	a, b, c := r.host("a"), r.host("b"), r.host("bystander")
	ca, cb := a.cq(control.CQ{LogSize: 4, Flags: control.CQIgnoreOverrun}), b.cq(control.CQ{LogSize: 4, Flags: control.CQIgnoreOverrun})
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	s, _ := pair(c, b)
	local, far, others := a.full(512, 1), b.full(512, 2), c.full(512, 3)
	pristine := append([]byte(nil), others.mem...)

	add := func(patch byte, sends, receives uint16, segments ...any) {
		p.sent = 0
		clear(p.sq)
		for range sends {
			p.write(wqe.Ctrl{Opcode: segments[0].(wqe.Opcode), Flags: wqe.CEAlways}, segments[1:]...)
		}
		head := []byte{patch, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(head[1:], p.sent)
		binary.BigEndian.PutUint16(head[3:], receives)
		f.Add(append(head, p.sq[:min(len(p.sq), int(p.sent)*64)]...))
	}
	remote, data := wqe.Raddr{Addr: 8}, wqe.Data{ByteCount: 100}
	add(7, 1, 0, wqe.OpRDMAWrite, remote, data)
	add(7, 3, 1, wqe.OpRDMAWriteImm, remote, data, []byte("inline"))
	add(7, 2, 0, wqe.OpRDMARead, remote, data, data)
	add(7, 2, 2, wqe.OpSend, data, data)
	add(3, 1, 9, wqe.OpSendImm, data)
	add(0, 2, 0, wqe.OpNop)
	add(0, 1, 0, wqe.OpUMR, remote, data)

	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 5 {
			t.Skip()
		}
		r.TB = t // who fails, until f cleans up
		defer func() { r.TB = f }()
		patch, sends, receives, ring := in[0], binary.BigEndian.Uint16(in[1:]), binary.BigEndian.Uint16(in[3:]), in[5:]
		p.reset(q)
		q.reset(p)
		clear(p.sq)
		clear(q.rq)
		copy(p.sq, ring)
		if patch&4 != 0 {
			for at := 0; at < len(q.rq); at += q.stride {
				wqe.PutRecv(q.rq[at:at+q.stride], []wqe.Data{far.data(at%256, 64), far.data(200, 100)})
			}
		} else if len(ring) > 0 {
			copy(q.rq, ring[len(ring)/2:])
		}
		for at := 0; at < len(p.sq); at += 64 {
			if patch&1 != 0 {
				binary.BigEndian.PutUint32(p.sq[at+24:], far.key)
				binary.BigEndian.PutUint64(p.sq[at+16:], far.addr+uint64(p.sq[at+23])*4)
			}
			for _, d := range []int{16, 32, 48} {
				if patch&2 != 0 && (d > 16 || patch&1 == 0) {
					binary.BigEndian.PutUint32(p.sq[at+d+4:], local.key)
					binary.BigEndian.PutUint64(p.sq[at+d+8:], local.addr+uint64(p.sq[at+d+15]))
				}
			}
		}
		shm.BE32At(p.rec, 4).Publish(uint32(sends))
		shm.BE32At(q.rec, 0).Publish(uint32(receives))
		for range 64 {
			r.e.Step()
			for _, w := range r.e.stalled {
				w.stall.deadline = 0
			}
		}
		r.settle()
		if !bytes.Equal(pristine, others.mem) {
			t.Fatal("somebody else's memory was written")
		}
		for _, k := range []*key{local, far, others} {
			k.intact()
		}
		s.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), others.data(0, 8))
		r.settle()
		if w := s.scq.one(); w.Syndrome != cqe.Syndrome(0) {
			t.Fatalf("somebody else's work failed: %v", w.Syndrome)
		}
	})
}
