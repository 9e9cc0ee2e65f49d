package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/schedstat"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test binary runs as each process of a run: BINARY process PLANT DIRECTORY.
const processArgument = "process"

// supervisorArgument makes the test binary the supervisor of an endless run, in a directory.
const supervisorArgument = "supervisor"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == processArgument {
		plant(os.Args[2], os.Args[3])
		if err := Process(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 2 && os.Args[1] == supervisorArgument {
		said := false
		_, err := Run(context.Background(), Config{Duration: time.Hour, Argv: []string{os.Args[0], processArgument, "", os.Args[2]},
			Progress: func(_, _ time.Duration, r *Result) {
				if r.Operations > 0 && !said {
					said = true
					fmt.Println("moves data")
				}
			}})
		fmt.Println(err)
		return
	}
	// The long tests wait most of their time for other processes, so more of them may run at once than there
	// are cores.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// leakedFiles is how many descriptors the planted leak of an engine takes.
const leakedFiles = 3

// plant prepares a fault in this process. A client that plants one makes a directory of its name.
func plant(what, dir string) {
	// once returns whether this is the first call for all processes of the run.
	once := func() bool { return !errors.Is(os.Mkdir(filepath.Join(dir, what), 0o755), os.ErrExist) }
	kept := nicless.Completion{}
	done := false
	// later waits until a flow of the client, whose completions are in order, has moved some data.
	later := func(c *client) bool { return !done && c.flows[0].acked > 4*group }
	// send returns the place of a signaled send of the first flow among n completions, or -1.
	send := func(c *client, n int) int {
		for i := range c.list[:n] {
			if l := c.flowOf(c.list[i].QPN); l == c.flows[0] && c.list[i].Requester() && c.list[i].Err() == nil {
				return i
			}
		}
		return -1
	}
	switch what {
	case "lost":
		plantInClient = func(c *client, n int) int {
			if i := send(c, n); later(c) && i >= 0 && once() {
				done = true
				copy(c.list[i:n], c.list[i+1:n])
				n--
			}
			return n
		}
	case "repeated":
		plantInClient = func(c *client, n int) int {
			if i := send(c, n); later(c) && i >= 0 && n < len(c.list) && once() {
				done = true
				kept = c.list[i]
				c.list[n] = kept
				n++
			}
			return n
		}
	case "wrong byte":
		plantInClient = func(c *client, n int) int {
			if later(c) && once() {
				done = true
				c.flows[0].mem.source.Bytes()[12345] ^= 4
			}
			return n
		}
	case "leak":
		// in the process of the first engine, or of a client that was started before: then it does no harm
		first := once()
		plantInEngine = func() {
			if !first {
				for range leakedFiles {
					_, _ = syscall.Open("/dev/null", syscall.O_RDONLY, 0)
				}
			}
		}
	}
}

// plantTries is how often a run is repeated in which the fault was not planted, or a delay until it is
// reported.
const plantTries = 5

// tortured makes a run in which a fault is planted, until something is wrong. planted reports whether the
// process that plants it said so.
func tortured(t *testing.T, what string, cfg Config) (r Result, planted bool) {
	t.Helper()
	dir := t.TempDir()
	cfg.Seed, cfg.Argv = 3, []string{os.Args[0], processArgument, what, dir}
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, r.Print(&text))
	t.Log("\n" + text.String())
	_, err = os.Stat(filepath.Join(dir, what))
	return r, err == nil
}

// Each planted fault is reported with its kind, whatever else the machine does. Such a run is long, so that
// the fault is planted on any machine, and ends when it is reported. Only hostile clients are killed, because
// it is not known what a client has lost that was killed at once.
func TestPlantedFaultsAreTold(t *testing.T) {
	t.Parallel()
	cfg := Config{Duration: time.Minute, change: func(p *Plan) {
		p.Actions = slices.DeleteFunc(p.Actions, func(a Action) bool { return a.Kind != KillHostile && a.Kind != PauseHostile })
	}}
	for what, kind := range map[string]verdict.Kind{
		"lost": verdict.Lost, "repeated": verdict.Repeated, "wrong byte": verdict.WrongBytes,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for range plantTries {
				r, planted := tortured(t, what, cfg)
				if !planted {
					require.Equal(t, verdict.Undecided, r.Verdict, "nothing was planted")
					continue
				}
				require.Equal(t, kind, r.Verdict)
				require.Positive(t, r.Kinds[kind])
				for _, f := range r.Faults {
					if f.Kind == kind {
						require.NotEmpty(t, f.Expected)
						require.NotEmpty(t, f.Found)
						require.NotNil(t, f.Evidence)
					}
				}
				return
			}
			t.Fatalf("not planted in %d runs", plantTries)
		})
	}
}

