package pool

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// A pingPong is a way to send something to another thread and get it back.
type pingPong struct {
	name string
	ping func(n uint64) // sends, and waits for the answer
	pong func(n uint64, stop *atomic.Bool) bool
}

// BenchmarkRoundTrip compares packets with 28 bytes of headers, and 8 or 64 bytes of payload, through
// two rings of a pool with the least that memory allows: as many lines, one or two, written and
// polled by the same two threads. The ways alternate in rounds, and the median round of each
// is reported.
func BenchmarkRoundTrip(b *testing.B) {
	h, err := plan(&Config{Nodes: 6}, 64<<20)
	require.NoError(b, err)
	memory := func(size int) []byte {
		r, err := shm.Create("benchmark", size)
		require.NoError(b, err)
		b.Cleanup(func() { _ = r.Close() })
		clear(r.Bytes())
		return r.Bytes()
	}
	mem := memory(int(h.size))
	ways := []*pingPong{
		lines("one line each way", memory(1<<20), 1, 1),
		lines("two lines each way", memory(1<<20), 2, 1),
		lines("two lines in turn", memory(1<<20), 2, defaultSlots),
		rings(b, "packet of 8", &h, mem, 0, 8, nil),
		rings(b, "packet of 64", &h, mem, 2, 64, nil),
		rings(b, "packet of 64 coherence=none", &h, mem, 4, 64, flusher{}),
	}
	medians := measure(b, ways)
	for i, w := range ways {
		b.ReportMetric(medians[i], metric(w.name))
	}
	b.ReportMetric(medians[3]/medians[0], "packet8/line")
	b.ReportMetric(medians[4]/medians[2], "packet64/lines")
	b.ReportMetric(0, "ns/op")
}

func metric(name string) string {
	s := []byte(fmt.Sprintf("ns/%s", name))
	for i := range s {
		if s[i] == ' ' {
			s[i] = '-'
		}
	}
	return string(s)
}

// measure returns the median time of a round trip of each way, in nanoseconds.
func measure(b *testing.B, ways []*pingPong) []float64 {
	const trips = 2000
	rounds := max(b.N, 5)
	times := make([][]float64, len(ways))
	var sent [8]uint64
	for range rounds {
		for i, w := range ways {
			var stop atomic.Bool
			var other sync.WaitGroup
			first := sent[i]
			other.Go(func() {
				defer pin(1)()
				for n := first; w.pong(n, &stop); n++ {
				}
			})
			func() {
				defer pin(0)()
				for range trips / 10 {
					w.ping(sent[i])
					sent[i]++
				}
				began := time.Now()
				for range trips {
					w.ping(sent[i])
					sent[i]++
				}
				times[i] = append(times[i], float64(time.Since(began))/trips)
			}()
			stop.Store(true)
			other.Wait()
		}
	}
	var medians []float64
	for _, t := range times {
		slices.Sort(t)
		medians = append(medians, t[len(t)/2])
	}
	return medians
}

// pin keeps the calling goroutine on a core until the returned function is called.
func pin(core int) (undo func()) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	_ = unix.SchedGetaffinity(0, &before)
	one.Set(core)
	_ = unix.SchedSetaffinity(0, &one)
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}
}

// lines sends n lines each way, the last word of the last of which is polled. slots is how many
// places there are for them, which are used in turn, as in a ring.
func lines(name string, mem []byte, n, slots int) *pingPong {
	there, back := shm.Blocks(mem[:slots*128]), shm.Blocks(mem[slots*128:][:slots*128])
	send := func(all []shm.Block, v uint64) {
		to := all[int(v)%slots*2:][:n]
		for i := range to {
			for j := 0; j < 56; j += 8 {
				be.PutUint64(to[i][j:], v)
			}
		}
		to[n-1].PublishTail(v)
	}
	receive := func(all []shm.Block, v uint64, stop *atomic.Bool) bool {
		from := all[int(v)%slots*2:][:n]
		for spins := 0; from[n-1].ObserveTail() != v; spins++ {
			cpu.Relax(1)
			if stop != nil && spins&1023 == 0 && stop.Load() {
				return false
			}
		}
		return n == 1 || from[0].Word(0) == v
	}
	return &pingPong{name,
		func(v uint64) { send(there, v+1); receive(back, v+1, nil) },
		func(v uint64, stop *atomic.Bool) bool {
			ok := receive(there, v+1, stop)
			if ok {
				send(back, v+1)
			}
			return ok
		}}
}

// ringOf returns the first ring of a node, whose packets another node counts.
func ringOf(h *header, mem []byte, from, to int) packetring.Place {
	return packetring.Place{Ring: mem[h.partAt(from)+h.ringsAt():][:h.part()-h.ringsAt()], Count: mem[h.pairAt(to, 0)+countAt:][:line]}
}

// rings uses the rings between two nodes. It sends packets with 28 bytes of headers and so much payload,
// which the receiver copies.
func rings(b *testing.B, name string, h *header, mem []byte, node, payload int, cache packetring.Cache) *pingPong {
	type end struct {
		send    *packetring.Producer
		receive *packetring.Consumer
		packet  packetring.Packet
		bytes   []byte
		_       [2 * line]byte // the other end's lines are apart
	}
	var ends [2]end
	for i := range ends {
		e := &ends[i]
		var err error
		e.send, err = packetring.NewProducerAt(ringOf(h, mem, node+i, node+1-i), h.ring, cache)
		require.NoError(b, err)
		e.bytes = make([]byte, payload)
	}
	for i := range ends {
		var err error
		at := ringOf(h, mem, node+1-i, node+i)
		ends[i].receive = packetring.NewConsumerAt(at.Count, cache)
		err = ends[i].receive.Open(at.Ring, h.ring)
		require.NoError(b, err)
		ends[i].receive.Reset(0)
	}
	send := func(e *end) {
		head, to, ok := e.send.Reserve(28, payload)
		if !ok {
			panic("the ring is full")
		}
		be.PutUint64(head, 1)
		copy(to, e.bytes)
		e.send.Publish(0)
	}
	receive := func(e *end, stop *atomic.Bool) bool {
		for spins := 0; ; spins++ {
			if ok, err := e.receive.Next(&e.packet); err != nil {
				panic(err)
			} else if ok {
				break
			}
			cpu.Relax(1)
			if stop != nil && spins&1023 == 0 && stop.Load() {
				return false
			}
		}
		copy(e.bytes, e.packet.Payload)
		e.receive.Free()
		return true
	}
	return &pingPong{name,
		func(uint64) { send(&ends[0]); receive(&ends[0], nil) },
		func(_ uint64, stop *atomic.Bool) bool {
			ok := receive(&ends[1], stop)
			if ok {
				send(&ends[1])
			}
			return ok
		}}
}
