package engine

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkWorstStep measures the longest step while one client does its worst with 10 queues, and no other
// client works: lists of 1-byte pieces whose pages were never touched, on both sides; rings full of WAITs
// that are over; and rings full of SEND_ENs. A bystander's work waits that long at most, and for one step
// more.
func BenchmarkWorstStep(b *testing.B) {
	const queues, bytes, rounds = 10, 900, 10
	b.Run("pieces", func(b *testing.B) {
		var steps []time.Duration
		for range rounds {
			r := newRig(b, Config{})
			x, y := r.host("x"), r.host("y")
			var list []*end
			var keys [2][]uint32
			var memories []*shm.Region
			for side, h := range []*host{x, y} {
				for range queues {
					mem, err := shm.CreateSealed("worst", bytes*page)
					require.NoError(b, err)
					memories = append(memories, mem)
					base := uint64(0x1_0000_0000 * len(memories))
					h.addRegion(base, mem)
					keys[side] = append(keys[side], h.reg(h.pd, base, bytes*page, control.AccessAll&^control.AccessZeroBased))
				}
			}
			var posts []func()
			for i := range queues {
				p, q := pair(x, y)
				list = append(list, p, q)
				var strewn [2]uint32
				for side, e := range []*end{p, q} {
					strewn[side] = e.h.mkey(1)
					base := uint64(0x1_0000_0000 * (1 + side*queues + i))
					e.post(umr(strewn[side]), interleaved(strewn[side], mkeyAll, bytes, bytes, wqe.RepeatEntry{ByteCount: 1, MKey: keys[side][i], Addr: base, Stride: page})...)
				}
				posts = append(posts, func() { p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: strewn[1]}, at(strewn[0], 0, bytes)) })
			}
			r.settle()
			for range loop.RivalryTurns {
				r.e.Step()
			}
			for _, post := range posts {
				post()
			}
			steps = append(steps, longest(r, list))
			for _, m := range memories {
				_ = m.Close()
			}
		}
		reportSteps(b, steps)
	})
	for _, op := range []wqe.Opcode{wqe.OpWait, wqe.OpSendEn} {
		b.Run(op.String(), func(b *testing.B) {
			var steps []time.Duration
			for range rounds {
				r := newRig(b, Config{})
				h := r.host("h")
				steps = append(steps, longest(r, h.waits(op, queues/2, 12)))
			}
			reportSteps(b, steps)
		})
	}
}

// longest steps until all work of some queues is done, and returns the processor time of the longest step.
func longest(r *rig, list []*end) (worst time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		before := processorTime()
		r.e.Step()
		worst = max(worst, processorTime()-before)
		if !slices.ContainsFunc(list, func(p *end) bool { return p.q.SQ.Done != uint64(p.sent) }) {
			return worst
		}
	}
}

// processorTime returns the processor time of this thread, in nanoseconds rather than ticks.
func processorTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

func reportSteps(b *testing.B, steps []time.Duration) {
	slices.Sort(steps)
	b.ReportMetric(float64(steps[len(steps)/2])/1e3, "us-median")
	b.ReportMetric(float64(steps[len(steps)-1])/1e3, "us-max")
	b.ReportMetric(0, "ns/op")
}
