//go:build linux

package await

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/schedstat"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWhatHasHappenedIsNotWaitedFor(t *testing.T) {
	Until(t, "nothing", func() bool { return true })
	c := make(chan int, 1)
	c <- 5
	require.Equal(t, 5, Receive(t, "a number", c))
	close(c)
	require.Zero(t, Receive(t, "a number", c))
}

func TestOtherThreadsAreWaitedFor(t *testing.T) {
	c := make(chan string)
	go func() { c <- "here" }()
	require.Equal(t, "here", Receive(t, "a word", c))
}

func TestPatienceEnds(t *testing.T) {
	looks := 0
	err := until(begin(2*period), "the sun has risen in the west", func() bool { looks++; return false },
		[]func() any{func() any { return "in the east" }})
	require.ErrorContains(t, err, "has not happened: the sun has risen in the west; waited ")
	require.ErrorContains(t, err, "in the east")
	require.Greater(t, looks, 2)
}

// Something moves at first. The wait takes the whole patience after that.
func TestPatienceBeginsAnewWhenSomethingMoves(t *testing.T) {
	moved := 0
	p := begin(2 * period)
	p.most = period
	began := p.begun
	err := until(p, "the end", func() bool { return false }, []func() any{func() any { moved = min(moved+1, 8); return moved }})
	require.Error(t, err)
	require.Equal(t, 8, moved)
	require.Greater(t, p.begun.Sub(began), 6*period)
}

// A wait ends when what it waits for comes, and when that stands still: not as long as it moves.
func TestMoves(t *testing.T) {
	moved := 0
	state := func() any { moved = min(moved+1, 4); return moved }
	require.False(t, Moves(2*period, func() bool { return false }, state))
	require.Equal(t, 4, moved)
	require.True(t, Moves(Patience, func() bool { return true }, state))
}

func TestWhatCounts(t *testing.T) {
	for _, c := range []struct{ elapsed, delayed, want time.Duration }{ // due after a period
		{period, 0, period},
		{period, period / 5, period * 4 / 5},
		{period, period, period / 10},
		{period, 50 * period, period / 10},
		{100 * period, 0, 2 * period}, // a machine that was suspended
		{100 * period, 100 * period, period / 5},
	} {
		require.InDelta(t, c.want, count(c.elapsed, c.delayed, period), 10, "%+v", c)
	}
}

// Readings become rarer.
func TestLongWaitsReadSeldom(t *testing.T) {
	p := begin(Patience)
	var due []time.Duration
	for range 5 {
		due = append(due, p.next)
		p.looked = p.looked.Add(-p.next)
		require.True(t, p.look())
		require.False(t, p.look())
	}
	require.Equal(t, []time.Duration{period, 2 * period, 4 * period, 8 * period, 8 * period}, due)
}

// Two shells that share a core delay each other, and so the end of patience.
func TestDelaysOfDescendantsAreFound(t *testing.T) {
	if _, err := schedstat.Read(os.Getpid()); err != nil {
		t.Skip(err)
	}
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	core := 0
	for !set.IsSet(core) {
		core++
	}
	runtime.LockOSThread() // the death signal comes when the thread that started the shells ends
	defer runtime.UnlockOSThread()
	for range 2 {
		c := exec.CommandContext(t.Context(), "taskset", "-c", strconv.Itoa(core), "sh", "-c", "while :; do :; done")
		// they must not go on if this process is killed
		c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
		require.NoError(t, c.Start())
		defer func() {
			require.NoError(t, c.Process.Kill())
			_ = c.Wait()
		}()
	}
	p := begin(time.Hour)
	Until(t, "delays are found", func() bool {
		p.look()
		return time.Since(p.begun)-p.counted > period
	})
}

func TestContextEndsWithTheTest(t *testing.T) {
	var ctx context.Context
	t.Run("a test", func(t *testing.T) {
		ctx = Context(t)
		require.NoError(t, ctx.Err())
		_, ok := ctx.Deadline()
		require.False(t, ok)
	})
	require.Error(t, ctx.Err())
}
