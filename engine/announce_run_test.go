package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A client that rings registers and does not wake the device is found between two naps. One that wakes the
// device is found by a device that sleeps for ever. Beside it are more queues than stay warm.
func TestRungWhileAsleep(t *testing.T) {
	for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
		for _, wakes := range []bool{false, true} {
			s := rung(t, Config{}, mode)
			for range 20 {
				q := s.p.h.qp(control.QP{NoReceive: 1}, s.p.scq, nil)
				q.up(q)
			}
			rouse := func() {}
			if wakes {
				s.e.Hooks.SleepBound, s.e.Hooks.Uncontended = never, true
				rouse = s.p.h.wakes()
				s.q.h.wakes()
			}
			stop := s.start()
			for i := range uint16(20) {
				s.until("the device sleeps", func() bool { return s.e.Asleep.Load() })
				s.p.write(ctrl(wqe.OpNop))
				s.p.bell(places[i%9]).Publish(uint64(doorbell.MakeRing(i+1, s.p.num)))
				rouse()
				w := s.p.scq.await()
				require.Equal(t, cqe.StatusSuccess, w.Status)
				require.Equal(t, i, w.Counter)
			}
			stop()
		}
	}
}

// TestGuardedOrder over a link, and for a queue pair that is watched. The watch has the bytes that
// were executed.
func TestGuardedOrderElsewhere(t *testing.T) {
	t.Run("over a link", func(t *testing.T) {
		overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{}, nil) }
		defer func() { overCable = nil }()
		w := newLatePoster(t, control.DoorbellGuarded, 5)
		require.NotNil(t, w.p.q.Wire)
		require.Empty(t, w.run(300))
	})
	t.Run("watched", func(t *testing.T) {
		w := newLatePoster(t, control.DoorbellGuarded, 6)
		next := w.host("watcher").watch(control.Watch{QPN: w.p.num})
		fetched := 0
		for range 300 {
			require.Empty(t, w.run(1))
			for _, e := range next() {
				if e.Kind == trace.KindFetch {
					at := int(e.Index) * wqe.BlockSize % len(w.image)
					require.Equal(t, w.image[at:at+8], e.Data[:8])
					fetched++
				}
			}
		}
		require.NotZero(t, fetched)
	})
}

// Work that is rung is announced to QUERY_QP and executed by Drain, which servers call before a request that
// ends a queue: more than one visit executes, and before the device has looked at the register.
func TestRungSettles(t *testing.T) {
	for _, mode := range []uint8{control.DoorbellRecord, control.DoorbellRegister, control.DoorbellGuarded} {
		s := rung(t, Config{Slice: 64, Burst: 1}, mode)
		const n = 200
		c := s.p.h.cq(control.CQ{LogSize: 10})
		p := s.p.h.qp(control.QP{UAR: 2, LogSQ: 8, Doorbells: mode, NoReceive: 1}, c, nil)
		p.up(p)
		announced := func() (uint16, uint16) {
			var got control.QPAttr
			s.p.h.call(control.OpQueryQP, &control.QPN{QPN: p.num}, &got)
			return got.Executed, got.Announced
		}
		for lap := range uint16(3) {
			for range n {
				p.write(ctrl(wqe.OpNop))
			}
			if mode == control.DoorbellRecord {
				p.ring()
			} else {
				shm.BE64At(p.q.SQ.Registers.Bytes(), 2*doorbell.UARPageSize+0x800).Publish(uint64(doorbell.MakeRing(p.sent, p.num)))
			}
			done, upTo := announced()
			require.Equal(t, []uint16{lap * n, (lap + 1) * n}, []uint16{done, upTo}, "doorbells %d", mode)
			s.p.h.c.Drain()
			require.Len(t, c.all(), n, "doorbells %d", mode)
			done, upTo = announced()
			require.Equal(t, []uint16{(lap + 1) * n, (lap + 1) * n}, []uint16{done, upTo})
		}
	}
}
