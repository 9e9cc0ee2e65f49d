//go:build linux && (amd64 || arm64)

package niclesstest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/inside"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// A record is a testing.TB that records what a test would report.
type record struct {
	testing.TB // nil: methods that are not here would panic
	mu         sync.Mutex
	errors     []string
	logs       []string
	skipped    string
	cleanups   []func()
}

func (r *record) Helper()          {}
func (r *record) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *record) Failed() bool     { return len(r.errors) > 0 }

func (r *record) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func (r *record) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *record) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *record) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// report runs a test, with its cleanups, and returns what it has reported.
func report(test func(t testing.TB)) *record {
	r := &record{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		test(r)
	}()
	<-done
	return r
}

// clocks runs a test with each clock that needs no bubble.
func clocks(t *testing.T, test func(t *testing.T, cfg Config)) {
	t.Run("real", func(t *testing.T) { test(t, Config{}) })
	t.Run("held", func(t *testing.T) { test(t, Config{Clock: Held}) })
}

func TestWorkIsDone(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		for _, two := range []bool{false, true} {
			d := NewWith(t, cfg)
			a, b := d.Pair(PairConfig{TwoClients: two, Memory: 64})
			copy(a.MR.Bytes(), "hello")
			require.NoError(t, a.Do(a.Write(5)).Err())
			require.Equal(t, "hello", string(b.MR.Bytes()[:5]))
			b.Receive(64)
			require.NoError(t, a.Do(a.Send(5)).Err())
			require.EqualValues(t, 5, b.Next().ByteLen)
			copy(b.MR.Bytes(), "HELLO")
			require.NoError(t, a.Do(a.Read(5)).Err())
			require.Equal(t, "HELLO", string(a.MR.Bytes()[:5]))
		}
	})
}

func TestTransports(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		for _, kind := range []nicless.Transport{nicless.RC, nicless.UC, nicless.UD} {
			d := NewWith(t, cfg)
			a, b := d.Pair(PairConfig{TwoClients: true, QP: nicless.QPConfig{Type: kind}})
			b.Receive(64)
			require.NoError(t, a.Do(a.Send(5)).Err())
			require.NoError(t, b.Next().Err())
		}
	})
}

func TestLeaksFail(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		r := report(func(t testing.TB) {
			d := NewWith(t, cfg)
			c := d.Client()
			pd, _ := c.AllocPD()
			cq, _ := c.CreateCQ(nicless.CQConfig{})
			qp, _ := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
			mr, _ := pd.RegisterMemory(64, nicless.FullAccess)
			_, _ = mr.Register(0, 8, nicless.LocalWrite)
			closed, _ := pd.CreateSRQ(nicless.SRQConfig{})
			_ = closed.Close()
			_ = qp
		})
		require.Len(t, r.errors, 1)
		lines := strings.Split(r.errors[0], "\n\t")
		require.Equal(t, "niclesstest: objects were not closed (Close them, or call AllowLeaks):", lines[0])
		require.Len(t, lines[1:], 5)
		for i, want := range []string{"PD 0x", "CQ 0x", "QP 0x", "key 0x", "key 0x"} {
			require.Regexp(t, "^"+want+`[0-9a-f]+ of client 1, made at niclesstest/device_test.go:\d+$`, lines[1+i])
		}
	})
}

func TestLeaksOfAnotherClientFail(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		_, _ = d.NewClient().AllocPD()
		gone := d.NewClient()
		_, _ = gone.AllocPD()
		_ = gone.Close() // a program that ends takes its objects with it
	})
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "of client 3, made at") // the second is the one that watches
	require.NotContains(t, r.errors[0], "client 4")
}

func TestLeaksCanBeAllowed(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		d.AllowLeaks()
		_, _ = d.Client().AllocPD()
	})
	require.Empty(t, r.errors)
}

// A queue pair that was left uses the completion queue of a pair, which then cannot be closed. Only the
// queue pair is the test's fault.
func TestLeakThatHoldsAPair(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		a, _ := d.Pair(PairConfig{})
		_, _ = a.PD.CreateQP(nicless.QPConfig{SendCQ: a.CQ})
	})
	require.Len(t, r.errors, 1)
	require.Regexp(t, `:\n\tQP 0x[0-9a-f]+ of client 1, made at \S+$`, r.errors[0])
}

func TestUnpolledCompletionsFail(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		var qpn [2]uint32
		r := report(func(t testing.TB) {
			d := NewWith(t, cfg)
			a, b := d.Pair(PairConfig{})
			qpn = [2]uint32{a.QP.QPN(), b.QP.QPN()}
			b.Receive(8)
			a.Post(a.Write(8))
			a.Post(a.Send(8))
			require.NoError(t, a.Next().Err()) // of the WRITE
		})
		require.Len(t, r.errors, 1)
		require.Regexp(t, fmt.Sprintf("^niclesstest: completions were not polled .*:\n"+
			"\tqp 0x%06x wqe 1: success, in cq 0x[0-9a-f]{6} of client 1\n"+
			"\tqp 0x%06x receive 0: success, in cq 0x[0-9a-f]{6} of client 1$", qpn[0], qpn[1]), r.errors[0])
	})
}