// served starts an engine in a process of its own, and a visitor of it in this one. said has what the visitor
// reports.
func served(t *testing.T, hang time.Duration) (v *visitor, engine int, said *bytes.Buffer) {
	t.Helper()
	spec := Spec{Role: roleEngine, Socket: filepath.Join(t.TempDir(), "engine")}
	events := make(chan event, 64)
	p, err := start([]string{os.Args[0], processArgument, "", ""}, spec, "the engine", nil, events)
	require.NoError(t, err)
	for await.Receive(t, "the engine serves", events).report.Is != isReady {
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for (<-events).exit == nil {
		}
	}()
	t.Cleanup(func() {
		p.kill()
		<-ended
	})
	v = newVisitor(t, spec.Socket)
	v.setEngine(p.cmd.Process.Pid)
	said = new(bytes.Buffer)
	v.w, v.spec.Hang = &wire{out: json.NewEncoder(said)}, hang
	return v, p.cmd.Process.Pid, said
}

// asleep reports whether all threads of a process are stopped.
func asleep(pid int) bool {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range list {
		if stat, err := os.ReadFile(file); err == nil && !strings.Contains(string(stat), ") T ") {
			return false
		}
	}
	return true
}

// An engine whose threads sleep for 2 s is a stall. One that sleeps for longer than posted work may take
// gives no answer. Neither is ever taken for a corruption.
func TestPlantedDelaysAreTold(t *testing.T) {
	t.Parallel()
	aWrite := func(v *visitor, _ *nicless.Context, o visitObjects) error { return v.write(o, 2) }
	aCall := func(v *visitor, ctx *nicless.Context, _ visitObjects) error {
		return v.step("a protection domain", func() error {
			_, err := ctx.AllocPD()
			return err
		})
	}
	for name, row := range map[string]struct {
		kind        verdict.Kind
		hang, sleep time.Duration
		waits       func(*visitor, *nicless.Context, visitObjects) error
	}{
		"a stall":        {verdict.Stall, 0, 2 * time.Second, aWrite},
		"a hung WRITE":   {verdict.NoAnswer, time.Second, time.Hour, aWrite},
		"a stalled call": {verdict.Stall, 0, 2 * time.Second, aCall},
		"a hung call":    {verdict.NoAnswer, 0, time.Hour, aCall}, // takes the 10 s of the host API
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they hardly need a core
			busy := true // in no try had engine and client the share that is needed
			for try := range plantTries {
				v, engine, said := served(t, row.hang)
				ctx, err := nicless.Dial(v.spec.Socket)
				require.NoError(t, err)
				defer ctx.Close()
				objects, err := v.createObjects(ctx)
				require.NoError(t, err)
				require.NoError(t, v.write(objects, 1))
				said.Reset()

				require.NoError(t, syscall.Kill(engine, syscall.SIGSTOP))
				await.Until(t, "the engine's threads sleep", func() bool { return asleep(engine) })
				// Longer with each try: on a busy machine, a part of it is over before this test waits.
				wakes := time.AfterFunc(row.sleep<<try, func() { _ = syscall.Kill(engine, syscall.SIGCONT) })
				err = row.waits(v, ctx, objects)
				wakes.Stop()
				_ = syscall.Kill(engine, syscall.SIGCONT)
				var f *verdict.Fault
				var e verdict.Evidence
				if row.kind == verdict.NoAnswer {
					require.Error(t, err)
					f = v.fault(err)
					e = *f.Evidence
				} else {
					require.NoError(t, err)
					var r Report
					// otherwise the engine was awake before this test waited
					if json.NewDecoder(said).Decode(&r) == nil {
						require.Equal(t, isStall, r.Is)
						require.Greater(t, r.Stall.Took, stallBound)
						new(Stalls).add(r.Stall)
						f, e = r.Stall.fault(), r.Stall.Evidence
					}
				}
				t.Logf("try %d: %v; evidence: %v", try, f, &e)
				if f != nil && f.Kind != verdict.Undecided {
					require.Equal(t, row.kind, f.Kind)
					require.NotEmpty(t, f.Expected)
					require.True(t, f.Evidence.Known)
					return
				}
				busy = busy && (!e.Known || e.Share() < verdict.LeastShare) && e.Took > 0
			}
			require.True(t, busy, "not told in %d tries, on a machine that allowed to tell", plantTries)
			t.Logf("not told in %d tries, each with a share below %v", plantTries, verdict.LeastShare)
		})
	}
}

