package bench

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/tools/internal/cores"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unpinned returns c without cores for the two sides. There is then no floor.
func unpinned(c Config) Config {
	c.ClientCPU, c.EngineCPU = -1, -1
	return c
}

func TestRunMeasuresEachOperation(t *testing.T) {
	for _, metric := range []Metric{Latency, Rate, Bandwidth} {
		for _, op := range []nicless.Op{nicless.Write, nicless.Read, nicless.Send} {
			r, err := Run(t.Context(), unpinned(Config{Metric: metric, Op: op, Size: 100, Iters: 70, Runs: 2}))
			require.NoError(t, err, "%v %v", metric, op)
			first := r.Results[0]
			assert.Equal(t, "nicless", first.Peer)
			assert.Equal(t, strings.ToLower(op.String()), first.Op)
			assert.Equal(t, string(metric), first.Metric)
			assert.Len(t, first.Samples, 2)
			assert.Positive(t, first.Min)
			want := 1
			if metric == Latency {
				want += len(percentiles)
			}
			assert.Len(t, r.Results, want)
		}
	}
}

func TestPairNoticesWhatWasNotMoved(t *testing.T) {
	c, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	defer c.Close()
	p, err := NewPair(c, PairConfig{Op: nicless.Write, Size: 16, Slots: 4, Depth: 4, Batch: 4, Patience: 100})
	require.NoError(t, err)
	for i := range p.From.Bytes() {
		p.From.Bytes()[i] = byte(i + 1)
	}
	require.NoError(t, p.Post(0, 3))
	require.NoError(t, p.Await(t.Context(), 3))
	assert.EqualError(t, p.Compare(), "WRITE: byte 0 of slot 3 is 0x00, the source is 0x31")
	require.NoError(t, p.Post(3, 1))
	require.NoError(t, p.Await(t.Context(), 4))
	assert.NoError(t, p.Compare())
}

// Every send needs a receive. The test makes many more sends than the receive queue holds.
func TestPairKeepsReceivesPosted(t *testing.T) {
	c, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	defer c.Close()
	p, err := NewPair(c, PairConfig{Op: nicless.Send, Size: 8, Slots: 8, Depth: 24, Batch: 12, Patience: 100})
	require.NoError(t, err)
	for i := uint64(0); i < 2400; i += 24 {
		for k := i; k < i+24; k++ {
			p.stamp(k)
		}
		require.NoError(t, p.Post(i, 12))
		require.NoError(t, p.Post(i+12, 12))
		require.NoError(t, p.Await(t.Context(), i+24))
		require.NoError(t, p.Compare())
	}
	assert.Equal(t, uint64(2400), p.Done())
}

// A completion of a signaled operation stands for the operations before it.
func TestPairSignalsSome(t *testing.T) {
	c, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	defer c.Close()
	for _, op := range []nicless.Op{nicless.Write, nicless.Send} {
		p, err := NewPair(c, PairConfig{Op: op, Size: 8, Slots: 16, Depth: 16, Batch: 4, Signal: 8, Patience: 100})
		require.NoError(t, err)
		for i := uint64(0); i < 800; i += 16 {
			for k := i; k < i+16; k++ {
				p.stamp(k)
			}
			require.NoError(t, p.Post(i, 4))
			require.NoError(t, p.Post(i+4, 4))
			require.NoError(t, p.Await(t.Context(), i+1))
			assert.Equal(t, i+8, p.Done())
			require.NoError(t, p.Post(i+8, 4))
			require.NoError(t, p.Post(i+12, 4))
			require.NoError(t, p.Await(t.Context(), i+16))
			require.NoError(t, p.Compare())
		}
	}
}

