package torture

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A thread that is ready and has no core is told from one that waits for something.
func TestDelaysAreOfTheScheduler(t *testing.T) {
	before, err := takeDelays(os.Getpid())
	if err != nil {
		t.Skip("/proc/self/task/*/schedstat: ", err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	core := anyCore(func(int) int { return 0 })
	var stop atomic.Bool
	var ended sync.WaitGroup
	for range 2 { // each of which is ready all the time
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

// What is neither the scheduler's nor the supervisor's is the engine's.
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

// A gauge does not count the time for which its process was stopped, and the
// supervisor knows that time too.
func TestWhoIsStoppedDoesNotWait(t *testing.T) {
	b, err := newBoard()
	require.NoError(t, err)
	defer b.mem.Close()
	r := run{board: b}
	p := &process{spec: Spec{Role: roleClient, Pair: 1}, cmd: exec.Command("sleep", "60")}
	require.NoError(t, p.cmd.Start())
	defer func() { p.kill(); _ = p.cmd.Wait() }()
	g := &gauge{board: b, slot: p.spec.slot(), threads: 2}
	b.setEngine(os.Getpid())

	m, lived := g.mark(), g.now()
	begin := time.Now()
	r.pause(p, 150*time.Millisecond)
	r.pause(p, time.Hour) // it is stopped already
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
	require.Equal(t, 1, r.result.Stopped, "it is dead")
}

// Rows fit 80 columns, and lose nothing.
func TestRowsAreWrapped(t *testing.T) {
	require.Equal(t, "name                   short\n", wrapped("name", "short"))
	require.Equal(t, "name                   0123456789 0123456789 0123456789 0123456789 0123456789\n"+
		"                       0123456789\n", wrapped("name", "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"))
	require.Equal(t, "FAULT                  a\nb\n", wrapped("FAULT", "a\nb"))
}