// A leak of the engine is reported as one. It is planted in each engine but the first, and a plan has three.
func TestPlantedLeakIsTold(t *testing.T) {
	t.Parallel()
	for range plantTries {
		r, _ := tortured(t, "leak", Config{Duration: time.Second, freeWithin: 2 * time.Second})
		if r.Verdict == verdict.Leaked {
			require.Positive(t, r.EngineKills)
			require.Contains(t, r.Leaked, "descriptors")
			require.GreaterOrEqual(t, r.Final.Descriptors, r.Baseline.Descriptors+leakedFiles)
			return
		}
		require.Equal(t, verdict.Undecided, r.Verdict)
	}
	t.Fatalf("not told in %d runs", plantTries)
}

// An engine that has next to nothing of its core is undecided, and is never taken for a wrong one.
func TestStarvedEngineIsNotJudged(t *testing.T) {
	core := anyCore(func(int) int { return 0 })
	var stop atomic.Bool
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop.Store(true)
	ended.Go(func() { // it wants the engine's core all the time
		runtime.LockOSThread()
		pin(core)
		for !stop.Load() {
		}
	})
	v, engine, said := served(t, 0)
	ctx, err := nicless.Dial(v.spec.Socket)
	require.NoError(t, err)
	defer ctx.Close()
	require.NoError(t, starve(engine, core))
	var load verdict.Load
	before, err := schedstat.Read(engine)
	require.NoError(t, err)
	for load.Waited < before.Sum().Waited+300*time.Millisecond {
		require.NoError(t, v.step("a protection domain", func() error {
			pd, err := ctx.AllocPD()
			return errors.Join(err, pd.Close())
		}))
		load.Look([]int{engine})
	}
	load.Ran -= before.Sum().Ran
	load.Waited -= before.Sum().Waited
	f := load.Check("the engine")
	require.NotNil(t, f, "a share of %v", load.Share())
	require.Equal(t, verdict.Undecided, f.Kind)
	for d := json.NewDecoder(said); ; {
		var r Report
		if d.Decode(&r) != nil {
			return
		}
		if r.Is == isStall {
			new(Stalls).add(r.Stall)
			require.NotEqual(t, verdict.Stall, r.Stall.Kind, r.Stall)
		}
	}
}

// starve gives all threads of a process one core, and the lowest priority on it.
func starve(pid, core int) error {
	var set unix.CPUSet
	set.Set(core)
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, entry := range list {
		tid, _ := strconv.Atoi(entry.Name())
		err = errors.Join(err, unix.SchedSetaffinity(tid, &set),
			unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
	}
	return err
}

// A run whose supervisor is killed leaves no process behind. Package scratch removes its directory.
func TestKilledRunLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command(os.Args[0], supervisorArgument, dir)
	c.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line := await.Receive(t, "the run moves data", lines(out))
	require.Equal(t, "moves data", line)
	family := schedstat.Family(c.Process.Pid)
	require.Greater(t, len(family), 2*pairs, "there are clients and an engine")
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	await.Until(t, "all processes of the run have ended", func() bool {
		return !slices.ContainsFunc(family, func(pid int) bool { return len(schedstat.Family(pid)) > 0 && alive(pid) })
	})
}

// alive reports whether there is a process that is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func lines(r io.Reader) <-chan string {
	c := make(chan string)
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			c <- s.Text()
		}
	}()
	return c
}
