package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// BenchmarkProcessMemory measures WRITEs and READs of memory of another process, beside the
// kernel's calls alone: one call if the other side is mapped, two if it is not. Device and
// calls run alternately within one run.
func BenchmarkProcessMemory(b *testing.B) {
	const most = 1 << 20
	c := startChild(b, 2*most)
	for _, row := range []struct {
		name  string
		op    wqe.Opcode
		local bool // the requester's memory is memory of the process too
	}{
		{"WRITE mapped to process", wqe.OpRDMAWrite, false},
		{"READ process to mapped", wqe.OpRDMARead, false},
		{"WRITE process to process", wqe.OpRDMAWrite, true},
	} {
		for _, n := range []int{8, 4 << 10, 64 << 10, most} {
			b.Run(fmt.Sprintf("%s %d", row.name, n), func(b *testing.B) {
				r, p, q := duo(b, Config{})
				pid := c.cmd.Process.Pid
				require.NoError(b, q.h.c.ShareProcess(pid, c.at))
				require.NoError(b, p.h.c.ShareProcess(pid, c.at))
				rights := uint32(control.AccessAll &^ control.AccessZeroBased)
				far := q.h.reg(q.h.pd, childMemory, most, rights)
				mem, addr := p.h.take(most)
				near := addr
				if row.local {
					near = childMemory + most
				}
				lkey := p.h.reg(p.h.pd, near, most, rights)
				for range 16 {
					p.write(ctrl(row.op), wqe.Raddr{Addr: childMemory, RKey: far}, wqe.Data{ByteCount: uint32(n), LKey: lkey, Addr: near})
				}
				here, there, other := []procmem.Vec{procmem.VecOf(mem[:n])}, []procmem.Vec{{Addr: childMemory, Len: uint64(n)}}, []procmem.Vec{{Addr: near, Len: uint64(n)}}
				kernel := func() {
					switch {
					case row.local:
						_, _ = procmem.Read(pid, here, other)
						_, _ = procmem.Write(pid, here, there)
					case row.op == wqe.OpRDMAWrite:
						_, _ = procmem.Write(pid, here, there)
					default:
						_, _ = procmem.Read(pid, here, there)
					}
				}
				sent := uint16(0)
				device := func() {
					sent++
					shm.BE32At(p.rec, 4).Publish(uint32(sent))
					for uint16(p.q.SQ.Done) != sent {
						r.e.Step()
					}
					p.scq.next()
				}
				inTurns(b, device, kernel)
			})
		}
	}
}

// inTurns runs two functions b.N times each, alternately and in short runs. It reports the
// median time of each, and the speed of the first relative to the second.
func inTurns(b *testing.B, first, second func()) {
	const stint = 16
	var times [2][]float64
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= stint {
		for i, f := range [...]func(){first, second} {
			times[i] = append(times[i], perCall(stint, f))
		}
	}
	one, two := median(times[0]), median(times[1])
	b.ReportMetric(one, "ns/device")
	b.ReportMetric(two, "ns/kernel")
	b.ReportMetric(two/one, "of-kernel")
}

func perCall(n int, f func()) float64 {
	begin := time.Now()
	for range n {
		f()
	}
	return float64(time.Since(begin)) / float64(n)
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
