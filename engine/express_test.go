package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// What goes by express ends as it would have on the long way: completions,
// memory, states.
func TestExpressAgreesWithTheLongWay(t *testing.T) {
	const size = 512
	type variant struct {
		name   string
		adapt  func(p, q *end, s *wqe.Data, r *wqe.Raddr)
		access uint32 // of the target
	}
	all := control.AccessAll &^ control.AccessZeroBased
	variants := []variant{
		{"good", func(p, q *end, s *wqe.Data, r *wqe.Raddr) {}, all},
		{"stale lkey", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { s.LKey ^= 1 }, all},
		{"unknown lkey", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { s.LKey ^= 0x5a00 }, all},
		{"lkey of the peer's domain", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { s.LKey = r.RKey; s.Addr = r.Addr }, all},
		{"source past its end", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { s.Addr += size - 7 }, all},
		{"source before its beginning", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { s.Addr-- }, all},
		{"stale rkey", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { r.RKey ^= 1 }, all},
		{"target past its end", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { r.Addr += size - 7 }, all},
		{"target wraps", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { r.Addr = ^uint64(3) }, all},
		{"target may not be written", func(p, q *end, s *wqe.Data, r *wqe.Raddr) {}, control.AccessLocalWrite | control.AccessRemoteRead},
		{"peer denies", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { q.q.attr.Access = control.AccessRemoteRead }, all},
		{"peer in error", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { q.toState(control.StateERR) }, all},
		{"peer of another", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { q.q.attr.DestQPN++ }, all},
		{"no room for a completion", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { p.q.sendCQ.seen -= 256 }, all},
		{"inline", func(p, q *end, s *wqe.Data, r *wqe.Raddr) { s.ByteCount, s.LKey = wqe.InlineFlag|8, 0x01020304 }, all},
	}
	type outcome struct {
		poster, peer []cqe.WC
		states       [2]uint8
		memory       string
	}
	run := func(t *testing.T, v variant, n int, flags uint8, longWay bool) outcome {
		r, p, q := duo(t, Config{})
		r.e.longWay = longWay
		source, target := p.h.full(size, 1), q.h.key(size, v.access)
		warm := q.h.full(8, 0)
		p.post(silent(wqe.OpRDMAWrite), warm.raddr(0), source.data(0, 8)) // finds the peer
		r.settle()
		s, to := source.data(0, n), target.raddr(0)
		v.adapt(p, q, &s, &to)
		p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Flags: flags}, to, s)
		p.post(ctrl(wqe.OpNop))
		r.expire()
		return outcome{anonymous(p.scq.all()), anonymous(q.scq.all()), [2]uint8{p.state(), q.state()}, fmt.Sprintf("%x", target.mem)}
	}
	for _, v := range variants {
		for _, n := range []int{1, 8, expressBytes, expressBytes + 1, 0} {
			for _, ce := range []uint8{wqe.CEOnError, wqe.CEFirstError, wqe.CEAlways, wqe.CEEvent} {
				t.Run(fmt.Sprintf("%s, %d bytes, ce %#x", v.name, n, ce), func(t *testing.T) {
					require.Equal(t, run(t, v, n, ce, true), run(t, v, n, ce, false))
				})
			}
		}
	}
}

// anonymous leaves out what differs between two engines.
func anonymous(list []cqe.WC) []cqe.WC {
	for i := range list {
		list[i].QPN, list[i].SrcQP = 0, 0
	}
	return list
}