// The queues may be closed long before the end of the test.
func TestUnpolledCompletionsOfClosedQueuesFail(t *testing.T) {
	for name, closeAll := range map[string]func(a, b *End){
		"queue pairs": func(a, b *End) { _, _ = a.QP.Close(), b.QP.Close() },
		"queues":      func(a, b *End) { _ = closePairs([]*End{a, b}) },
		"client":      func(a, _ *End) { _ = a.Client.Close() },
		"all":         func(a, b *End) { _ = closePairs([]*End{a, b}); _ = a.Client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := report(func(t testing.TB) {
				d := New(t)
				a, b := d.Pair(PairConfig{})
				a.Post(a.Write(8))
				closeAll(a, b)
			})
			require.Len(t, r.errors, 1)
			require.Equal(t, 1, strings.Count(r.errors[0], "wqe 0: success"), r.errors[0])
		})
	}
}

func TestUnpolledErrorsFailAndFlushesDoNot(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		d.Allow("key-range")
		a, b := d.Pair(PairConfig{})
		b.Receive(8) // is flushed
		a.Post(a.Write(5000))
		a.Post(a.Write(8)) // is flushed
	})
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "wqe 0: "+cqe.LocalProtection.Error())
	require.Equal(t, 1, strings.Count(r.errors[0], "in cq"))
}

func TestUnpolledCanBeAllowed(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		d.AllowUnpolled()
		a, _ := d.Pair(PairConfig{})
		a.Post(a.Write(8))
	})
	require.Empty(t, r.errors)
}

func TestUnexpectedExplanationsFail(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		var qpn uint32
		r := report(func(t testing.TB) {
			d := NewWith(t, cfg)
			a, _ := d.Pair(PairConfig{})
			qpn = a.QP.QPN()
			a.Do(a.Write(5000))
		})
		require.Len(t, r.errors, 1)
		line := fmt.Sprintf("key-range: qp 0x%06x wqe 0: ", qpn)
		require.Contains(t, r.errors[0], "explanations were not expected")
		require.Contains(t, r.errors[0], "\n\t"+line)
		require.Contains(t, r.logs[0], fmt.Sprintf("niclesstest: a (QP 0x%06x RC) of client 1: %s", qpn, line))
		require.Contains(t, r.logs[len(r.logs)-1], "lines of the trace:\n")
		require.Contains(t, r.logs[len(r.logs)-1], fmt.Sprintf("qp 0x%x wqe 0 failed: RDMA_WRITE", qpn))
	})
}

func TestExpectedExplanations(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		d.Expect("key-range", "key-unknown")
		d.Allow("receive-none")
		a, _ := d.Pair(PairConfig{})
		a.Do(a.Write(5000))
	})
	require.Equal(t, []string{"niclesstest: expected explanations did not come (call Allow for what need not come):" +
		"\n\tkey-unknown"}, r.errors)
}

// An Expect may come after the explanation.
func TestExpectAfterwards(t *testing.T) {
	d := New(t)
	a, _ := d.Pair(PairConfig{})
	a.Do(a.Write(5000))
	d.Trace() // the explanation was recorded before
	d.Expect("key-range")
}

func TestNextWithoutCompletion(t *testing.T) {
	r := report(func(t testing.TB) {
		a, _ := NewWith(t, Config{Clock: Held}).Pair(PairConfig{})
		a.Next()
	})
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "no completion at this time of the held clock")
}

func TestTrace(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		d := NewWith(t, cfg)
		a, b := d.Pair(PairConfig{TwoClients: true})
		require.NoError(t, a.Do(a.Write(8)).Err())
		before := d.Trace()
		require.NoError(t, b.Do(b.Write(8)).Err())
		after := d.Trace()
		require.Greater(t, after.Len(), before.Len())
		mine := after.Of(a.QP)
		require.Equal(t, 1, mine.Kinds(trace.KindDoorbell).Len())
		require.Equal(t, 1, mine.Kinds(trace.KindCQE).Len())
		require.Equal(t, 2, after.Kinds(trace.KindCQE).Len())
		executed := mine.Kinds(trace.KindExecute)
		require.Equal(t, 1, executed.Len())
		require.Regexp(t, fmt.Sprintf(`qp 0x%x wqe 0 executed: RDMA_WRITE, 8 bytes\n$`, a.QP.QPN()), executed.String())
		for e := range executed.Events() {
			require.EqualValues(t, 8, e.Value)
		}
		require.Regexp(t, `client 1 "niclesstest.test" pid \d+\n`, after.String())
		require.Regexp(t, `client 3 pid \d+\n`, after.String())
	})
}

