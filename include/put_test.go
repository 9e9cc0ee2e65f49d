package include

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// PEs of the put library, each a process, use all operations on a real engine, and check the results. The
// queues of the narrow scenario have room for two operations.
func TestPut(t *testing.T) {
	each(t, "put", func(t *testing.T, path string) {
		socket := serve(t)
		for _, v := range []struct {
			scenario string
			pes      int
		}{
			{"operations", 1}, {"operations", 3}, {"operations", 4}, {"narrow", 3},
			{"barriers", 3}, {"barriers", 5}, {"mistakes", 3}, {"threads", 3}, {"death", 3}, {"death", 2},
		} {
			t.Run(fmt.Sprintf("%s-%d", v.scenario, v.pes), func(t *testing.T) {
				out, err := run(t, path, socket, v.scenario, fmt.Sprint(v.pes))
				require.NoError(t, err, "%s", out)
				require.Equal(t, fmt.Sprintf("%s: %d PEs: ok\n", v.scenario, v.pes), out)
			})
		}
	})
}

// If one PE cannot take part, no PE opens, and each says why.
func TestPutRefused(t *testing.T) {
	each(t, "put", func(t *testing.T, path string) {
		socket := serve(t)
		for scenario, wants := range map[string][]string{
			"refused": {
				"PE 0: -103 PE 2 takes no part: No such file or directory",
				"PE 1: -103 PE 2 takes no part: No such file or directory",
				"PE 2: -2 no engine at /nonexistent/engine.sock: No such file or directory",
			},
			"unequal": {
				"PE 0: -22 PE 2 has a heap of 12288 bytes, this PE one of 2101248",
				"PE 1: -22 PE 2 has a heap of 12288 bytes, this PE one of 2101248",
				"PE 2: -22 PE 0 has a heap of 2101248 bytes, this PE one of 12288",
			},
		} {
			out, err := run(t, path, socket, scenario, "3")
			require.NoError(t, err, "%s", out)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(lines)
			assert.Equal(t, wants, lines)
		}
	})
}
