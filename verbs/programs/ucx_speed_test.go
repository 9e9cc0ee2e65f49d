package programs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUCXSpeed prints latencies of UCX on queues made by DEVX beside those on queues made by verbs, of one
// engine, in turns. Like TestSpeed it is for a machine that does nothing else:
//
//	go test ./verbs/programs -run TestUCXSpeed -speed -v
func TestUCXSpeed(t *testing.T) {
	if !*speed {
		t.Skip("measures with -speed")
	}
	need(t, "ucx_perftest")
	const rounds = 7
	for _, transport := range []string{"rc_mlx5", "dc_mlx5"} {
		for _, test := range []string{
			"-t put_lat -D short -s 8 -n 20000 -w 2000",
			"-t put_lat -D bcopy -s 1024 -n 20000 -w 2000",
			"-t get -D bcopy -s 1024 -n 20000 -w 2000",
			"-t am_lat -D short -s 8 -n 20000 -w 2000",
			"-t tag_lat -s 8 -n 20000 -w 2000",
		} {
			t.Run(transport+" "+test, func(t *testing.T) {
				l := newLabAt(t, places()[0], append([]string{"--log-level", "info"}, makers[1].engine...)...)
				took := make([][]float64, len(makers))
				for range rounds {
					for i, m := range makers {
						took[i] = append(took[i], l.ucxLatency(t, transport, m, test))
					}
				}
				report(t, "us by DEVX beside verbs", took[1], took[0], "<= 1.05", func(r float64) bool { return r <= 1.05 })
			})
		}
	}
}

var ucxResult = regexp.MustCompile(`(?m)^\s*\d+,\s*[0-9.]+,\s*([0-9.]+),`)

// ucxLatency returns the average latency of a test of ucx_perftest, in us.
func (l *lab) ucxLatency(t *testing.T, transport string, m maker, test string) float64 {
	t.Helper()
	line := fmt.Sprintf("%sucx_perftest -x %s -d nicless0:1 %s -f -v", ucxEnvironment(transport, m), transport, test)
	_, said := l.with(t).pair(strings.Fields(line)...)
	found := ucxResult.FindStringSubmatch(said)
	require.NotNil(t, found, said)
	us, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return us
}
