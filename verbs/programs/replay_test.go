package programs

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/freeport"
)

// replayed are programs whose queues firmware commands (DEVX) make, and which write the rings and doorbells
// themselves. wqes is the least number of WQEs that a replay has.
var replayed = []struct {
	name  string
	flags []string
	wqes  int
	shows []string // of the trace
}{
	{"queues", nil, 3200, []string{", doorbells register,", " 2^0 entries of 64 bytes, collapsed,",
		" 2^2 receives of 32 bytes, cyclic,", ", a list of 2 pieces"}},
	{"queues", []string{"--guard-posts"}, 3200, []string{", doorbells guarded,"}},
	{"ucx", nil, 200, []string{", cyclic,"}},
}

// The trace of an engine has the queues that firmware commands have made, and a replay of it is the same:
// queues that registers start, guarded, collapsed and cyclic ones, and lists.
func TestReplayDEVX(t *testing.T) {
	for _, r := range replayed {
		t.Run(fmt.Sprint(r.name, r.flags), func(t *testing.T) {
			t.Parallel()
			trace := filepath.Join(t.TempDir(), "x.nictrace")
			argv := append([]string{"--devx", "--trace", trace, "--replay"}, r.flags...)
			if r.name == "ucx" {
				need(t, "ucx_perftest")
				argv = append(argv, "--", "sh", "-c", ucxPair(t, "UCX_IB_MLX5_DEVX=yes UCX_TLS=rc_x"))
			} else {
				argv = append(argv, "--", check(t, r.name))
			}
			said := runPrivately(t, argv...)
			out, err := exec.Command(binary, "replay", trace).CombinedOutput()
			require.NoError(t, err, "%s\n%s", out, said)
			shown, err := exec.Command(binary, "trace", "show", trace).Output()
			require.NoError(t, err)
			for _, s := range r.shows {
				require.Contains(t, string(shown), s)
			}
			m := same.FindSubmatch(out)
			require.NotNil(t, m, string(out))
			n, _ := strconv.Atoi(string(m[1]))
			require.GreaterOrEqual(t, n, r.wqes, "%s\n%s", out, said)
		})
	}
}

// ucxPair is a script that runs the two ends of a test of ucx_perftest, with variables of the environment.
func ucxPair(t *testing.T, env string) string {
	t.Helper()
	port := freeport.TCP(t)
	program := fmt.Sprintf("env %s ucx_perftest -p %d -t tag_lat -s 8 -n 100 -w 10", env, port)
	return bothEnds(program, port)
}
