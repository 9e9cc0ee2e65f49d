package engine

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// register writes a doorbell register of UAR page 0, as the client of p does.
func (p *end) register(half int, word uint64) {
	shm.BE64At(p.h.c.UAR.Bytes(), uint64(doorbell.BFOffset+half*doorbell.BFHalf)).Publish(word)
}

// Nothing that a correct client does raises a suspicion, however long it lasts. A false
// alarm is worse than silence.
func TestGoodClientsAreNotExplained(t *testing.T) {
	// lap sets the counters so that they will pass 16 bits.
	lap := func(p, q *end) {
		const before = 0xfff0
		p.q.SQ.Done, q.q.RQ.Done = before, before
		p.sent, q.received = before, before
		p.record(4, before)
		q.record(0, before)
	}
	write := func(s *scene, change func(index uint16, b []byte)) {
		index := s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 64))
		change(index, s.p.sq[int(index)%16*64:])
	}
	for _, row := range []struct {
		name string
		do   func(s *scene)
	}{
		{"index not masked", func(s *scene) {
			lap(s.p, s.q)
			for i := range uint32(100) {
				write(s, func(_ uint16, b []byte) { b[0] = byte((0xfff0 + i) >> 16) })
				s.p.ring()
				s.settle()
			}
		}},
		{"records of 24 and 32 bits", func(s *scene) {
			lap(s.p, s.q)
			for i := range uint32(0x40) {
				s.q.recv(s.far.data(0, 64))
				s.q.record(0, 0xfff0+i+1)
				s.p.write(ctrl(wqe.OpSend), s.local.data(0, 8))
				s.p.record(4, 0xfff0+i+1)
				s.dwell()
			}
		}},
		{"register, record, register", func(s *scene) {
			for range 40 {
				index := s.p.write(ctrl(wqe.OpNop))
				next := uint64(index+1)<<40 | uint64(s.p.num)<<8 // next index, opcode 0, ds 0
				s.p.register(0, next)
				s.settle()
				s.p.ring()
				s.p.register(0, next)
				s.settle()
			}
		}},
		{"many rings for one record, to and fro", func(s *scene) {
			for i := range 40 {
				s.p.post(ctrl(wqe.OpNop))
				s.settle()
				for half := range 4 {
					s.p.register(half, uint64(i)<<40|uint64(s.p.num)<<8|1)
					s.p.ring()
				}
				s.dwell()
			}
		}},
		{"BlueFlame", func(s *scene) {
			for range 5 {
				index := s.p.write(ctrl(wqe.OpSend), []byte("data"))
				s.q.recv(s.far.data(0, 64))
				s.p.ring()
				s.p.register(0, binary.BigEndian.Uint64(s.p.sq[int(index)*64:]))
				s.dwell()
			}
		}},
		{"receive word goes back", func(s *scene) {
			for range 9 {
				s.q.recv(s.far.data(0, 64))
				s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
				s.settle()
				s.q.record(0, 1)
				s.dwell()
			}
		}},
		{"receives of zeros, of which nothing is scattered", func(s *scene) {
			s.q.record(0, 5)
			for range 5 {
				s.p.post(ctrl(wqe.OpRDMAWriteImm), s.far.raddr(0), s.local.data(0, 8))
				s.dwell()
			}
		}},
		{"receives posted, sends written and not yet announced", func(s *scene) {
			for range 3 {
				s.p.recv(s.local.data(0, 8))
				s.p.write(ctrl(wqe.OpNop))
			}
			s.dwell()
			s.p.ring()
		}},
		{"receives of zeros, more sends written and not yet announced", func(s *scene) {
			s.p.record(0, 2)
			for range 3 {
				s.p.write(ctrl(wqe.OpNop))
			}
			s.dwell()
			s.p.ring()
		}},
		{"sends of an earlier life lie in the ring", func(s *scene) {
			for range 3 {
				s.p.post(ctrl(wqe.OpNop))
			}
			s.p.register(0, uint64(s.p.num)<<8)
			s.settle()
			s.p.reset(s.q)
			s.q.reset(s.p)
			s.p.record(0, 3)
		}},
		{"WQEs of several blocks", func(s *scene) {
			for range 9 {
				s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), pattern(100, 1))
				s.settle()
			}
		}},
		{"work for a queue that others enable", func(s *scene) {
			p := s.p.h.qp(control.QP{Managed: 1}, s.p.scq, s.p.scq)
			p.up(p)
			p.write(ctrl(wqe.OpNop))
			p.record(0, 1)
			s.dwell()
			p.ring()
		}},
		{"garbage in unused fields", func(s *scene) {
			for i := range byte(40) {
				write(s, func(_ uint16, b []byte) {
					b[0], b[8], b[9], b[10] = i, ^i, i+1, i+2
					b[7] |= 0xc0
					b[12], b[28], b[60] = i, i, i
				})
				s.p.ring()
				s.settle()
			}
		}},
		{"messages without data", func(s *scene) {
			s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
			s.p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{})
			s.q.recv()
			s.p.post(ctrl(wqe.OpSend))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			row.do(s)
			s.dwell()
			s.expire()
			require.Empty(t, said.String())
			require.Zero(t, s.p.h.c.Count[control.CounterExplained]+s.q.h.c.Count[control.CounterExplained])
			for _, w := range s.p.scq.all() {
				require.Equal(t, unharmed, w.Syndrome)
			}
		})
	}
}

// A collapsed queue that ignores overruns is never full, so there is no explanation.
func TestCollapsedQueueIsNotExplained(t *testing.T) {
	c, said := logged()
	r := newRig(t, c)
	h := r.host("h")
	cq := h.cq(control.CQ{LogSize: 1, Flags: control.CQCollapsed | control.CQIgnoreOverrun})
	p := h.qp(control.QP{}, cq, cq)
	p.up(p)
	for range 50 {
		p.post(ctrl(wqe.OpNop))
		r.settle()
	}
	require.Equal(t, uint64(50), p.q.SQ.Done)
	require.Empty(t, said.String())
}
