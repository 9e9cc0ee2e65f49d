//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/proctest"
	"github.com/nicless/nicless/tools/bench"
	"github.com/stretchr/testify/require"
)

// needRealtime skips the test if a thread cannot have a real-time policy, or if the kernel would then
// leave nothing to this test.
func needRealtime(t *testing.T) {
	t.Helper()
	proctest.Need(t, "chrt", "taskset", "timeout")
	if out, err := exec.Command("chrt", "-f", "10", "true").CombinedOutput(); err != nil {
		t.Skipf("no right to a real-time policy (CAP_SYS_NICE, RLIMIT_RTPRIO, or the cpu controller of the control group): %s", out)
	}
	if text, err := os.ReadFile("/proc/sys/kernel/sched_rt_runtime_us"); err == nil && strings.TrimSpace(string(text)) == "-1" {
		t.Skip("sched_rt_runtime_us is -1: the kernel keeps no time for this test")
	}
}

// An engine that spins at a real-time priority serves requests and ends on SIGTERM, although another
// program with that priority spins on the only other core of the engine's process: the engine's
// thread makes room for the threads that do this.
func TestRealtimeEngineStaysInControl(t *testing.T) {
	needRealtime(t)
	cores, err := bench.AllowedCPUs()
	require.NoError(t, err)
	if len(cores) < 2 {
		t.Skip("one core")
	}
	// no other process has a core meanwhile
	for _, p := range []struct{ policy, priority string }{{"-f", "10"}, {"-f", "1"}}[:explore.Rounds(1, 2)] {
		out, err := exec.CommandContext(await.Context(t), "chrt", "-f", "20", "sh", "-c", inControl, "sh",
			p.policy, p.priority, strconv.Itoa(cores[0]), strconv.Itoa(cores[1]), filepath.Join(t.TempDir(), "s")).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "nicless: engine stopped\nserved 0, ended 0\n", string(out))
	}
}

// inControl is a shell script that runs at a higher priority than the programs that it starts. They are
// an engine on core $4, whose other threads may use core $3 too, and a program that spins there. Then
// the engine has to answer a request, and to end. The shell waits for that at the default priority: the
// kernel waits in a loop, without sleeping, when a process is reaped while another one still looks at its
// directory in /proc, and from a higher priority that one would never get the core.
const inControl = `
ulimit -t 30 # seconds of a core for each program; an engine that spins on is killed, which the status tells
: >$5.log # which grep reads before the engine has begun
taskset -c $3,$4 chrt $1 $2 nicless engine --socket $5 --spin --cpu $4 2>$5.log & engine=$!
until grep -q "engine ready" $5.log; do sleep 0.01; done
taskset -c $3 chrt $1 $2 sh -c 'while :; do :; done' & spins=$!
nicless links --engine $5 >/dev/null; served=$?
kill -TERM $engine
chrt -o -p 0 $$
wait $engine; ended=$?
kill -KILL $spins
grep -v "engine ready" $5.log
echo "served $served, ended $ended"
`

// The rows that need an engine process beside this one are refused, and the others are measured.
func TestRealtimeBenchmark(t *testing.T) {
	needRealtime(t)
	cores, err := bench.AllowedCPUs()
	require.NoError(t, err)
	if len(cores) < 2 {
		t.Skip("one core")
	}
	for policy, name := range map[string]string{"-f": "SCHED_FIFO", "-r": "SCHED_RR"} {
		out, err := exec.CommandContext(await.Context(t), "timeout", "-s", "KILL", "120", "chrt", policy, "10", "nicless", "bench", "all").CombinedOutput()
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit), "%v", err)
		require.Equal(t, 1, exit.ExitCode())
		require.Contains(t, string(out), "this process has "+name+" with priority 10, and row crowd-write-8 needs an engine process")
		require.Contains(t, string(out), "nicless: hint: chrt -o 0 nicless bench all; or,")
	}
	out, err := exec.CommandContext(await.Context(t), "timeout", "-s", "KILL", "120", "chrt", "-f", "10", "nicless", "bench", "all", "--rows", "^write-8$", "--runs", "1").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "write-8 ")
}
