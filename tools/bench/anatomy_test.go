package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// BenchmarkAnatomy divides the round trip of an 8-byte WRITE into steps. Each figure includes one
// step more than the figure before. A figure is the median of many stints; the stints of all
// figures alternate. The time above the floor is the work of the device and the poster.
func BenchmarkAnatomy(b *testing.B) {
	cpus, err := AllowedCPUs()
	require.NoError(b, err)
	if len(cpus) < 2 {
		b.Skip("poster and device need a core each")
	}
	const stint, stints = 2000, 40
	steps := []struct {
		name string
		trip func(*testing.B) (once func(n int) time.Duration, end func())
	}{
		{"1-line-each-way-ns", func(b *testing.B) (func(int) time.Duration, func()) { return echo(b, cpus[1], false) }},
		{"2-wqe-doorbell-cqe-ns", func(b *testing.B) (func(int) time.Duration, func()) { return echo(b, cpus[1], true) }},
		{"3-copy-ns", func(b *testing.B) (func(int) time.Duration, func()) {
			f, err := newFloor(shape{}, 8, 1, 1, cpus[1])
			require.NoError(b, err)
			return func(n int) time.Duration {
				s, err := f.roundTrip(n)
				require.NoError(b, err)
				return time.Duration(s.value * float64(n))
			}, func() { require.NoError(b, f.close()) }
		}},
		{"4-nicless-nop-ns", func(b *testing.B) (func(int) time.Duration, func()) {
			return posted(b, cpus[1], func(*nicless.MR) nicless.SendWR { return nicless.SendWR{Op: nicless.Nop, Flags: nicless.Signaled} })
		}},
		{"5-write-inline-ns", func(b *testing.B) (func(int) time.Duration, func()) {
			data := make([]byte, 8)
			return posted(b, cpus[1], func(m *nicless.MR) nicless.SendWR {
				return nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, Data: data, RemoteAddr: m.Addr() + 64, RKey: m.RKey()}
			})
		}},
		{"6-write-ns", func(b *testing.B) (func(int) time.Duration, func()) {
			return posted(b, cpus[1], func(m *nicless.MR) nicless.SendWR {
				return nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{m.SGE(0, 8)}, RemoteAddr: m.Addr() + 64, RKey: m.RKey()}
			})
		}},
	}
	took := make([][]float64, len(steps))
	done := make(chan bool)
	for b.Loop() {
		go func() { // in a goroutine, so that the pinned thread ends with it
			defer close(done)
			if err := pinForGood(cpus[0]); err != nil {
				b.Error(err)
				return
			}
			for range 3 {
				for i, s := range steps {
					once, end := s.trip(b)
					once(stint)
					for range stints {
						took[i] = append(took[i], float64(once(stint))/stint)
					}
					end()
				}
			}
		}()
		<-done
		done = make(chan bool)
	}
	for i, s := range steps {
		slices.Sort(took[i])
		b.ReportMetric(took[i][len(took[i])/2], s.name)
	}
	b.ReportMetric(0, "ns/op")
}

// echo makes round trips with a partner that answers each word. A round trip is either one cache
// line each way, or a descriptor and a doorbell in one direction and a completion back.
func echo(b *testing.B, partner int, lines bool) (once func(n int) time.Duration, end func()) {
	f, err := newFloor(shape{}, 8, 1, 1, partner)
	require.NoError(b, err)
	back := shm.Word64At(f.mem, 1024)
	once = func(n int) time.Duration {
		f.doorbell.Publish(0)
		back.Publish(0)
		clear(f.mem[f.cq : f.cq+(f.mask+1)*64])
		ready := make(chan error)
		ended := make(chan uint64)
		go func() {
			ready <- pinForGood(partner)
			sum := uint64(0)
			for i := uint64(0); i < uint64(n); i++ {
				for f.doorbell.Observe() != i+1 {
				}
				if lines {
					sum += get(f.descriptor(i))
					put(f.completion(i), i+1, i+1)
				} else {
					back.Publish(i + 1)
				}
			}
			ended <- sum
		}()
		require.NoError(b, <-ready)
		begin := time.Now()
		for i := uint64(0); i < uint64(n); i++ {
			if lines {
				put(f.descriptor(i), i+1, i+1)
			}
			f.doorbell.Publish(i + 1)
			if lines {
				for f.completion(i).ObserveTail() != i+1 {
				}
				continue
			}
			for back.Observe() != i+1 {
			}
		}
		took := time.Since(begin)
		sink.Store(<-ended)
		return took
	}
	return once, func() { require.NoError(b, f.close()) }
}

// posted makes round trips of a work request through an engine in this process.
func posted(b *testing.B, cpu int, request func(*nicless.MR) nicless.SendWR) (once func(n int) time.Duration, end func()) {
	c, err := nicless.Open(nicless.Config{CPUs: []int{cpu}, Spin: true})
	require.NoError(b, err)
	pd, err := c.AllocPD()
	require.NoError(b, err)
	mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(b, err)
	cq, err := c.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(b, err)
	q, _, err := connected(pd, nicless.QPConfig{SendCQ: cq})
	require.NoError(b, err)
	wr := request(mr)
	var done [1]nicless.Completion
	return func(n int) time.Duration {
		begin := time.Now()
		for range n {
			if err := q.PostSend(&wr); err != nil {
				b.Error(err)
				return 0
			}
			for {
				if k, err := cq.Poll(done[:]); k > 0 || err != nil {
					break
				}
			}
		}
		took := time.Since(begin)
		if done[0].Status != 0 {
			b.Error(done[0].Err())
		}
		return took
	}, func() { require.NoError(b, c.Close()) }
}
