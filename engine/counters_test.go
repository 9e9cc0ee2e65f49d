package engine

import (
	"sync"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A counted is what a client's port counts, by count; those that are 0 are left out.
type counted map[nic.PortCount]uint64

func countedBy(h *host) counted { return nonzero(traffic.Sum(&h.c.Traffic)) }

func nonzero(all nic.PortCounts) counted {
	n := make(counted)
	for i, v := range all {
		if v > 0 {
			n[nic.PortCount(i)] = v
		}
	}
	return n
}

// Each operation counts as packets, bytes and requests of the client that sends it, and of the one that takes
// it, by the fast path and by the general one.
func TestPortCounts(t *testing.T) {
	const long = 600 // two packets and a half with a path MTU of 256
	pieces := func(s *scene, n int) []any { return []any{s.local.data(0, n/2), s.local.data(0, n-n/2)} }
	moved := func(n uint64, more counted) counted {
		c := counted{nic.SentPackets: 3, nic.SentBytes: n}
		for k, v := range more {
			c[k] = v
		}
		return c
	}
	for _, row := range []struct {
		name     string
		op       wqe.Opcode
		post     func(s *scene, one bool) []any
		from, to counted
	}{
		{"WRITE", wqe.OpRDMAWrite, func(s *scene, one bool) []any {
			if one {
				return []any{s.far.raddr(0), s.local.data(0, long)}
			}
			return append([]any{s.far.raddr(0)}, pieces(s, long)...)
		}, moved(long, nil), counted{nic.GotPackets: 3, nic.GotBytes: long, nic.GotWrites: 1}},
		{"READ", wqe.OpRDMARead, func(s *scene, one bool) []any {
			if one {
				return []any{s.far.raddr(0), s.local.data(0, long)}
			}
			return append([]any{s.far.raddr(0)}, pieces(s, long)...)
		}, counted{nic.SentPackets: 1, nic.GotPackets: 3, nic.GotBytes: long},
			moved(long, counted{nic.GotPackets: 1, nic.GotReads: 1})},
		{"SEND", wqe.OpSend, func(s *scene, one bool) []any {
			s.q.recv(s.far.data(0, long))
			if one {
				return []any{s.local.data(0, long)}
			}
			return pieces(s, long)
		}, moved(long, nil), counted{nic.GotPackets: 3, nic.GotBytes: long}},
		{"FETCH_ADD", wqe.OpAtomicFA, func(s *scene, one bool) []any {
			return []any{s.far.raddr(0), wqe.Atomic{SwapAdd: 1}, s.local.data(0, 8)}
		}, counted{nic.SentPackets: 1, nic.GotPackets: 1}, counted{nic.SentPackets: 1, nic.GotPackets: 1, nic.GotAtomics: 1}},
	} {
		for _, fast := range []bool{true, false} {
			t.Run(row.name, func(t *testing.T) {
				r, p, q := duo(t, Config{})
				s := &scene{rig: r, p: p, q: q, local: p.h.full(1024, 1), far: q.h.full(1024, 7)}
				s.e.Hooks.NoFastPath = !fast
				p.q.Attr.PathMTU, q.q.Attr.PathMTU = 1, 1
				p.post(ctrl(row.op), row.post(s, fast)...)
				s.settle()
				s.p.scq.one()
				require.Equal(t, row.from, countedBy(p.h))
				require.Equal(t, row.to, countedBy(q.h))
				var sum nic.PortCounts
				for _, h := range []*host{p.h, q.h} {
					n := traffic.Sum(&h.c.Traffic)
					sum.Add(&n)
				}
				require.Equal(t, sum, nic.Of(s.d).PortCounts()[0])
				require.Empty(t, nonzero(nic.Of(s.d).PortCounts()[1]))
			})
		}
	}
}

// The counts of clients that are gone stay in those of their port.
func TestPortCountsStay(t *testing.T) {
	s := newScene(t, Config{})
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 16))
	s.settle()
	before := nic.Of(s.d).PortCounts()[0]
	require.EqualValues(t, 1, before[nic.GotWrites])
	require.NoError(t, s.p.h.c.Close())
	require.NoError(t, s.q.h.c.Close())
	s.settle()
	after := nic.Of(s.d).PortCounts()[0]
	require.Equal(t, before[:nic.OutOfBuffer], after[:nic.OutOfBuffer])
}

