package programs

import (
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpeed prints results of verbs programs beside the results with which they are compared.
// Both are measured in turns. The numbers mean something only on a machine that does nothing
// else, so the test runs only with the flag -speed:
//
//	go test ./verbs/programs -run TestSpeed -speed -v
func TestSpeed(t *testing.T) {
	if !*speed {
		t.Skip("measures with -speed")
	}
	need(t, "ib_write_bw", "ib_read_lat", "ib_write_lat")
	pace := check(t, "pace")
	const rounds = 3
	for _, mode := range modes {
		// One engine at a time: an idle engine wakes now and then, and cores may be few.
		t.Run(mode.name+"/bandwidth", func(t *testing.T) {
			l := newLab(t, mode.flags...)
			line, beside := "ib_write_bw -s 65536 -n 100000", "nicless bench bw"
			if mode.flags != nil {
				line, beside = "ib_write_bw -s 65536 -n 10000", "two copies by the kernel"
			}
			var verbs, floor []float64
			for range rounds {
				if mode.flags != nil {
					floor = append(floor, paceOf(t, []string{pace, "copies", "65536"})["copies"])
				} else {
					floor = append(floor, benchBW(t))
				}
				verbs = append(verbs, l.perftest(t, line, 3))
			}
			report(t, "ib_write_bw 64 KiB, MB/s, beside "+beside, verbs, floor, ">= 0.8", func(r float64) bool { return r >= 0.8 })
		})
		t.Run(mode.name+"/latency", func(t *testing.T) {
			l := newLab(t, mode.flags...)
			var read, write, floor []float64
			for range rounds {
				read = append(read, l.perftest(t, "ib_read_lat -s 8 -n 10000", 4))
				write = append(write, l.perftest(t, "ib_write_lat -s 8 -n 5000", 4))
				best := paceOf(t, []string{pace, "relay"})
				floor = append(floor, slices.Min(slices.Collect(maps.Values(best))))
			}
			t.Logf("ib_read_lat 8 B: %.2f us typical", median(read))
			report(t, "ib_write_lat 8 B, us, beside a relay on the same cores", write, floor, "<= 1.5", func(r float64) bool { return r <= 1.5 })
		})
		t.Run(mode.name+"/control", func(t *testing.T) {
			l := newLab(t, mode.flags...)
			for range rounds {
				floor := paceOf(t, []string{pace, "socket"})
				calls := paceOf(t, l.argv(pace, "control"))
				for _, name := range sorted(calls) {
					if low := calls[name+"-low"]; low > 0 {
						t.Logf("%-17s median %9.2f us, low %9.2f us; a round trip over a socket: %.2f and %.2f us, getppid: %.2f us", name, calls[name], low, floor["socket"], floor["socket-low"], floor["getppid"])
					}
				}
			}
		})
	}
}

// report prints the medians of two columns and the median of their ratios, pair by pair.
func report(t *testing.T, what string, verbs, floor []float64, target string, holds func(float64) bool) {
	var ratios []float64
	for i := range verbs {
		ratios = append(ratios, verbs[i]/floor[i])
	}
	verdict := "misses"
	if holds(median(ratios)) {
		verdict = "holds"
	}
	t.Logf("%s: %.4g / %.4g = %.2f (%.2f..%.2f), %s: %s", what, median(verbs), median(floor), median(ratios), slices.Min(ratios), slices.Max(ratios), target, verdict)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// perftest runs a pair of programs and returns a column of the client's last row. Column 3 is
// the average bandwidth, and column 4 is the typical latency.
func (l *lab) perftest(t *testing.T, line string, column int) float64 {
	t.Helper()
	l = &lab{t: t, socket: l.socket, engine: l.engine, flags: l.flags}
	_, said := l.pair(append(strings.Fields(line), "-d", "nicless0", "-F")...)
	rows := measured(perftestRows(said))
	require.NotEmpty(t, rows, "%s", said)
	last := rows[len(rows)-1]
	require.Greater(t, len(last), column, "%s", said)
	if column == 3 {
		return last[column] * (1 << 20) / 1e6 // perftest prints MB and means MiB
	}
	return last[column]
}

// benchBW returns the bandwidth of nicless bench, in MB/s.
func benchBW(t *testing.T) float64 {
	t.Helper()
	out, err := exec.Command(binary, "bench", "bw", "--op", "write", "--size", "65536", "--runs", "5", "--json").Output()
	require.NoError(t, err)
	var r struct {
		Results []struct {
			Peer  string
			Value float64
		}
	}
	require.NoError(t, json.Unmarshal(out, &r), "%s", out)
	for _, of := range r.Results {
		if of.Peer == "nicless" {
			return of.Value
		}
	}
	require.Fail(t, "no result", "%s", out)
	return 0
}

// paceOf runs verbs/check/pace and returns what it measured.
func paceOf(t *testing.T, argv []string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, line := range lines(start(t, nil, argv...).succeeds()) {
		if name, text, ok := strings.Cut(line, " "); ok {
			v, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err, "%s", line)
			values[name] = v
		}
	}
	require.NotEmpty(t, values)
	return values
}
