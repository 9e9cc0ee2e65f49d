package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// trial goes through a trial in which a stretch takes so many cycles, and returns
// how many bytes it took.
func (c *copier) trial(cost func(past bool) uint64) (bytes int) {
	for c.left = 0; ; c.left = 0 {
		c.turn()
		if c.pairs == 0 {
			return bytes
		}
		bytes += c.left
		c.cycles = cost(c.past)
	}
}

func flat(through, past uint64) func(bool) uint64 {
	return func(p bool) uint64 {
		if p {
			return past
		}
		return through
	}
}

// The faster way wins, and is asked less and less often; another one is found out
// within the time of the last answer.
func TestCopierLearns(t *testing.T) {
	c := &copier{}
	require.Equal(t, 2*trialPairs*trialBytes, c.trial(flat(200, 100)))
	require.True(t, c.past)
	require.Equal(t, firstRest, c.left)
	for want := 2 * firstRest; want < lastRest; want *= 2 {
		c.trial(flat(200, 100))
		require.True(t, c.past)
		require.Equal(t, want, c.left)
	}
	c.trial(flat(200, 100))
	c.trial(flat(200, 100))
	require.Equal(t, lastRest, c.left)
	c.trial(flat(100, 200))
	require.False(t, c.past)
	require.Equal(t, firstRest, c.left)
	// Whoever was interrupted three times in one way still wins.
	n := 0
	c.trial(func(past bool) uint64 {
		if n++; past && n <= 6 {
			return 1 << 40
		}
		return flat(200, 100)(past)
	})
	require.True(t, c.past)
}

// Trials and rests follow what is copied, in pieces of any length.
func TestCopierTurns(t *testing.T) {
	c := &copier{}
	src, dst := make([]byte, trialBytes/8+1), make([]byte, trialBytes/8+1)
	for i := range src {
		src[i] = byte(i * 7)
	}
	turns, was := 0, false
	for copied := 0; c.rest == 0; copied += len(src) {
		require.Equal(t, len(src), c.copy(dst, src))
		require.Equal(t, src, dst)
		if c.past != was {
			turns, was = turns+1, c.past
		}
		clear(dst)
		require.LessOrEqual(t, copied, 2*trialPairs*(trialBytes+len(src)))
	}
	require.GreaterOrEqual(t, turns, 2*trialPairs-2)
	left := c.left
	require.Equal(t, 100, c.copy(dst[:100], src))
	require.Equal(t, left-100, c.left)
}

// A transfer that no cache holds goes by its client's copier, all others do not;
// what is moved is the same.
func TestLongTransfersGoByCopier(t *testing.T) {
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
			r.e.dma.beyond = size
			local, far := p.h.full(size+8, 1), q.h.full(size+8, 2)
			from, to := local, far
			if row.op == wqe.OpRDMARead {
				from, to = far, local
			}
			for _, past := range []bool{false, true} {
				p.h.c.copier = copier{past: past, left: size + 1, rest: 1}
				for i := range to.mem {
					to.mem[i] = 0
				}
				p.post(ctrl(row.op), row.seg(local, far)...)
				r.settle()
				p.good()
				require.Equal(t, from.mem[3:3+size], to.mem[1:1+size])
				require.Equal(t, 1, p.h.c.copier.left, "what the copier has copied")
			}
			p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), local.data(0, size-1))
			r.settle()
			p.good()
			require.Equal(t, 1, p.h.c.copier.left)
			require.Zero(t, q.h.c.copier)
		})
	}
}

// Memory that goes away under either way is a fault of one queue pair.
func TestMemoryGoesAwayUnderCopier(t *testing.T) {
	const size = 1 << 16
	for _, past := range []bool{false, true} {
		for _, near := range []bool{false, true} {
			r, p, q := duo(t, Config{Slice: 4096})
			r.e.dma.beyond = size
			p.h.c.copier = copier{past: past, left: 1 << 30, rest: 1}
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
			shrink()
			r.start()
			p.post(ctrl(wqe.OpRDMAWrite), to, from)
			r.failed(p.scq.await(), want, 0)
		}
	}
}

func TestBeyondCaches(t *testing.T) {
	if !cpu.CanCopyNonTemporal {
		require.Equal(t, ^uint64(0), beyondCaches(32<<20))
		return
	}
	require.Equal(t, uint64(16<<20), beyondCaches(32<<20))
	require.Equal(t, uint64(trialBytes), beyondCaches(1<<20))
}
