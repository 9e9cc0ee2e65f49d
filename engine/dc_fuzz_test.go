package engine

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A dcTarget is a target with a DCI and two DCTs, whose keys are dcKeys.
type dcTarget struct {
	*target
	dci     *end
	srq     *srqEnd
	targets []*end
}

var dcKeys = []uint64{dcKey, 0x5623ceaf}

func newDCTarget(t testing.TB) *dcTarget {
	x := &dcTarget{target: newTarget(t)}
	x.dci = x.a.qp(control.QP{Type: control.QPTypeDCI, NoReceive: 1, Streams: 1}, x.cqA, x.cqA)
	x.srq = x.b.srq(control.SRQ{})
	for _, k := range dcKeys {
		d := x.b.dctOf(control.DCT{PDN: x.b.pd, SRQN: x.srq.num, CQN: x.cqB.num, Key: k})
		d.modify(d.toInit())
		d.modify(d.toRTR(0))
		x.targets = append(x.targets, d)
	}
	return x
}

// FuzzEngineDC writes any bytes into the ring of a DCI and any value into its record.
//
// The first bytes of an input are a patch, the DCT that is to be addressed, the record, and how
// many receives are posted. The bits of the patch put valid values into each WQE: 1 an address
// vector, 2 a key in the remote address segment, 4 in the data segment after it; 8 makes the
// vector compact.
func FuzzEngineDC(f *testing.F) {
	x := newDCTarget(f)
	p := x.dci
	add := func(patch, target byte, receives byte, c wqe.Ctrl, segments ...any) {
		p.sent = 0
		clear(p.sq)
		p.write(c, segments...)
		f.Add(append([]byte{patch, target, 0, byte(p.sent), receives}, p.sq[:int(p.sent)*64]...))
	}
	full, compact := wqe.AV{CompactAV: wqe.CompactAV{Ext: true}}, wqe.CompactAV{}
	for target := range byte(2) {
		add(7, target, 0, ctrl(wqe.OpRDMAWrite), full, wqe.Raddr{}, wqe.Data{ByteCount: 100})
		add(15, target, 1, ctrl(wqe.OpRDMAWriteImm), compact, wqe.Raddr{}, wqe.Data{ByteCount: 100})
		add(7, target, 0, ctrl(wqe.OpRDMARead), full, wqe.Raddr{}, wqe.Data{ByteCount: 100})
		add(1, target, 2, ctrl(wqe.OpSend), full, []byte("inline"))
		add(9, target, 2, wqe.Ctrl{Opcode: wqe.OpSendInval, Imm: 1}, compact, []byte("inline"))
		add(7, target, 0, ctrl(wqe.OpAtomicFA), full, wqe.Raddr{}, wqe.Atomic{SwapAdd: 1}, wqe.Data{ByteCount: 8})
		add(7, target, 0, wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Stream: 3}, full, wqe.Raddr{}, wqe.Data{ByteCount: 100, LKey: 1})
	}
	add(0, 0, 1, ctrl(wqe.OpSend), full, []byte("to nobody"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 5 {
			t.Skip()
		}
		x := newDCTarget(t)
		p, s, targets := x.dci, x.srq, x.targets
		patch, n, ring := in[0], int(in[1]&1), in[5:]
		p.dciUp()
		copy(p.sq, ring)
		be := binary.BigEndian
		for at := 0; at < len(p.sq); at += 64 {
			b, next := p.sq[at:], 64
			if patch&1 != 0 {
				be.PutUint64(b[16:], dcKeys[n])
				be.PutUint32(b[24:], 1<<31|targets[n].num)
			}
			if patch&8 != 0 {
				b[24], next = b[24]&0x7f, 32
			}
			if patch&2 != 0 && at+next+16 <= len(p.sq) {
				be.PutUint64(b[next:], x.far.addr+uint64(b[next+7])*2)
				be.PutUint32(b[next+8:], x.far.key)
			}
			if patch&4 != 0 && at+next+32 <= len(p.sq) {
				be.PutUint32(b[next+20:], x.local.key)
				be.PutUint64(b[next+24:], x.local.addr+uint64(b[next+31])*2)
			}
		}
		for i := range uint16(8) {
			s.put(i, x.far.data(int(i)*32, 64))
		}
		s.post(int(in[4] & 3))
		shm.BE32At(p.rec, 4).Publish(uint32(be.Uint16(in[2:])))
		x.run2(p)
		for _, d := range targets {
			if d.state() != control.StateRTR {
				t.Fatalf("a DCI has put a DCT into state %s", states.Name(d.state()))
			}
		}
		x.check()
	})
}
