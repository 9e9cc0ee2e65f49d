package engine

import (
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// seriesRows are the rows of TestFastPathAgrees for series: several WQEs that differ in their
// addresses only, among them WQEs that end a series.
var seriesRows = func() (rows []agreeRow) {
	for _, op := range []struct {
		name string
		post func(w *twin, k int, c wqe.Ctrl)
		code wqe.Opcode
	}{
		{"WRITE", func(w *twin, k int, c wqe.Ctrl) { w.p.write(c, w.far.raddr(16*k), w.local.data(8*k, 8)) }, wqe.OpRDMAWrite},
		{"WRITE of 16 bytes", func(w *twin, k int, c wqe.Ctrl) { w.p.write(c, w.far.raddr(16*k), w.local.data(3*k, 16)) }, wqe.OpRDMAWrite},
		{"WRITE of 300 bytes", func(w *twin, k int, c wqe.Ctrl) { w.p.write(c, w.far.raddr(350*k), w.local.data(300*k, 300)) }, wqe.OpRDMAWrite},
		{"WRITE of 3 bytes", func(w *twin, k int, c wqe.Ctrl) { w.p.write(c, w.far.raddr(5*k), w.local.data(7*k, 3)) }, wqe.OpRDMAWrite},
		{"WRITE, inline", func(w *twin, k int, c wqe.Ctrl) { w.p.write(c, w.far.raddr(16*k), pattern(12, byte(k))) }, wqe.OpRDMAWrite},
		{"READ", func(w *twin, k int, c wqe.Ctrl) { w.p.write(c, w.far.raddr(16*k), w.local.data(9*k, 9)) }, wqe.OpRDMARead},
		{"SEND", func(w *twin, k int, c wqe.Ctrl) { w.q.recv(w.inbox.data(16*k, 16)); w.p.write(c, w.local.data(8*k, 8)) }, wqe.OpSend},
		{"SEND of 1 byte", func(w *twin, k int, c wqe.Ctrl) { w.q.recv(w.inbox.data(16*k, 16)); w.p.write(c, w.local.data(8*k, 1)) }, wqe.OpSend},
		{"SEND, inline", func(w *twin, k int, c wqe.Ctrl) { w.q.recv(w.inbox.data(16*k, 16)); w.p.write(c, pattern(12, byte(k))) }, wqe.OpSend},
	} {
		add := func(name string, taken int, prepare func(a, b *host) (p, q *end), post func(w *twin)) {
			rows = append(rows, agreeRow{op.name + "s, " + name, taken, prepare, func(w *twin) { post(w); w.p.ring() }})
		}
		many := func(n int, c func(k int) wqe.Ctrl) func(w *twin) {
			return func(w *twin) {
				for k := range n {
					op.post(w, k, c(k))
				}
			}
		}
		signaled := func(int) wqe.Ctrl { return ctrl(op.code) }
		add("a ring of them", 16, nil, many(16, signaled))
		add("every third unsignaled", 16, nil, many(16, func(k int) wqe.Ctrl {
			if k%3 == 0 {
				return silent(op.code)
			}
			return ctrl(op.code)
		}))
		add("none signaled", 10, nil, many(10, func(int) wqe.Ctrl { return silent(op.code) }))
		add("one with an event", 5, nil, many(10, func(k int) wqe.Ctrl {
			if k == 5 {
				return wqe.Ctrl{Opcode: op.code, Flags: wqe.CEEvent}
			}
			return ctrl(op.code)
		}))
		add("one fenced", 10, nil, many(10, func(k int) wqe.Ctrl {
			if k == 5 {
				return wqe.Ctrl{Opcode: op.code, Flags: wqe.CEAlways | wqe.FenceStrong}
			}
			return ctrl(op.code)
		}))
		add("room for 8 completions", 9, withCQs(control.QP{}, 3, 6), many(12, signaled))
		add("every second signaled, room for 4 completions", 9, withCQs(control.QP{}, 2, 6), many(12, func(k int) wqe.Ctrl {
			if k%2 == 0 {
				return ctrl(op.code)
			}
			return silent(op.code)
		}))
		add("on a UC queue pair", map[bool]int{true: 0, false: 10}[op.code == wqe.OpRDMARead], kindOf(control.QPTypeUC), many(10, signaled))
		add("all with a wrong index, which was said before", 6, nil, func(w *twin) {
			op.post(w, 0, ctrl(op.code))
			w.p.sq[2] ^= 1
			w.p.ring()
			w.settle()
			many(6, signaled)(w)
			for k := range 6 {
				w.p.sq[(1+k)*wqe.BlockSize+2] ^= 1
			}
		})
		for _, at := range []int{1, 5, 15} {
			add(fmt.Sprintf("WQE %d has a wrong index", at), at, nil, func(w *twin) {
				many(16, signaled)(w)
				w.p.sq[at*wqe.BlockSize+1] ^= 0x80
			})
			add(fmt.Sprintf("WQE %d has another opcode", at), at, nil, func(w *twin) {
				many(16, signaled)(w)
				w.p.sq[at*wqe.BlockSize+3] ^= 0x40
			})
			if op.name == "SEND, inline" {
				continue // it has neither an address nor a key
			}
			add(fmt.Sprintf("WQE %d has another address, beyond the key", at), at, nil, func(w *twin) {
				many(16, signaled)(w)
				w.p.sq[at*wqe.BlockSize+map[bool]int{true: 24, false: 16}[op.code == wqe.OpSend]] ^= 0x80
			})
			if op.code != wqe.OpSend && op.name != "WRITE, inline" {
				add(fmt.Sprintf("WQE %d has another local address, beyond the key", at), at, nil, func(w *twin) {
					many(16, signaled)(w)
					w.p.sq[at*wqe.BlockSize+40] ^= 0x80
				})
			}
			add(fmt.Sprintf("WQE %d has another key", at), at, nil, func(w *twin) {
				many(16, signaled)(w)
				w.p.sq[at*wqe.BlockSize+map[bool]int{true: 20, false: 24}[op.code == wqe.OpSend]] ^= 0x80
			})
		}
	}
	return rows
}()

// A completion queue of entries of 128 bytes, a collapsed one and an armed one get the
// completions of a series one by one.
func TestSeriesInEveryCQ(t *testing.T) {
	for _, m := range []control.CQ{
		{LogSize: 6}, {LogSize: 4}, {LogSize: 6, LogCQE: 7}, {LogSize: 0, Flags: control.CQCollapsed | control.CQIgnoreOverrun},
		{LogSize: 2, Flags: control.CQIgnoreOverrun},
	} {
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			pair := newTwins(t, func(a, b *host) (p, q *end) {
				ca, cb := a.cq(m), b.cq(control.CQ{LogSize: 6})
				return a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
			})
			for range 5 { // several laps of the smaller queues
				pair.both(func(w *twin) {
					for k := range 7 {
						w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(16*k), w.local.data(8*k, 8))
					}
					w.p.ring()
				})
				require.Equal(t, 7, pair.fastPath())
				pair.both(func(w *twin) {
					w.settle()
					shm.BE32At(w.p.scq.rec, 0).Publish(uint32(w.e.CQs[w.p.scq.num].Next))
				})
			}
			pair.compare()
		})
	}
}

