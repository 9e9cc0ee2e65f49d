package torture

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// A thread that is ready but has no core is distinguished from a thread that waits.
func TestDelaysAreOfTheScheduler(t *testing.T) {
	before, err := takeDelays(os.Getpid())
	if err != nil {
		t.Skip("/proc/self/task/*/schedstat: ", err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	core := anyCore(func(int) int { return 0 })
	var stop atomic.Bool
	var ended sync.WaitGroup
	for range 2 { // both threads are ready all the time
		ended.Go(func() {
			runtime.LockOSThread()
			pin(core)
			for !stop.Load() {
			}
		})
	}
	enough := func() bool {
		now, err := takeDelays(os.Getpid())
		require.NoError(t, err)
		return now.own.since(before.own, 2) > 50*time.Millisecond && now.engine.since(before.engine, 1) > 10*time.Millisecond
	}
	require.Eventually(t, enough, 20*time.Second, 10*time.Millisecond)
	stop.Store(true)
	ended.Wait()

	_, err = takeDelays(1 << 30)
	require.Error(t, err, "there is no such process")
}

// A wait that neither the scheduler nor the supervisor explains is the engine's fault.
func TestStallsAreToldApart(t *testing.T) {
	const ms = time.Millisecond
	s := Stall{Begin: 0, End: int64(400 * ms), Judged: true, Engine: 100 * ms, Own: 50 * ms, Steal: 20 * ms, Stop: 30 * ms}
	require.Equal(t, 370*ms, s.Length())
	require.Equal(t, 200*ms, s.Unexplained())
	s.Engine = time.Second
	require.Zero(t, s.Unexplained())
	s.Judged = false
	require.Zero(t, s.Unexplained())

	var all Stalls
	for i := range 2 * mostWorst {
		all.add(Stall{End: int64(time.Duration(100+10*i) * ms), Judged: i != 3, Own: 50 * ms})
	}
	require.Equal(t, 2*mostWorst, all.Above)
	require.Equal(t, 1, all.Unjudged)
	require.Equal(t, 10, all.Unexplained)
	require.Equal(t, 200*ms, all.Longest)
	require.Len(t, all.Worst, mostWorst)
	require.EqualValues(t, 250*ms, all.Worst[0].End)
	require.True(t, (&Result{}).OK())
	require.False(t, (&Result{Stalls: all}).OK())
}

// A waitMeter does not count the time for which its process was stopped, and the supervisor
// knows that time too.
func TestStoppedTimeIsNoWait(t *testing.T) {
	b, err := newBoard()
	require.NoError(t, err)
	defer b.mem.Close()
	r := run{board: b}
	p := &process{spec: Spec{Role: roleClient, Pair: 1}, cmd: exec.Command("sleep", "60")}
	require.NoError(t, p.cmd.Start())
	defer func() { p.kill(); _ = p.cmd.Wait() }()
	g := &waitMeter{board: b, slot: p.spec.slot(), threads: 2}
	b.setEngine(os.Getpid())

	m, lived := g.mark(), g.now()
	begin := time.Now()
	r.pause(p, 150*time.Millisecond)
	r.pause(p, time.Hour) // does nothing, because the process is stopped already
	require.Equal(t, 1, r.result.Stopped)
	r.resuming.Wait()
	end := time.Now()
	stopped := p.stops.during(begin, end)
	require.GreaterOrEqual(t, stopped, 150*time.Millisecond)
	require.LessOrEqual(t, stopped, end.Sub(begin))
	require.Zero(t, p.stops.during(end, end.Add(time.Hour)))
	require.InDelta(t, float64(stopped), float64(b.stopped(g.slot)), float64(50*time.Millisecond))
	g.since(m, "")
	require.LessOrEqual(t, g.longest, end.Sub(begin)-b.stopped(g.slot)+50*time.Millisecond)
	require.Less(t, g.now().Sub(lived), time.Since(begin))

	p.kill()
	r.pause(p, time.Hour)
	require.Equal(t, 1, r.result.Stopped, "it was killed")
}

// The largest numbers fit 80 columns.
func TestResultFitsATerminal(t *testing.T) {
	const most = 1<<63 - 1
	r := Result{Seed: most, Schedule: "0123456789abcdef", Planned: 1e9, Actions: 1e9, Seconds: 86400, Leaked: "123456789 descriptors (1000 before), 123456789 mappings of shared memory (1000 before)"}
	r.Operations, r.Bytes, r.Checked, r.Completions = most, most, most, most
	r.ByOp, r.Explained = map[string]uint64{}, map[string]uint64{}
	for op := nicless.Write; op < nicless.Write+20; op++ {
		r.ByOp[op.String()], r.Explained[op.String()] = most, most
	}
	r.Log = Log{most, most, most}
	r.Ending, r.Start, r.Notice, r.Stall = most, most, most, most
	r.Baseline = Resources{most, most, most, most, most}
	r.Final = r.Baseline
	for range mostWorst {
		r.Stalls.add(Stall{Client: "client 1 of pair 1", For: "the completion of a WRITE", End: 3e14, Engine: 1e14, Blocked: "folio_wait_bit_common, do_exit"})
	}
	r.Faults = []string{"client 1 of pair 1 lost its peer, which is alive (connection 123456789): flow 0 (RC): transport retry counter exceeded"}
	for _, r.SeparateUsers = range []bool{false, true} {
		var out strings.Builder
		require.NoError(t, r.Print(&out))
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), rowWidth, line)
		}
	}
}

// Wrapping loses nothing.
func TestRowsAreWrapped(t *testing.T) {
	require.Equal(t, "name                   short\n", wrapped("name", "short"))
	require.Equal(t, "name                   0123456789 0123456789 0123456789 0123456789 0123456789\n"+
		"                       0123456789\n", wrapped("name", "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"))
	require.Equal(t, "FAULT                  a\nb\n", wrapped("FAULT", "a\nb"))
}