func TestCompleteChecks(t *testing.T) {
	good := Config{Metric: Rate, Op: nicless.Write}
	require.NoError(t, good.Complete())
	assert.Equal(t, Config{Metric: Rate, Op: nicless.Write, Size: 8, Iters: 500_000, Runs: 9, Depth: 64, Batch: 16, Signal: 1}, good)
	good.Signal = 8
	require.NoError(t, good.Complete())
	assert.Equal(t, "stream_wqe_memcpy_cqe_db16_sig8_depth64", good.floorOp())

	again := good
	require.NoError(t, again.Complete())
	assert.Equal(t, good, again)

	bw := Config{Metric: Bandwidth, Op: nicless.Read}
	require.NoError(t, bw.Complete())
	assert.Equal(t, Config{Metric: Bandwidth, Op: nicless.Read, Size: 1 << 20, Iters: 256, Runs: 9, Depth: 16, Batch: 1, Signal: 1}, bw)
	assert.Equal(t, "stream_wqe_sge_memcpy_cqe_db1_depth16", bw.floorOp())

	for want, c := range map[string]Config{
		"metric":              {Op: nicless.Write},
		"operation NOP":       {Metric: Latency, Op: nicless.Nop},
		"size -1; 1 to":       {Metric: Latency, Op: nicless.Write, Size: -1},
		"runs 1001; 1 to":     {Metric: Latency, Op: nicless.Write, Runs: 1001},
		"depth 5000; 1 to":    {Metric: Rate, Op: nicless.Write, Depth: 5000},
		"batch 65; 1 to 64":   {Metric: Rate, Op: nicless.Write, Batch: 65},
		"signal 3; powers":    {Metric: Rate, Op: nicless.Write, Signal: 3},
		"signal 32; powers":   {Metric: Rate, Op: nicless.Write, Signal: 32},
		"signal -8; powers":   {Metric: Rate, Op: nicless.Write, Signal: -8},
		"inline WRITE of 829": {Metric: Latency, Op: nicless.Write, Size: 829, Inline: true},
		"BlueFlame, lat_ns of 25 bytes, inline true": {Metric: Latency, Op: nicless.Write, Size: 25, Inline: true, BlueFlame: true},
		"64 payloads of": {Metric: Rate, Op: nicless.Write, Size: 1 << 30},
	} {
		assert.ErrorContains(t, c.Complete(), want)
	}
}

// The longest wait of a busy thread counts. Waits of threads of the Go runtime do not count.
func TestLost(t *testing.T) {
	const took = 100 * time.Millisecond
	ms := uint64(time.Millisecond)
	before := map[string]cores.Times{"1": {Ran: 50 * ms, Waited: 7 * ms}, "2": {Ran: 0, Waited: 0}, "3": {Ran: 0, Waited: 0}}
	after := map[string]cores.Times{"1": {Ran: 145 * ms, Waited: 12 * ms}, "2": {Ran: 99 * ms, Waited: 1 * ms}, "3": {Ran: 5 * ms, Waited: 90 * ms}, "4": {Ran: 1 * ms, Waited: 0}}
	assert.InDelta(t, 0.05, lost(before, after, took), 1e-9)
	assert.Zero(t, lost(nil, nil, took), "a kernel without schedstat")
}

func TestReport(t *testing.T) {
	m := &measurement{Config: Config{Metric: Rate, Op: nicless.Read, Size: 8, Iters: 10, Depth: 4, Batch: 2, ClientCPU: 0, EngineCPU: 1}}
	for i, v := range []float64{30, 10, 20} {
		m.samples = append(m.samples, pairOf{floor: sample{value: 40}, device: sample{value: v, lost: float64(i) / 50}})
	}
	r := m.report(Machine{CPU: "a processor", CPUs: []int{0, 1}, Kernel: "Linux 6", Go: "go1"})
	assert.Equal(t, 1, r.Disturbed)
	var s strings.Builder
	require.NoError(t, r.Print(&s))
	assert.Equal(t, `# machine: a processor, 2 cores, Linux 6, go1
# cores: client 0, engine 1 (embedded)
# runs of 10 operations, 4 in flight, 2 for each doorbell; moved bytes were compared
# measured; each run after one of the floor, ratio = nicless / floor run by run
# disturbed by other programs, over 2% of the time, by a floor that moved by 25%, or by a busy sibling: 0 runs were repeated; 1 of the runs below
peer=floor op=stream_wqe_sge_memcpy_cqe_db2_depth4 bytes=8 metric=rate_Mops value=40.00 min=40.00 max=40.00 runs=3
peer=nicless op=read bytes=8 metric=rate_Mops value=20.00 min=10.00 max=30.00 runs=3
peer=nicless op=read bytes=8 metric=ratio value=0.50 min=0.25 max=0.75 runs=3
`, s.String())

	s.Reset()
	require.NoError(t, r.PrintJSON(&s))
	var back Report
	require.NoError(t, json.Unmarshal([]byte(s.String()), &back))
	assert.Equal(t, *r, back)
}