// The index of blocks has 16 bits, and so has wqe_counter.
func TestSeriesAcrossTheEndOfTheIndex(t *testing.T) {
	for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpSend} {
		pair := newTwins(t, nil)
		pair.both(func(w *twin) {
			w.p.q.SQ.Done, w.p.sent = 1<<16-6, 1<<16-6
			shm.BE32At(w.p.rec, 4).Publish(1<<16 - 6)
			w.q.q.RQ.Done, w.q.received = 1<<16-6, 1<<16-6
			shm.BE32At(w.q.rec, 0).Publish(1<<16 - 6)
			for k := range 16 {
				if op == wqe.OpSend {
					w.q.recv(w.inbox.data(16*k, 16))
					w.p.write(ctrl(op), w.local.data(8*k, 8))
					continue
				}
				w.p.write(ctrl(op), w.far.raddr(16*k), w.local.data(8*k, 8))
			}
			w.p.ring()
		})
		require.Equal(t, 16, pair.fastPath())
		pair.compare()
		require.Equal(t, uint64(1<<16+10), pair.fast.p.q.SQ.Done)
	}
}

func TestSeriesDoNotAllocate(t *testing.T) {
	defer func() { cqsCompressed = false }()
	for _, compressed := range []bool{false, true} {
		cqsCompressed = compressed
		r, p, q := duo(t, Config{})
		src, dst := p.h.full(1000, 1), q.h.full(1000, 0)
		for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpSend} {
			require.Zero(t, testing.AllocsPerRun(100, func() {
				from := p.q.SQ.Done
				for k := range 8 {
					b := wqe.Start(p.sq, p.sent) // not by p.write, which allocates
					if op == wqe.OpSend {
						wqe.Data{ByteCount: 16, LKey: dst.key, Addr: dst.addr}.Put((*[16]byte)(q.rq[int(q.received)*q.stride%len(q.rq):]))
						q.received++
						shm.BE32At(q.rec, 0).Publish(uint32(q.received))
					} else {
						b.Raddr(dst.raddr(16 * k))
					}
					b.Data(src.data(8*k, 8))
					_, _ = b.Finish(wqe.Ctrl{Opcode: op, QPN: p.num, Flags: wqe.CEAlways})
					p.sent++
				}
				p.ring()
				r.e.Step()
				if p.q.SQ.Done != from+8 {
					t.Fatal("the series was not executed in one step")
				}
				shm.BE32At(p.scq.rec, 0).Publish(uint32(p.q.SQ.CQ.Next) & 0xffffff)
				shm.BE32At(q.rcq.rec, 0).Publish(uint32(q.q.RQ.CQ.Next) & 0xffffff)
			}), "%v, compressed %t", op, cqsCompressed)
		}
	}
}

