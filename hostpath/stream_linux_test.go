package hostpath

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkStream measures how fast work is posted and polled when every cache line of the rings
// has to come from another core. The device is a goroutine on another core that reads each WQE
// and writes a CQE for it, and does no other work. The other benchmarks of this package have all
// lines in their own cache, and so do not show what stores and loads of such lines cost.
func BenchmarkStream(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("poster and device need a core each")
	}
	const size = 64
	for _, c := range []struct {
		op    Op
		batch int
		depth int
	}{{OpWrite, 16, 64}, {OpWrite, 1, 64}, {OpFetchAdd, 16, 64}, {OpFetchAdd, 1, 64}, {OpWrite, 1, 1}} {
		b.Run(fmt.Sprintf("%v batch=%d in flight=%d", c.op, c.batch, c.depth), func(b *testing.B) {
			s := newBench(b, size, nil)
			wrs := make([]SendWR, size)
			for i := range wrs {
				wrs[i] = SendWR{ID: uint64(i), Op: c.op, SGE: sge(8), Flags: Signaled, RemoteAddr: 1, RKey: 2}
			}
			var ended atomic.Bool
			gone := make(chan error)
			go func() {
				err := pin(1)
				if err == nil {
					s.dev.stream(&ended)
				}
				gone <- err
			}()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			require.NoError(b, pin(0))
			var done [64]Completion
			b.ResetTimer()
			for posted, polled := 0, 0; polled < b.N; {
				for posted < b.N && posted-polled+c.batch <= c.depth {
					if c.batch == 1 {
						if err := s.sq.Post(&wrs[posted%size]); err != nil {
							b.Fatal(err)
						}
						s.sq.Ring()
					} else if _, err := s.sq.PostList(wrs[posted%size:][:c.batch]); err != nil {
						b.Fatal(err)
					}
					posted += c.batch
				}
				polled += s.cq.Poll(done[:])
			}
			b.StopTimer()
			ended.Store(true)
			require.NoError(b, <-gone)
		})
	}
}

// stream completes WQEs of one block until ended is set. It reads as much of a WQE as a device
// has to read, and nothing else.
func (d *device) stream(ended *atomic.Bool) {
	be := binary.BigEndian
	mask := uint64(len(d.ring)/wqe.BlockSize - 1)
	var e [cqe.Size]byte
	sum := uint64(0)
	for done := uint64(0); !ended.Load(); {
		n, _ := doorbell.Pending(d.record.Observe(), uint16(done), int(mask+1))
		for range n {
			w := d.ring[done&mask*wqe.BlockSize:][:wqe.BlockSize]
			control := be.Uint64(w)
			for i := 8; i < 48; i += 8 {
				sum += be.Uint64(w[i:])
			}
			cqe.PutReq(&e, d.qpn, d.index, uint8(control>>32), uint16(control>>40), 0, 0,
				cqe.MakeOpOwn(cqe.Req, 0, false, cqe.Owner(done, d.log)))
			shm.BlockAt(d.cq, cqe.Slot(done, d.log)*cqe.Size).Publish(&e)
			done++
		}
	}
	e[0] = byte(sum)
}

// pin keeps the thread of this goroutine on one core.
func pin(core int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}
