package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A transfer that is too long for any cache is copied by its client's Copier, and a shorter
// transfer is not. The right bytes arrive either way.
func TestLongTransfersUseCopier(t *testing.T) {
	const size = 300_000
	for _, row := range []struct {
		name string
		op   wqe.Opcode
		seg  func(local, far *key) []any
	}{
		{"WRITE", wqe.OpRDMAWrite, func(local, far *key) []any { return []any{far.raddr(1), local.data(3, size)} }},
		{"READ", wqe.OpRDMARead, func(local, far *key) []any { return []any{far.raddr(3), local.data(1, size)} }},
		{"pieces", wqe.OpRDMAWrite, func(local, far *key) []any {
			return []any{far.raddr(1), local.data(3, 100_001), local.data(100_004, 5), local.data(100_009, size-100_006)}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, p, q := duo(t, Config{Slice: 4096})
			r.e.DMA.Beyond = size
			local, far := p.h.full(size+8, 1), q.h.full(size+8, 2)
			from, to := local, far
			if row.op == wqe.OpRDMARead {
				from, to = far, local
			}
			for _, nonTemporal := range []bool{false, true} {
				p.h.c.Copier = copying.Fixed(nonTemporal, size+1)
				for i := range to.mem {
					to.mem[i] = 0
				}
				p.post(ctrl(row.op), row.seg(local, far)...)
				r.settle()
				p.good()
				require.Equal(t, from.mem[3:3+size], to.mem[1:1+size])
				require.Equal(t, 1, p.h.c.Copier.Left(), "the copier has copied all but one of its bytes")
			}
			p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), local.data(0, size-1))
			r.settle()
			p.good()
			require.Equal(t, 1, p.h.c.Copier.Left())
			require.Zero(t, q.h.c.Copier)
		})
	}
}

// If memory loses its pages during a copy, the work request fails with the right syndrome,
// whether the copy is cached or non-temporal, and whether the memory is local or remote.
func TestMemoryGoesAwayUnderCopier(t *testing.T) {
	const size = 1 << 16
	for _, nonTemporal := range []bool{false, true} {
		for _, near := range []bool{false, true} {
			r, p, q := duo(t, Config{Slice: 4096})
			r.e.DMA.Beyond = size
			p.h.c.Copier = copying.Fixed(nonTemporal, 1<<30)
			h, want := q.h, cqe.RemoteOperation
			if near {
				h, want = p.h, cqe.LocalProtection
			}
			_, base, shrink := h.trusted(size)
			key := h.reg(h.pd, base, size, control.AccessAll&^control.AccessZeroBased)
			to, from := wqe.Raddr{Addr: base, RKey: key}, wqe.Data{ByteCount: size, LKey: key, Addr: base}
			if near {
				to = q.h.full(size, 1).raddr(0)
			} else {
				from = p.h.full(size, 1).data(0, size)
			}
			shrink(0)
			r.start()
			p.post(ctrl(wqe.OpRDMAWrite), to, from)
			r.failed(p.scq.await(), want, 0)
		}
	}
}
