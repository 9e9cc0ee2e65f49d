package hostpath

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// drain makes the posted work complete without executing it: it advances the count in freed.
func (b *bench) drain() {
	b.sq.posted.Publish(b.sq.next)
	b.sq.freed.Publish(b.sq.next)
}

func TestNoAllocation(t *testing.T) {
	b := newBench(t, 64, nil)
	srq, d := newSRQ(t, 8)
	data, list := make([]byte, 60), sge(64)
	var c [8]Completion
	for name, f := range map[string]func(){
		"pointer":    func() { require.NoError(t, b.sq.Post(&SendWR{Op: OpWrite, SGE: list, Flags: Signaled})) },
		"inline":     func() { require.NoError(t, b.sq.Post(&SendWR{Op: OpSend, Data: data[:8], Flags: Signaled})) },
		"two blocks": func() { require.NoError(t, b.sq.Post(&SendWR{Op: OpWrite, Data: data, Flags: Signaled})) },
		"atomic":     func() { require.NoError(t, b.sq.Post(&SendWR{Op: OpFetchAdd, SGE: list[:1], Flags: Signaled})) },
		"bind": func() {
			require.NoError(t, b.sq.Post(&SendWR{Op: OpBindMW, Bind: &Bind{Type: 2, Length: 5}, Flags: Signaled}))
		},
		"masked atomic": func() {
			require.NoError(t, b.sq.Post(&SendWR{Op: OpMaskedCompareSwap, SGE: list[:1], Mask: &Mask{}, Flags: Signaled}))
		},
		"list": func() {
			require.NoError(t, b.sq.Post(&SendWR{Op: OpBindList, List: &List{Entries: []ListEntry{{SGE: list[0]}}}, Flags: Signaled}))
		},
		"dump": func() { require.NoError(t, b.sq.Post(&SendWR{Op: OpDump, SGE: list[:1], Flags: Signaled})) },
		"wait": func() { require.NoError(t, b.sq.Post(&SendWR{Op: OpWaitCQ, Queue: 1, Flags: Signaled})) },
	} {
		if name == "atomic" || name == "masked atomic" {
			list[0].Length = 8
		}
		require.Zero(t, testing.AllocsPerRun(100, func() {
			f()
			b.sq.Ring()
			b.cq.Arm(true)
			b.dev.step()
			if b.cq.Poll(c[:]) != 1 {
				t.Error("no completion")
			}
		}), name)
		list[0].Length = 64
	}
	receive := RecvWR{SGE: list}
	n := uint16(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if b.rq.PostRecv(&receive) != nil {
			t.Error("refused")
		}
		b.rq.Ring()
		b.dev.recv(n, 1)
		n++
		if b.cq.Poll(c[:]) != 1 {
			t.Error("no completion")
		}
	}), "RQ")
	b.table.Set(b.index, &QP{SRQ: srq, QPN: benchQPN})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if srq.PostRecv(&receive) != nil {
			t.Error("refused")
		}
		srq.Ring()
		i, _ := d.next()
		b.dev.recv(i, 1)
		if b.cq.Poll(c[:]) != 1 {
			t.Error("no completion")
		}
	}), "SRQ")
}

func BenchmarkPost(b *testing.B) {
	data := make([]byte, 200)
	for _, c := range []struct {
		name string
		wr   SendWR
	}{
		{"write one SGE", SendWR{Op: OpWrite, SGE: sge(64), Flags: Signaled}},
		{"write inline 8", SendWR{Op: OpWrite, Data: data[:8], Flags: Signaled}},
		{"send one SGE", SendWR{Op: OpSend, SGE: sge(64), Flags: Signaled}},
		{"write three SGEs", SendWR{Op: OpWrite, SGE: append(sge(64), append(sge(8), sge(8)...)...)}},
		{"write inline 200", SendWR{Op: OpWrite, Data: data}},
		{"fetch and add", SendWR{Op: OpFetchAdd, SGE: sge(8)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newBench(b, 1024, nil)
			b.ReportAllocs()
			for b.Loop() {
				if s.sq.Post(&c.wr) != nil {
					s.drain()
				}
			}
		})
	}
	b.Run("write one SGE, ring", func(b *testing.B) {
		s := newBench(b, 1024, nil)
		wr := SendWR{Op: OpWrite, SGE: sge(64), Flags: Signaled}
		b.ReportAllocs()
		for b.Loop() {
			if s.sq.Post(&wr) != nil {
				s.drain()
			}
			s.sq.Ring()
		}
	})
}

func BenchmarkPostRecv(b *testing.B) {
	s := newBench(b, 1024, nil)
	wr := RecvWR{SGE: sge(64)}
	for b.Loop() {
		if s.rq.PostRecv(&wr) != nil {
			s.rq.freed.Publish(s.rq.next)
		}
	}
}

// BenchmarkPoll polls CQEs that are already in the cache: the cost of the poller
// itself, without the transfer of the device's cache line.
func BenchmarkPoll(b *testing.B) {
	const size = 256
	for _, batch := range []int{1, 16} {
		for _, kind := range []string{"send", "receive"} {
			b.Run(kind+map[int]string{1: " batch=1", 16: " batch=16"}[batch], func(b *testing.B) {
				s := newBench(b, size, nil)
				for i := range uint64(size) {
					require.NoError(b, s.sq.Post(&SendWR{ID: i, Op: OpWrite, SGE: sge(8), Flags: Signaled}))
					require.NoError(b, s.rq.PostRecv(&RecvWR{ID: i}))
				}
				s.sq.Ring()
				s.rq.Ring()
				if kind == "send" {
					s.dev.step()
				} else {
					for i := range uint16(size) {
						s.dev.recv(i, 8)
					}
				}
				c := make([]Completion, batch)
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					if s.cq.ci == size {
						s.cq.ci = 0
						s.sq.freed.Publish(0)
						s.rq.freed.Publish(0)
					}
					n += s.cq.Poll(c)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/cqe")
			})
		}
	}
}
