package costs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOracleOnTraces lets Pricer and oracle go through random traces on all presets. After each access, they
// agree about the state of each line and about the messages that have been sent.
func TestOracleOnTraces(t *testing.T) {
	for _, preset := range builtins(t) {
		rapid.Check(t, func(t *rapid.T) {
			p := elsewhere(t, preset)
			trace := anyTrace(t, 60, 1, false)
			pricer := NewPricer(p, trace.Regions)
			lines := map[model.Line]*machine{}
			sent := map[string]float64{}
			for _, a := range trace.Accesses {
				require.NoError(t, pricer.Add(model.Access{Seq: a.Seq, Who: a.Who, Op: a.Op, Kind: a.Kind, Why: a.Why, Line: a.Line, N: a.N}))
				switch {
				case a.Op == model.Work, a.Kind == model.Key:
					continue
				case p.Fabric.Bells && a.Kind == model.UAR && a.Why == model.Once && a.Op == model.Store:
					continue // the signal before it stands for it
				}
				reqs, err := p.choose(&a)
				require.NoError(t, err)
				for i := range a.N {
					line := model.Line{Region: a.Line.Region, Index: a.Line.Index + i}
					m := lines[line]
					if m == nil {
						s := pricer.fresh(trace.Regions[line.Region])
						m = &machine{fabric: p.Fabric, home: s.Home, bias: s.Bias}
						lines[line] = m
					}
					for _, req := range reqs {
						newest := m.newest
						got := m.do(a.Who, req)
						if got.read != -1 {
							require.Equal(t, newest, got.read)
						}
						for _, name := range got.msgs {
							sent[name]++
						}
					}
					require.Equal(t, m.state(), pricer.lines[line], "%s: %v", p.Name, a)
				}
				require.Equal(t, sent, pricer.count, "%s: %v", p.Name, a)
			}
		})
	}
}

// elsewhere draws other places for the structures, other requests of the device, and prices that only lines
// of one kind have.
func elsewhere(t *rapid.T, p *Preset) *Preset {
	place, request := map[string]string{}, map[string]string{}
	for _, s := range model.StructureNames() {
		place[s] = rapid.SampledFrom(p.Fabric.Homes).Draw(t, s).String()
	}
	if len(p.Fabric.Reads) > 0 {
		for _, kind := range model.KindNames() {
			request[kind+".load"] = rapid.SampledFrom(p.Fabric.Reads).Draw(t, kind+".load").String()
			request[kind+".store"] = rapid.SampledFrom(p.Fabric.Writes).Draw(t, kind+".store").String()
		}
	}
	c, err := p.With(place, request, nil)
	require.NoError(t, err)
	for _, kind := range model.KindNames() {
		for _, why := range model.WhyNames() {
			delete(c.Request, kind+"."+why) // which would come before those drawn
		}
	}
	special := map[string]Quantity{}
	for range rapid.IntRange(0, 4).Draw(t, "prices of a kind") {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(c.Price))).Draw(t, "price")
		if !strings.Contains(name, ".") && !slices.Contains(always, name) {
			v := rapid.Float64Range(0, 900).Draw(t, "ns")
			special[name+"."+rapid.SampledFrom(model.KindNames()).Draw(t, "kind")] = Quantity{Value: v, Low: v / 2, High: v * 2, Trust: Inferred, Source: "drawn"}
		}
	}
	c, err = c.WithPrices(c.Name, special)
	require.NoError(t, err)
	return c
}