// RNR and lost answers count each try; the requester does not count the last one, after which it gives up.
func TestRetriesAreCounted(t *testing.T) {
	for retries := range uint64(4) {
		s := newScene(t, Config{})
		s.p.q.Attr.RNRRetry = uint8(retries)
		s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
		s.timeouts(s.p, 50)
		s.p.scq.one()
		require.Equal(t, nonzero(nic.PortCounts{nic.RNRNaks: retries, nic.ReqErrors: 1}), countedBy(s.p.h))
		require.Equal(t, counted{nic.OutOfBuffer: retries + 1}, countedBy(s.q.h))

		s = newScene(t, Config{})
		s.p.q.Attr.RetryCount = uint8(retries)
		s.q.toState(control.StateRST)
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		s.timeouts(s.p, 50)
		s.p.scq.one()
		require.Equal(t, nonzero(nic.PortCounts{nic.AckTimeouts: retries, nic.ReqErrors: 1}), countedBy(s.p.h))
		require.Empty(t, countedBy(s.q.h))
	}
}

// Each error is counted once, on the side that finds it and on the side that is told.
func TestErrorsAreCounted(t *testing.T) {
	for _, m := range mistakes() {
		t.Run(m.name, func(t *testing.T) {
			s := newScene(t, Config{})
			if m.prepare != nil {
				m.prepare(s)
			}
			s.p.post(ctrl(m.op), m.lay(s)...)
			s.timeouts(s.p, 20)
			from, to := traffic.Sum(&s.p.h.c.Traffic), traffic.Sum(&s.q.h.c.Traffic)
			bit := func(is bool) uint64 {
				if is {
					return 1
				}
				return 0
			}
			require.Equal(t, bit(m.requester != unharmed)+from[nic.ReqFlushed], from[nic.ReqErrors])
			require.Equal(t, bit(m.requester == cqe.RemoteAccess), from[nic.ReqAccess])
			require.Equal(t, bit(m.requester == cqe.RemoteInvalidRequest), from[nic.ReqInvalid])
			require.Equal(t, bit(m.requester == cqe.RemoteAccess), to[nic.RespAccess])
			require.Equal(t, bit(m.receive == cqe.LocalLength), to[nic.RespLength])
			require.Equal(t, bit(m.receive != unharmed && m.receive != cqe.Flush)+to[nic.RespFlushed], to[nic.RespErrors])
			require.Zero(t, to[nic.GotWrites]+to[nic.GotReads]+to[nic.GotAtomics])
		})
	}
}

// Readers of counts see each client's counts grow only, and at the end all of them, while queue pairs work.
func TestPortCountsBesideTraffic(t *testing.T) {
	const writes, readers = 2000, 4
	r, p, q := duo(t, Config{})
	local, far := p.h.full(64, 1), q.h.full(64, 2)
	stop := r.start()
	defer stop()
	ended := make(chan struct{})
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for last := uint64(0); ; {
				n := nic.Of(r.d).PortCounts()[0][nic.GotWrites]
				if n < last || n > writes {
					t.Errorf("%d WRITEs after %d", n, last)
					return
				}
				last = n
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	for range writes {
		p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), local.data(0, 8))
		p.scq.await()
	}
	close(ended)
	all.Wait()
	n := nic.Of(r.d).PortCounts()[0]
	require.EqualValues(t, writes, n[nic.GotWrites])
	require.EqualValues(t, writes, n[nic.SentPackets])
	require.EqualValues(t, 8*writes, n[nic.SentBytes])
}
