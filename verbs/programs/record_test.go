package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/proctest"
)

// recorded are programs whose two ends nicless record records, on a device of nicless in place of a NIC. PORT
// is a free port. wqes and completions are the least numbers of them that a replay has.
var recorded = []struct {
	program           string
	wqes, completions int
	more              bool // only with -programs
}{
	{program: "ibv_rc_pingpong -g 0 -n 50 -s 3000 -p PORT", wqes: 100, completions: 200},
	// ibv_wr_* and ibv_cq_ex
	{program: "ibv_rc_pingpong -g 0 -n 50 -N -t -p PORT", wqes: 100, completions: 200},
	{program: "ibv_ud_pingpong -g 0 -n 30 -s 500 -p PORT", wqes: 60, completions: 120},
	{program: "ib_write_bw -n 100 -s 3000 -b -q 2 -p PORT", wqes: 400, completions: 4},
	{program: "ib_read_lat -n 30 -s 200 -p PORT", wqes: 30, completions: 30},
	{program: "ibv_srq_pingpong -g 0 -n 100 -s 500 -q 4 -p PORT", wqes: 190, completions: 380, more: true},
	{program: "ibv_uc_pingpong -g 0 -n 50 -s 500 -p PORT", wqes: 100, completions: 200, more: true},
	// messages in CQEs
	{program: "ibv_rc_pingpong -g 0 -n 20 -s 20 -e -p PORT", wqes: 40, completions: 80, more: true},
	{program: "ib_send_bw -n 100 -s 100000 -b -p PORT", wqes: 200, completions: 200, more: true},
	{program: "ib_send_bw -c UD -n 100 -s 1000 -p PORT", wqes: 100, completions: 100, more: true},
	{program: "ib_atomic_bw -n 20 -p PORT", wqes: 20, completions: 1, more: true},
	// UCX makes queue pairs of DC too, which are not recorded.
	{program: "env UCX_TLS=rc_v ucx_perftest -p PORT -t tag_lat -s 8 -n 100 -w 10", wqes: 200, completions: 200},
	{program: "env UCX_TLS=ud_v ucx_perftest -p PORT -t tag_lat -s 8 -n 100 -w 10", wqes: 200, completions: 200,
		more: true},
}

var same = regexp.MustCompile(`: the same: (\d+) WQEs, (\d+) completions`)

// A replay of what nicless record has recorded is the same.
func TestRecord(t *testing.T) {
	for _, r := range share.Of(recorded) {
		t.Run(r.program, func(t *testing.T) {
			t.Parallel()
			if r.more {
				long(t)
			}
			need(t, regexp.MustCompile(`^(?:env \S+ )?(\S+)`).FindStringSubmatch(r.program)[1])
			needHeaders(t)
			port := freeport.TCP(t)
			program := regexp.MustCompile("PORT").ReplaceAllString(r.program, strconv.Itoa(port))
			trace := filepath.Join(t.TempDir(), "x.nictrace")
			said := recordScript(t, bothEnds(program, port), trace)
			out, err := exec.Command(binary, "replay", trace).CombinedOutput()
			require.NoError(t, err, "%s\n%s", out, said)
			m := same.FindSubmatch(out)
			require.NotNil(t, m, string(out))
			for i, least := range []int{r.wqes, r.completions} {
				n, _ := strconv.Atoi(string(m[i+1]))
				require.GreaterOrEqual(t, n, least, "%s\n%s", out, said)
			}
		})
	}
}

// bothEnds is a script that runs a program as a server, which listens on a port, and then as its client.
func bothEnds(program string, port int) string {
	return fmt.Sprintf(`%s & until grep -q ":%04X 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done
		%s localhost && wait $!`, program, port, program)
}

// recordScript records a script on a private device.
func recordScript(t *testing.T, script, trace string) string {
	t.Helper()
	return runPrivate(t, binary, "record", "--out", trace, "--", "sh", "-c", script)
}

// runPrivate runs a command on a private device.
func runPrivate(t *testing.T, argv ...string) string {
	t.Helper()
	return runPrivately(t, append([]string{"--"}, argv...)...)
}

// runPrivately runs nicless run with arguments on a private device. Its socket is in a directory with a short
// name.
func runPrivately(t *testing.T, argv ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nr")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := startWith(t, nil, func(c *exec.Cmd) {
		c.Env = append(c.Environ(), "XDG_RUNTIME_DIR="+dir, "XDG_CACHE_HOME="+scratch)
	}, append([]string{binary, "run", "--private"}, argv...)...)
	require.NoError(t, p.wait(), p.said.String())
	return p.said.String()
}

// needHeaders skips the test if the headers of rdma-core are missing, with which the library is built.
func needHeaders(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		proctest.Missing(t, "the headers of rdma-core are not installed (Debian: apt install libibverbs-dev)")
	}
}

// Without an mlx5 device there is no trace, and the error says what to do. The status is the program's if
// that has failed.
func TestRecordWithoutDevice(t *testing.T) {
	need(t)
	needHeaders(t)
	record := func(argv ...string) (int, string) {
		cmd := exec.Command(binary, append([]string{"record", "--out", filepath.Join(t.TempDir(), "x"), "--"},
			argv...)...)
		cmd.Env = append(cmd.Environ(), "XDG_CACHE_HOME="+scratch)
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	status, said := record("true")
	require.Equal(t, 125, status)
	require.Contains(t, said, "no process has opened an mlx5 device")
	require.Contains(t, said, "nicless run -- nicless record -- PROGRAM")
	status, said = record("sh", "-c", "exit 7")
	require.Equal(t, 7, status)
	require.Contains(t, said, "no process has opened an mlx5 device")
	status, _ = record("/does/not/exist")
	require.Equal(t, 127, status)
}

// A program that reads the rings of its completion queues itself is not recorded, and a note says so.
func TestRecordOfOwnRings(t *testing.T) {
	t.Parallel()
	needHeaders(t)
	trace := filepath.Join(t.TempDir(), "x.nictrace")
	said := recordScript(t, check(t, "inline"), trace)
	require.Contains(t, said, ", 0 WQEs, 0 completions\n")
	require.Regexp(t, `note: \d+ queue pairs are left out: the program reads or writes rings of theirs itself\n`, said)
	out, err := exec.Command(binary, "replay", trace).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "the trace has no queue pair")
}

