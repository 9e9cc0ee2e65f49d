package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The null key reads as zeros and swallows what is written, on both sides of each operation,
// in one visit or in many, and is no remote key.
func TestNullKey(t *testing.T) {
	for name, cfg := range map[string]Config{"whole": {}, "slices": {Slice: 64}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, cfg)
			const n = execution.NullBytes + 1000
			near, far := s.p.h.full(n, 1), s.q.h.full(n, 2)
			null := func(n uint32) wqe.Data { return wqe.Data{ByteCount: n, LKey: control.NullKey, Addr: 0x1234567890} }
			was := append([]byte(nil), near.mem...)
			// Zeros, after bytes have been written.
			s.p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{Addr: far.addr, RKey: far.key}, null(n))
			s.settle()
			s.p.good()
			s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: far.addr, RKey: far.key}, near.data(0, 8), null(n-16), near.data(8, 8))
			s.settle()
			s.p.good()
			s.same(was[:8], far.mem[:8], "before the null key")
			s.same(make([]byte, n-16), far.mem[8:n-8], "zeros")
			s.same(was[8:16], far.mem[n-8:], "behind the null key")
			// A receive whose middle goes nowhere.
			copy(far.mem, make([]byte, n))
			s.q.recv(far.data(0, 4), null(n-8), far.data(4, 4))
			s.p.post(ctrl(wqe.OpSend), near.data(0, n))
			s.settle()
			s.p.good()
			require.Equal(t, uint32(n), s.q.rcq.one().ByteLen)
			s.same(append(append([]byte(nil), was[:4]...), was[n-4:]...), far.mem[:8], "the ends of the message")
			s.same(make([]byte, n-8), far.mem[8:], "the rest")
			// The value that an atomic has found.
			s.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: far.addr + 8, RKey: far.key}, wqe.Atomic{SwapAdd: 7}, null(8))
			s.settle()
			s.p.good()
			require.Equal(t, uint8(7), far.mem[8])
			s.write(cqe.RemoteAccess, wqe.Raddr{Addr: 0, RKey: control.NullKey})
		})
	}
}
