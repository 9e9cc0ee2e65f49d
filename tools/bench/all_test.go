package bench

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/tools/internal/cores"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain runs an engine if the suite starts one: engine --socket PATH [--cpu N] [--spin].
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "engine" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		cfg := nicless.Config{Spin: slices.Contains(os.Args, "--spin")}
		if i := slices.Index(os.Args, "--cpu"); i > 0 {
			cpu, _ := strconv.Atoi(os.Args[i+1])
			cfg.CPUs = []int{cpu}
		}
		err := nicless.Serve(ctx, os.Args[3], 0o600, cfg, nil)
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var fewCounts = counts{
	latency: 200, rate: 1000, copied: 1 << 20, clients: 3, queues: 12, active: 6, holders: 2, held: 20, ticks: 50,
	large: 1 << 20, registered: 1 << 20, pauses: 2, connects: 2,
}

// Some rows, with an engine in this process and with one in another, are measured, and all checks in
// their measurement run. The figures are not checked, and no run is repeated.
func TestSomeRows(t *testing.T) {
	cpus := twoCores(t)
	table, err := All(t.Context(), AllConfig{
		Rows: regexp.MustCompile("^(write-8|crowded-write|crowded-rate|connect|memory-engine)$"), Runs: 1, ClientCPU: cpus[0], EngineCPU: cpus[1], counts: &fewCounts,
	})
	require.NoError(t, err)
	var names []string
	for _, r := range table.Rows {
		names = append(names, r.Name)
		assert.Positive(t, r.Values.Median, r.Name)
	}
	assert.Equal(t, []string{"write-8", "crowded-write", "crowded-rate", "connect", "memory-engine"}, names)
}

func twoCores(t *testing.T) []int {
	t.Helper()
	cpus, err := AllowedCPUs()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("one core: client and engine need one each")
	}
	return cpus
}

// Every row is measured, and all checks in its measurement run. Beside other work this takes minutes,
// because client and engine each wait for their core again and again.
func TestAll(t *testing.T) {
	explore.Only(t)
	cpus := twoCores(t)
	runs := 0
	table, err := All(t.Context(), AllConfig{
		Runs: 2, ClientCPU: cpus[0], EngineCPU: cpus[1], counts: &fewCounts,
		Progress: func(string, int, int) { runs++ },
	})
	require.NoError(t, err)
	var names []string
	probed := 0
	for _, r := range table.Rows {
		names = append(names, r.Name)
		assert.NotEmpty(t, r.Target, r.Name)
		assert.False(t, math.IsNaN(r.Values.Median), r.Name)
		if r.Floor != "" {
			assert.Len(t, r.Ratios.Samples, len(r.Values.Samples), r.Name)
		}
		if r.Slowdowns != nil {
			probed += len(r.Slowdowns.Samples)
		}
	}
	assert.Equal(t, probed, table.Siblings.Runs)
	assert.Greater(t, probed, 2*16)
	assert.Equal(t, new(AllConfig).RowNames(), names)
	assert.Greater(t, runs, 2*len(groups))

	b, err := json.Marshal(table)
	require.NoError(t, err)
	var back Table
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, *table, back)
}

func TestAllCompletes(t *testing.T) {
	c := AllConfig{ClientCPU: 0, EngineCPU: 1}
	require.NoError(t, c.Complete())
	assert.Equal(t, 5, c.Runs)
	for want, c := range map[string]AllConfig{
		"runs 1001; 1 to":     {Runs: 1001, EngineCPU: 1},
		"cores 0 and 0":       {},
		"cores -1 and 1":      {ClientCPU: -1, EngineCPU: 1},
		`no row is called "z`: {EngineCPU: 1, Rows: regexp.MustCompile("z+")},
	} {
		assert.ErrorContains(t, c.Complete(), want)
	}
}

func TestTable(t *testing.T) {
	var samples []pairOf
	for i, v := range []float64{30, 10, 20} {
		samples = append(samples, pairOf{floor: sample{value: 20}, device: sample{value: v, lost: float64(i) / 50}})
	}
	table := Table{Machine: Machine{CPU: "a processor", CPUs: []int{0, 1}, Kernel: "Linux 6", Go: "go1"}, EngineCPU: 1, Rows: []Row{
		newRow(spec{name: "a", what: "the one", unit: "ns", floor: "another", most: 1.15}, samples, 2),
		newRow(spec{name: "b", what: "the other", unit: "MB/s", least: 100}, samples[:1], 0),
		newRow(spec{name: "c", what: "the third", unit: "us", floor: "another", most: 9, absolute: true}, samples[:1], 0),
	}}
	var s strings.Builder
	require.NoError(t, table.PrintMarkdown(&s))
	assert.Equal(t, `- machine: a processor, 2 cores, Linux 6, go1
- cores: client 0, engine 1; up to 3 runs, median (least..greatest)
- measured; each run after one of its floor, ratio = nicless / floor run by run
- disturbed by other programs, over 2% of the time, by a floor that moved by 25%, or by a busy sibling: up to 2 runs of a row were repeated; 1 of the runs below

| row | unit | nicless | floor | ratio | target | verdict |
|---|---|---|---|---|---|---|
| a | ns | 20.0 (10.0..30.0) | 20.0 (20.0..20.0) | 1.00 (0.50..1.50) | <= 1.15 x floor | holds |
| b | MB/s | 30.0 | - | - | >= 100 MB/s | misses |
| c | us | 30.0 | 20.0 | 1.50 | <= 9 us | misses |

| row | what | floor |
|---|---|---|
| a | the one | another |
| b | the other | - |
| c | the third | another |
`, s.String())
	s.Reset()
	require.NoError(t, table.Print(&s))
	assert.Contains(t, s.String(), "row  unit  nicless            floor              ratio              target           verdict\n")
	assert.Contains(t, s.String(), "a    ns    20.0 (10.0..30.0)  20.0 (20.0..20.0)  1.00 (0.50..1.50)  <= 1.15 x floor  holds\n")
}

// Time in which a thread should have run, and did not run, counts as disturbed.
func TestAbsent(t *testing.T) {
	const took = 100 * time.Millisecond
	ms := uint64(time.Millisecond)
	before := map[string]cores.Times{"1": {Ran: 50 * ms, Waited: 0}, "2": {Ran: 0, Waited: 0}}
	after := map[string]cores.Times{"1": {Ran: 100 * ms, Waited: 0}, "2": {Ran: 95 * ms, Waited: 0}}
	assert.InDelta(t, 0.4, absent(before, after, took, "1"), 1e-9)
	assert.Zero(t, absent(before, after, took, "1", "2"))
	assert.Zero(t, absent(nil, nil, took, "1"), "a kernel without schedstat")
}
