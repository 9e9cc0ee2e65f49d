package nicless

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An idleRig is an engine in this process with one client.
type idleRig struct {
	dev  *embedded
	ctx  *Context
	qp   *QP
	cq   *CQ
	raw  Raw
	next uint64
}

// newIdleRig makes a rig. If knows is true, the client wakes the engine. Otherwise it
// writes to its queue through QP.Raw and never wakes the engine.
func newIdleRig(t testing.TB, knows bool) *idleRig {
	ec, err := Config{}.engine()
	require.NoError(t, err)
	dev, err := newEmbedded(ec, nil)
	require.NoError(t, err)
	r := &idleRig{dev: dev}
	r.ctx, err = newContext(dev, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.ctx.Close() })
	pd, err := r.ctx.AllocPD()
	require.NoError(t, err)
	r.cq, err = r.ctx.CreateCQ(CQConfig{PollOnly: true})
	require.NoError(t, err)
	r.qp, err = pd.CreateQP(QPConfig{SendCQ: r.cq})
	require.NoError(t, err)
	other, err := pd.CreateQP(QPConfig{SendCQ: r.cq})
	require.NoError(t, err)
	require.NoError(t, Pair(r.qp, other, Connection{}))
	if !knows {
		r.raw, err = r.qp.Raw()
		require.NoError(t, err)
	}
	return r
}

// one posts one NOP and returns how long it took until the NOP was complete.
func (r *idleRig) one(t testing.TB) time.Duration {
	began := time.Now()
	if r.raw.Send == nil {
		require.NoError(t, r.qp.PostSend(&SendWR{Op: Nop, Flags: Signaled}))
		for {
			if n, err := r.cq.Poll(make([]Completion, 1)); n > 0 || err != nil {
				require.NoError(t, err)
				return time.Since(began)
			}
		}
	}
	p := r.raw.SendParams()
	p.WRID, p.OpType, p.Signaled = r.next, wqe.OpNop, true
	require.NoError(t, hostpath.SendWQE(p))
	for {
		n, err := hostpath.PollCQE(r.raw.SendCQ.PollParams(uint32(r.next)))
		require.NoError(t, err)
		if n != hostpath.CQENone {
			break
		}
	}
	r.next++
	return time.Since(began)
}

// processorTime returns how much processor time this process has used. While it is measured,
// all threads except the engine's sleep.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle measures how much processor time an engine without work uses, and how
// long the first operation after a pause takes, for posters that wake the engine and
// for posters that do not.
func BenchmarkIdle(b *testing.B) {
	for _, row := range []struct {
		name  string
		knows bool
	}{{"wakes", true}, {"raw", false}} {
		b.Run(row.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			r := newIdleRig(b, row.knows)
			time.Sleep(200 * time.Millisecond) // by then the client has offered to wake the engine
			var all []time.Duration
			for range max(b.N, 200) {
				for until := time.Now().Add(2*time.Millisecond + time.Duration(len(all)*137%1000)*time.Microsecond); time.Now().Before(until); {
					runtime.KeepAlive(r)
				}
				all = append(all, r.one(b))
			}
			slices.Sort(all)
			time.Sleep(1100 * time.Millisecond) // by then the engine is idle
			before := processorTime()
			time.Sleep(time.Second)
			b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, "first-us")
			b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "first-p99-us")
			b.ReportMetric(float64((processorTime()-before).Nanoseconds())/1e7, "cpu-%")
			b.ReportMetric(0, "ns/op")
		})
	}
}