// If memory without a page ends a series, the WQEs before the fault have completed, and the flush
// says which WQE has failed. The fault can be on either side.
func TestFaultInASeries(t *testing.T) {
	const n, size = 12, 1 << 16
	for _, row := range []struct {
		name  string
		post  func(s *scene, mem wqe.Data, far wqe.Raddr, k int)
		far   bool // the memory without a page is the responder's
		wants cqe.Syndrome
	}{
		{"WRITE from it", func(s *scene, mem wqe.Data, _ wqe.Raddr, k int) {
			s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(8*k), mem)
		}, false, cqe.LocalProtection},
		{"WRITE to it", func(s *scene, _ wqe.Data, far wqe.Raddr, k int) {
			s.p.write(ctrl(wqe.OpRDMAWrite), far, s.local.data(8*k, 8))
		}, true, cqe.RemoteOperation},
		{"READ to it", func(s *scene, mem wqe.Data, _ wqe.Raddr, k int) {
			s.p.write(ctrl(wqe.OpRDMARead), s.far.raddr(8*k), mem)
		}, false, cqe.LocalProtection},
		{"SEND from it", func(s *scene, mem wqe.Data, _ wqe.Raddr, k int) {
			s.q.recv(s.far.data(8*k, 8))
			s.p.write(ctrl(wqe.OpSend), mem)
		}, false, cqe.LocalProtection},
	} {
		for at := range n {
			t.Run(fmt.Sprintf("%s, WQE %d", row.name, at), func(t *testing.T) {
				s := newScene(t, Config{})
				h := s.p.h
				if row.far {
					h = s.q.h
				}
				_, base, shrink := h.trusted(size)
				key := h.reg(h.pd, base, size, control.AccessAll&^control.AccessZeroBased)
				for k := range n {
					addr := base + uint64(8*k)
					if k == at {
						addr += size / 2
					}
					row.post(s, wqe.Data{ByteCount: 8, LKey: key, Addr: addr}, wqe.Raddr{Addr: addr, RKey: key}, k)
				}
				shrink(size / 2)
				s.p.ring()
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				for range 2 {
					s.e.Steps(false)
				}
				list := s.p.scq.all()
				require.Len(t, list, n)
				for k, w := range list {
					require.Equal(t, uint16(k), w.Counter)
					switch {
					case k < at:
						require.Equal(t, unharmed, w.Syndrome, "WQE %d", k)
					case k == at:
						require.Equal(t, row.wants, w.Syndrome)
					default:
						require.Equal(t, cqe.Flush, w.Syndrome)
					}
				}
				if s.q.rq != nil && len(s.q.rcq.all()) > 0 {
					require.EqualValues(t, at, s.q.h.c.Count[control.CounterReceives])
				}
				require.EqualValues(t, at, s.p.h.c.Count[control.CounterWQEs])
				require.EqualValues(t, 8*at, s.p.h.c.Count[control.CounterBytes])
			})
		}
	}
}

// If the receiver's completion queue has lost its page, a series has used receives whose completions
// are lost. Then the receiver does not go on as if nothing had happened, even if it belongs to the
// same client as the sender.
func TestReceiverLosesItsQueueInASeries(t *testing.T) {
	for _, flags := range []uint32{0, control.CQCompressed} {
		r := newRig(t, Config{})
		a := r.host("a")
		ca := a.cq(control.CQ{LogSize: 6})
		mem, base, shrink := a.trusted(1 << 16)
		heap, old, used := a.mem, a.base, a.used
		a.mem, a.base, a.used = mem, base, 0
		cb := a.cq(control.CQ{LogSize: 6, Flags: flags})
		a.mem, a.base, a.used = heap, old, used
		p, q := a.qp(control.QP{}, ca, ca), a.qp(control.QP{}, cb, cb)
		connect(p, q)
		k := a.full(256, 1)
		for range 8 {
			q.recv(k.data(0, 64))
			p.write(ctrl(wqe.OpSend), k.data(64, 8))
		}
		p.ring()
		shrink(0)
		func() {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			r.e.Steps(false)
		}()
		require.Zero(t, r.e.CQs[cb.num].Next)
		require.Equal(t, control.StateERR, p.state())
		require.Equal(t, control.StateERR, q.state(), "flags %d", flags)
	}
}
