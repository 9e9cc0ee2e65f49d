package programs

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// sanitized is the exit status of nicless run --sanitize if there are errors.
const sanitized = 66

// mistakes are what testdata/mistakes.c can make, and the two accesses in the report of each.
// Completions that nobody takes have no second access.
var mistakes = []struct{ name, code, first, second string }{
	{"send-buffer-changed", "send-buffer-changed", `Read of 64 bytes at \w+ by PID:\n    qp \w+, wqe 0, SEND, key`, `Store of 64 bytes at \w+ by PID:`},
	{"receive-buffer-changed", "receive-buffer-changed", `Receive of 64 bytes at \w+ by PID:\n    qp \w+, receive 0, key`, `Store of 64 bytes at \w+ by PID:`},
	{"wqe-rewritten", "wqe-rewritten", `Post by PID:\n    qp \w+, wqe 0, SEND`, `Store by PID:\n    qp \w+, wqe 0, SEND`},
	{"key-gone", "key-gone", `Use of a local key by PID:\n    qp \w+, wqe 0, SEND, key`, `Deregistration by PID:\n    key`},
	{"destroyed-in-flight", "destroyed-in-flight", `Post by PID:\n    qp \w+, wqe 0, SEND`, `Destruction by PID:\n    qp`},
	{"never-polled", "never-polled", `Destruction by PID:\n    cq`, ``},
	{"never-polled-destroyed", "never-polled", `Destruction by PID:\n    cq`, ``},
	{"race", "race", `Write of 64 bytes at \w+ by PID:\n    qp \w+, wqe 1, RDMA_WRITE, key`,
		`Earlier write of 64 bytes at \w+ by PID:\n    qp \w+, wqe 1, RDMA_WRITE, key`},
	// The device may execute either first: their queue pairs have no order, which is the mistake.
	{"race-read", "race", `(Read|Earlier read) of 64 bytes at \w+ by PID:\n    qp \w+, wqe 1, RDMA_READ, key`,
		`(Write|Earlier write) of 64 bytes at \w+ by PID:\n    qp \w+, wqe 1, RDMA_WRITE, key`},
}

// The sanitizer finds each mistake of a program, says so once, and names both accesses.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	path := mistaken(t)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			p := sanitize(t, nil, path, m.name)
			said := p.fails()
			require.Equal(t, sanitized, p.cmd.ProcessState.ExitCode(), said)
			require.Equal(t, 1, strings.Count(said, "nicless sanitizer: "), said)
			require.Contains(t, said, "ERROR: nicless sanitizer: "+m.code+": ")
			for _, access := range []string{m.first, m.second} {
				require.Regexp(t, strings.ReplaceAll(access, "PID", `pid \d+ \(mistakes\)`), said)
			}
		})
	}
}

// A program that does the same rightly has no report, not even a note, and also if the device is its only way
// to synchronise.
func TestNoMistakesAreFound(t *testing.T) {
	t.Parallel()
	path := mistaken(t)
	for _, flags := range [][]string{nil, {"--notes"}, {"--strict"}} {
		require.NotContains(t, sanitize(t, flags, path, "correct").succeeds(), "sanitizer", "%v", flags)
	}
}

// Both ends of perftest agree over TCP, which the sanitizer does not see. They have no reports.
func TestPerftestHasNoMistakes(t *testing.T) {
	t.Parallel()
	need(t, "ib_write_bw")
	port := freeport.TCP(t)
	script := bothEnds(fmt.Sprintf("ib_write_bw -d nicless0 -F -n 20 -p %d", port), port)
	said := sanitize(t, nil, "sh", "-c", script).succeeds()
	require.NotContains(t, said, "sanitizer")
	require.Len(t, perftestRows(said), 2, said)
}

// sloppy are programs of others that make a mistake, or may make it, and which.
var sloppy = map[string]string{
	"ucmatose": "never-polled",        // its client sends replies, and does not poll their completions
	"mckey":    "destroyed-in-flight", // it polls no completions of what it sends
}

var (
	sanitizerReport = regexp.MustCompile(`(?s)==================\nERROR: nicless sanitizer: ([a-z-]+): .*?\n==================\n`)
	sanitizedPID    = regexp.MustCompile(`by pid \d+ \((.*?)\)`)
)

// mistakesIn returns the reports of the sanitizer in the log of an engine that are about more than programs
// that are known to be sloppy.
func mistakesIn(log string) (list []string) {
	for _, r := range sanitizerReport.FindAllStringSubmatch(log, -1) {
		names := sanitizedPID.FindAllStringSubmatch(r[0], -1)
		known := len(names) > 0
		for _, n := range names {
			known = known && sloppy[n[1]] == r[1]
		}
		if !known {
			list = append(list, r[0])
		}
	}
	return list
}

// The test of all programs sees each report but those of sloppy programs.
func TestMistakesInLogs(t *testing.T) {
	t.Parallel()
	report := func(code, first, second string) string {
		return "==================\nERROR: nicless sanitizer: " + code + ": it\n  Post by pid 1 (" + first +
			"):\n    qp 0x51\n  Destruction by pid 2 (" + second + "):\n==================\n"
	}
	known := report("destroyed-in-flight", "mckey", "mckey")
	other := report("race", "mckey", "mckey")
	both := report("destroyed-in-flight", "mckey", "put")
	require.Equal(t, []string{other, both}, mistakesIn("a\n"+known+other+"b\n"+both+known))
}

// sanitize starts a program under the sanitizer.
func sanitize(t *testing.T, flags []string, program ...string) *process {
	t.Helper()
	argv := append([]string{binary, "run", "--sanitize"}, flags...)
	return start(t, nil, append(append(argv, "--"), program...)...)
}

// mistaken compiles testdata/mistakes.c and returns the path of the program.
func mistaken(t *testing.T) string {
	t.Helper()
	need(t)
	needHeaders(t)
	return builtOnce("mistakes", func(path string) {
		args := append(compiler()[1:], "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-g",
			"-o", path, "testdata/mistakes.c", "-lmlx5", "-libverbs")
		said, err := exec.Command(compiler()[0], args...).CombinedOutput()
		require.NoError(t, err, "%s", said)
	})
}