func TestWithoutTrace(t *testing.T) {
	r := report(func(t testing.TB) { NewWith(t, Config{NoTrace: true}).Trace() })
	require.Equal(t, []string{"niclesstest: Trace of a device with NoTrace"}, r.errors)
}

func TestBadConfig(t *testing.T) {
	r := report(func(t testing.TB) { NewWith(t, Config{Engine: nicless.Config{CPUs: []int{1 << 20}}}) })
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "1048576")
	r = report(func(t testing.TB) { NewWith(t, Config{TraceBytes: 3}) })
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "3")
}

// The test's own error is the first one, and the list of what is left comes after it.
func TestWhatIsLeftAfterFatal(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		_, _ = d.Client().AllocPD()
		t.Fatalf("the test's own")
	})
	require.Len(t, r.errors, 2)
	require.Equal(t, "the test's own", r.errors[0])
}

func TestManyLeaksAreCut(t *testing.T) {
	r := report(func(t testing.TB) {
		d := New(t)
		for range 100 {
			_, _ = d.Client().AllocPD()
		}
	})
	require.Len(t, r.errors, 1)
	require.Equal(t, mostListed+1, strings.Count(r.errors[0], "\n\t"))
	require.True(t, strings.HasSuffix(r.errors[0], "\n\t… and 60 more"))
}

func BenchmarkWrite(b *testing.B) {
	d := NewWith(b, Config{NoTrace: true})
	a, _ := d.Pair(PairConfig{})
	wr := a.Write(8)
	for b.Loop() {
		if c := a.Do(wr); c.Err() != nil {
			b.Fatal(c)
		}
	}
}

func FuzzWrite(f *testing.F) {
	f.Add(uint16(8), uint16(0))
	f.Add(uint16(8), uint16(4090))
	f.Add(uint16(0), uint16(4128))
	f.Fuzz(func(t *testing.T, n, at uint16) {
		d := New(t)
		d.Allow("key-range")
		a, b := d.Pair(PairConfig{})
		wr := a.Write(int(n))
		wr.RemoteAddr += uint64(at)
		fits := n == 0 || n <= 4096 && uint64(at)+uint64(n) <= 4096 // no bytes need no memory
		if c := a.Do(wr); fits != (c.Err() == nil) {
			t.Error(c, b)
		}
	})
}

func TestPutBeyondTheBuffer(t *testing.T) {
	d := New(t)
	d.Expect("key-range")
	a, b := d.Pair(PairConfig{})
	wr := a.Write(8)
	wr.RemoteAddr = b.MR.Addr() + 4092
	if c := a.Do(wr); !errors.Is(c.Err(), cqe.RemoteAccess) {
		t.Fatal(c)
	}
}

func TestSkipWhereThereIsNoDevice(t *testing.T) {
	before := inside.Register(nil)
	defer func() { inside.Register(before) }()
	r := report(func(t testing.TB) { New(t) })
	require.Empty(t, r.errors)
	require.Contains(t, r.skipped, "niclesstest: there is no device here: nicless: an engine needs Linux on amd64 or arm64")
}

// A test that does much has all its events.
func TestManyEvents(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		d := NewWith(t, cfg)
		a, _ := d.Pair(PairConfig{})
		wr := a.Write(8)
		for range 5000 {
			require.NoError(t, a.Do(wr).Err())
		}
		tr := d.Trace()
		lost := tr.Kinds(trace.KindLost)
		if cfg.Clock == Held || lost.Len() == 0 { // with the clock Real, a busy machine may lose some
			require.Equal(t, 5000, tr.Kinds(trace.KindCQE).Len(), lost)
		}
	})
}

// Of very many events the last ones are kept, and those that say what exists.
func TestOldEventsAreDropped(t *testing.T) {
	d := NewWith(t, Config{Clock: Held})
	d.recording.Lock()
	d.mostEvents = 100
	d.recording.Unlock()
	a, _ := d.Pair(PairConfig{})
	wr := a.Write(8)
	for range 500 {
		require.NoError(t, a.Do(wr).Err())
	}
	tr := d.Trace()
	require.Less(t, tr.Len(), 250)
	lost := tr.Kinds(trace.KindLost)
	require.Equal(t, 1, lost.Len())
	for e := range lost.Events() {
		require.EqualValues(t, 4*500, e.Value+uint64(tr.Kinds(trace.KindDoorbell, trace.KindFetch,
			trace.KindCQE, trace.KindExecute).Len())-6, "and INIT, RTR and RTS of both")
	}
	require.Contains(t, tr.String(), "qp 0x")
	require.Contains(t, tr.Of(a.QP).String(), "wqe 499 executed: RDMA_WRITE, 8 bytes")
	require.Contains(t, tr.String(), "events lost here")
}
