package torture

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/stretchr/testify/require"
)

// A wait that no evidence explains is the engine's fault. One that the kernel blocked is none, and is
// counted.
func TestStallsAreToldApart(t *testing.T) {
	const ms = time.Millisecond
	wait := func(took time.Duration, engine verdict.Times) *Stall {
		return &Stall{For: "an answer", Evidence: verdict.Evidence{Took: took, Engine: engine, Known: true}}
	}
	var all Stalls
	for i := range 2 * mostWorst {
		all.add(wait(time.Duration(100+10*i)*ms, verdict.Times{Waited: 50 * ms}))
	}
	require.Equal(t, 2*mostWorst, all.Above)
	require.Equal(t, 10, all.Unexplained)
	require.Equal(t, 200*ms, all.Longest)
	require.Len(t, all.Worst, mostWorst)
	require.Equal(t, 250*ms, all.Worst[0].Took)

	late, blocked, busy := wait(200*ms, verdict.Times{}), wait(200*ms, verdict.Times{Blocked: 168 * ms}), wait(3000*ms, verdict.Times{Waited: 2860 * ms})
	all = Stalls{}
	for _, s := range []*Stall{late, blocked, busy} {
		all.add(s)
	}
	require.Equal(t, verdict.Stall, late.fault().Kind)
	require.Nil(t, blocked.fault())
	require.Equal(t, 1, all.Blocked)
	require.Equal(t, verdict.Undecided, busy.fault().Kind)
	require.Equal(t, 1, all.Undecided)
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
	b.setEngine(os.Getpid())
	g := &waitMeter{board: b, slot: p.spec.slot(), Witness: verdict.NewWitness(2, b.engines)}
	defer g.Close()

	begin := verdict.Now()
	m, lived := g.mark(), g.now()
	r.pause(p, 150*time.Millisecond)
	r.pause(p, time.Hour) // does nothing, because the process is stopped already
	require.Equal(t, 1, r.result.Stopped)
	r.resuming.Wait()
	end := verdict.Now()
	stopped := p.stops.during(begin, end)
	require.GreaterOrEqual(t, stopped, 150*time.Millisecond)
	require.LessOrEqual(t, stopped, end-begin)
	require.Zero(t, p.stops.during(end, end+time.Hour))
	require.LessOrEqual(t, b.stopped(g.slot), stopped)
	require.GreaterOrEqual(t, b.stopped(g.slot), 150*time.Millisecond)
	g.since(m, "")
	require.LessOrEqual(t, g.longest, verdict.Now()-begin-b.stopped(g.slot))
	require.Less(t, g.now()-lived, verdict.Now()-begin)

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
		s := &Stall{Client: "client 1 of pair 1", For: "the completion of a WRITE", Evidence: verdict.Evidence{Took: 3e14, Known: true}}
		s.Engine = verdict.Times{Ran: 1e14, Waited: 1e14, Blocked: 1e14, In: "folio_wait_bit_common, do_exit"}
		r.Stalls.add(s)
		r.Faults = append(r.Faults, s.fault())
	}
	r.decide()
	for _, separate := range []bool{false, true} {
		r.SeparateUsers = separate
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
