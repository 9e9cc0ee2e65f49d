package costs

import (
	"maps"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A link that costs nothing makes a CXL device a core of the host, under exactly these conditions.
//
//   - The device uses its cache as a core does: CS-read for all loads, CO-write for all stores. With
//     non-cacheable requests it asks the host each time it polls, and the host's stores need no upgrade:
//     other paths, whatever the link costs.
//   - link = 0 and forward = 0: a core's price of a miss does not tell modified lines from others.
//   - device = answer = hit: the device's cache is as fast as a core's.
//   - The preset of cores has miss = data = upgrade = llc_load = agent + hit, and dram_load = agent + dram.
//   - The host touches each line before the device does. A core that is the first gets the line E, and
//     CS-read gets it S.
//   - Blocks have one line: a core divides the price of further lines by those in flight, a device pays
//     next_read.
//   - Each access waits for the one before, or the device stores nothing while another store of its own is
//     under way: D2H writes are not ordered, and no price changes that. In Loopback it costs one upgrade for
//     each completion.
func zeroLink(t require.TestingT, hit, agent, dram, work float64) (cxl, local *Preset) {
	cached := map[string]string{}
	for _, kind := range model.KindNames() {
		cached[kind+".load"], cached[kind+".store"] = "CS-read", "CO-write"
	}
	fpga, err := Builtin("cxl1-fpga")
	require.NoError(t, err)
	cxl, err = fpga.With(nil, cached, nil)
	require.NoError(t, err)
	for key := range cxl.Request {
		if cached[key] == "" {
			delete(cxl.Request, key)
		}
	}
	local, err = Builtin("local-xeon")
	require.NoError(t, err)
	set := func(p *Preset, prices map[string]float64) *Preset {
		c := *p
		c.Price = maps.Clone(p.Price)
		for name, ns := range prices {
			require.Contains(t, c.Price, name)
			c.Price[name] = Quantity{Value: ns, Low: ns, High: ns, Source: "the law"}
		}
		return &c
	}
	miss := agent + hit
	return set(cxl, map[string]float64{"hit": hit, "device": hit, "answer": hit, "agent": agent, "dram": dram, "link": 0, "forward": 0,
			"host_work": work, "device_work": work, "loads_in_flight": 10, "stores_in_flight": 10}),
		set(local, map[string]float64{"hit": hit, "miss": miss, "data": miss, "upgrade": miss, "llc_load": miss, "dram_load": agent + dram,
			"host_work": work, "device_work": work, "loads_in_flight": 10, "stores_in_flight": 10})
}

// serialTrace draws a trace of host and device in which each access waits for the one before, and the host
// touches each line first.
func serialTrace(t *rapid.T) model.Trace {
	trace := model.Trace{Regions: map[string]model.Structure{"a": model.SQ}}
	touched := map[int]bool{}
	count := rapid.IntRange(1, 40).Draw(t, "accesses")
	for seq := 1; seq <= count; seq++ {
		a := model.Access{Seq: seq, Who: rapid.SampledFrom([]model.Agent{model.Host, model.Dev}).Draw(t, "who"), N: 1, Kind: model.WQE,
			Op: rapid.SampledFrom([]model.Op{model.Load, model.Store, model.Work}).Draw(t, "op"), Line: model.Line{Region: "a", Index: rapid.IntRange(0, 3).Draw(t, "index")}}
		why := []model.Why{model.Poll, model.Follow, model.Stream, model.Prefetch}
		if a.Op == model.Store {
			why = []model.Why{model.Signal, model.Once, model.Stream, model.Complete}
		}
		a.Why = rapid.SampledFrom(why).Draw(t, "why")
		if a.Op != model.Work {
			if !touched[a.Line.Index] {
				a.Who = model.Host
			}
			touched[a.Line.Index] = true
		}
		if seq > 1 {
			a.After = []int{seq - 1}
		}
		trace.Accesses = append(trace.Accesses, a)
	}
	return trace
}

func TestZeroLinkIsLocal(t *testing.T) {
	price := rapid.Float64Range(0, 500)
	rapid.Check(t, func(t *rapid.T) {
		cxl, local := zeroLink(t, price.Draw(t, "hit"), price.Draw(t, "agent"), price.Draw(t, "dram"), price.Draw(t, "work"))
		trace := serialTrace(t)
		a, b := spansOf(t, cxl, trace, nominal), spansOf(t, local, trace, nominal)
		for i := range a {
			require.InDelta(t, b[i].Begin, a[i].Begin, tiny, "%v", trace.Accesses[i])
			require.InDelta(t, b[i].End, a[i].End, tiny, "%v", trace.Accesses[i])
		}
	})

	// Loopback: the device's completion waits until the payload is acknowledged.
	const hit, agent, dram = 5, 52, 70
	cxl, local := zeroLink(t, hit, agent, dram, 100)
	latency := func(p *Preset) float64 {
		trace, err := Loopback(64, 6)
		require.NoError(t, err)
		r, err := Run(p, trace, Options{Warm: 2, Until: model.Dev})
		require.NoError(t, err)
		return r.Latency.NS
	}
	require.InDelta(t, latency(local)+agent+hit, latency(cxl), tiny)

	// The conditions are necessary: a link that costs something, or non-cacheable requests, and the law does
	// not hold.
	far := priced(cxl, "link", 0, 1)
	require.Greater(t, latency(far), latency(cxl)+tiny)
	nc := *cxl
	nc.Request = nil
	require.NotEqual(t, latency(cxl), latency(&nc))
}