// A program that is recorded gets no queues by firmware commands (DEVX), although its device has them, and
// goes back to queues of verbs, which are recorded. If it may have them, a note names each.
func TestRecordDEVX(t *testing.T) {
	needHeaders(t)
	const refused = "nicless: mlx5dv_open_device with MLX5DV_CONTEXT_FLAGS_DEVX refused: "
	t.Run("UCX", func(t *testing.T) {
		t.Parallel()
		need(t, "ucx_perftest")
		trace := filepath.Join(t.TempDir(), "x.nictrace")
		record := func(env string, flags ...string) string {
			argv := append([]string{"--devx", "--", binary, "record", "--out", trace}, flags...)
			return runPrivately(t, append(argv, "--", "sh", "-c", ucxPair(t, env))...)
		}
		said := record("UCX_IB_MLX5_DEVX=try UCX_TLS=rc_v")
		require.Contains(t, said, refused)
		out, err := exec.Command(binary, "replay", trace).CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, said)
		m := same.FindSubmatch(out)
		require.NotNil(t, m, string(out))
		n, _ := strconv.Atoi(string(m[1]))
		require.GreaterOrEqual(t, n, 200)

		said = record("UCX_IB_MLX5_DEVX=yes UCX_TLS=rc_x", "--devx")
		require.NotContains(t, said, "refused")
		require.Contains(t, said, "WARNING: a program makes queues by firmware commands (DEVX): nothing of them is recorded\n")
		require.Regexp(t, `note: not recorded: QP 0x[0-9a-f]+ of \d+ blocks, CQs .*, of process \d+ \(ucx_perftest\)\n`, said)
	})
	t.Run("queues", func(t *testing.T) {
		t.Parallel()
		need(t, "ibv_devinfo")
		path, trace := check(t, "queues"), filepath.Join(t.TempDir(), "x.nictrace")
		said := runPrivately(t, "--devx", "--", binary, "record", "--out", trace, "--", "sh", "-c", path+" || ibv_devinfo")
		require.Contains(t, said, refused)
		require.Contains(t, said, "(errno: Operation not supported)")
		said = runPrivately(t, "--devx", "--", binary, "record", "--out", trace, "--devx", "--", path)
		require.Contains(t, said, "registers alone: ok\n")
		require.Contains(t, said, "note: 24 queues are NOT recorded: firmware commands (DEVX) have made them.")
		require.Regexp(t, `note: not recorded: CQ 0x[0-9a-f]+ of 1024 entries, of process`, said)
	})
}

// The programs of this repository use more of libibverbs, such as forks.
func TestRecordChecks(t *testing.T) {
	for _, argument := range []string{"fork", "twice"} {
		t.Run(argument, func(t *testing.T) {
			t.Parallel()
			needHeaders(t)
			path := check(t, "life")
			trace := filepath.Join(t.TempDir(), "x.nictrace")
			said := recordScript(t, path+" "+argument, trace)
			out, err := exec.Command(binary, "replay", trace).CombinedOutput()
			require.NoError(t, err, "%s\n%s", out, said)
			require.Regexp(t, same, string(out))
		})
	}
}

// A program does the same with nicless record and without it. wqes is the least number of WQEs that a replay
// has.
func TestRecordSame(t *testing.T) {
	for i, c := range []struct {
		step string
		wqes int    // 0: the record has nothing that can be replayed
		says string // of the replay
		more bool
	}{
		{step: "stale", wqes: 180},
		{step: "reset", wqes: 5},
		{step: "turns", wqes: 1},
		{step: "resize"},
		{step: "share", wqes: 20000},
		{step: "cancel", wqes: 1000, more: true},
		{step: "handler", wqes: 1, more: true},
		{step: "closed DIR", wqes: 51},
		{step: "limit", wqes: 50},
		{step: "far", wqes: 2 * 32768, says: " 65536 messages of ", more: true},
		{step: "asked", wqes: 110},
		{step: "own"},
	} {
		if !share.Has(i) {
			continue
		}
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			if c.more {
				long(t)
			}
			needHeaders(t)
			program := check(t, "recorded") + " " + c.step
			script := func() string { return strings.ReplaceAll(program, "DIR", t.TempDir()) }
			trace := filepath.Join(t.TempDir(), "x.nictrace")
			ok := "recorded: " + strings.TrimSuffix(c.step, " DIR") + ": ok\n"
			require.Contains(t, runPrivate(t, "sh", "-c", script()), ok)
			said := recordScript(t, script(), trace)
			require.Contains(t, said, ok)
			if c.wqes == 0 {
				return
			}
			out, err := exec.Command(binary, "replay", trace).CombinedOutput()
			require.NoError(t, err, "%s\n%s", out, said)
			require.Contains(t, string(out), c.says)
			m := same.FindSubmatch(out)
			require.NotNil(t, m, string(out))
			n, _ := strconv.Atoi(string(m[1]))
			require.GreaterOrEqual(t, n, c.wqes, "%s\n%s", out, said)
		})
	}
}
