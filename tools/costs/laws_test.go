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

// Laws that hold whatever the prices are. A trace whose accesses all belong to one request begins at 0 on all
// presets, so that its latency is the time at which its last access ends. The requests of other traces begin
// when the one before lets them, so laws about their latency hold only if one request follows the other, as
// in Loopback.

// priced returns a copy of p in which a price is multiplied by factor and increased by plus.
func priced(p *Preset, name string, factor, plus float64) *Preset {
	c := *p
	c.Price = maps.Clone(p.Price)
	q := c.Price[name]
	q.Value, q.Low, q.High = q.Value*factor+plus, q.Low*factor+plus, q.High*factor+plus
	c.Price[name] = q
	return &c
}

// spansOf prices a trace and returns the spans.
func spansOf(t require.TestingT, p *Preset, trace model.Trace, l level) []Span {
	m := newPricer(p, trace.Regions, l)
	for _, a := range trace.Accesses {
		require.NoError(t, m.Add(a))
	}
	return m.spans
}

// onEach calls law with each preset, with structures in places of any kind, and a random trace that it can
// price.
func onEach(t *testing.T, longest, requests int, law func(t *rapid.T, p *Preset, trace model.Trace)) {
	for _, preset := range builtins(t) {
		rapid.Check(t, func(t *rapid.T) {
			p := elsewhere(t, preset)
			trace := anyTrace(t, longest, requests, false)
			if p.Fabric == pcie {
				for i := range trace.Accesses {
					if a := &trace.Accesses[i]; a.Who == model.Dev && a.Op == model.Flush {
						a.Op = model.Store // the device has no cache
					}
				}
			}
			law(t, p, trace)
		})
	}
}

const tiny = 1e-6 // what floating point may lose

// More of a price makes no access end earlier. More lines in flight make none end later.
func TestMorePriceNeverShortensAPath(t *testing.T) {
	onEach(t, 25, 3, func(t *rapid.T, p *Preset, trace model.Trace) {
		before := spansOf(t, p, trace, nominal)
		factor := rapid.Float64Range(1, 10).Draw(t, "factor")
		plus := rapid.Float64Range(0, 1000).Draw(t, "plus")
		for name := range p.Price {
			after := spansOf(t, priced(p, name, factor, plus), trace, nominal)
			for i := range after {
				d := after[i].End - before[i].End
				if strings.HasSuffix(name, "_in_flight") {
					d = -d
				}
				if d < -tiny*(1+before[i].End) {
					t.Fatalf("%s: %s times %v plus %v: %v ends at %v instead of %v", p.Name, name, factor, plus, trace.Accesses[i], after[i].End, before[i].End)
				}
			}
		}
	})
	for _, p := range builtins(t) {
		for _, bytes := range sizes {
			trace, err := Loopback(bytes, 6)
			require.NoError(t, err)
			o := Options{Warm: 4, Until: model.Dev}
			before, err := Run(p, trace, o)
			require.NoError(t, err)
			for name := range p.Price {
				after, err := Run(priced(p, name, 1.5, 10), trace, o)
				require.NoError(t, err)
				if strings.HasSuffix(name, "_in_flight") {
					before, after = after, before
				}
				require.GreaterOrEqual(t, after.Latency.NS, before.Latency.NS-tiny, "%s: %s", p.Name, name)
				if strings.HasSuffix(name, "_in_flight") {
					before = after
				}
			}
		}
	}
}

// The messages of a trace depend on its rules, and on no price.
func TestMessagesDoNotDependOnPrices(t *testing.T) {
	onEach(t, 25, 2, func(t *rapid.T, p *Preset, trace model.Trace) {
		before, err := Run(p, trace, Options{})
		require.NoError(t, err)
		c := *p
		c.Price = maps.Clone(p.Price)
		for name := range sorted(p.Price) {
			v := rapid.Float64Range(0, 1e6).Draw(t, name)
			c.Price[name] = Quantity{Value: v, Low: v / 2, High: v * 2, Source: "drawn"}
		}
		after, err := Run(&c, trace, Options{})
		require.NoError(t, err)
		require.Equal(t, before.Messages, after.Messages)
	})
}

// Pricing a trace twice gives the same, and so does pricing it in two parts.
func TestPricingInParts(t *testing.T) {
	onEach(t, 25, 3, func(t *rapid.T, p *Preset, trace model.Trace) {
		l := level(rapid.IntRange(0, 2).Draw(t, "level"))
		whole := newPricer(p, trace.Regions, l)
		require.NoError(t, whole.Add(trace.Accesses...))
		for cut := range trace.Accesses {
			parts := newPricer(p, trace.Regions, l)
			require.NoError(t, parts.Add(trace.Accesses[:cut]...))
			require.NoError(t, parts.Add(trace.Accesses[cut:]...))
			require.Equal(t, whole, parts)
		}
		r, err := Run(p, trace, Options{})
		require.NoError(t, err)
		again, err := Run(p, trace, Options{})
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

// The critical path has no gaps: each span begins when the one that it waited for ends, and its prices are
// the time between. So the steps of a report sum to the latency, and their parts to the steps.
func TestStepsSumToLatency(t *testing.T) {
	onEach(t, 25, 3, func(t *rapid.T, p *Preset, trace model.Trace) {
		spans := spansOf(t, p, trace, nominal)
		for i := range spans {
			s := &spans[i]
			begin := 0.0
			if s.from >= 0 {
				require.Less(t, s.from, i)
				begin = spans[s.from].End
			}
			require.InDelta(t, begin, s.Begin, tiny, "%s: %v", p.Name, s.Access)
			for name := range s.Parts {
				require.True(t, s.Op == model.Work || !p.has(name+"."+s.Kind.String()), "%s: %v pays the general price %s", p.Name, s.Access, name)
			}
			require.InDelta(t, s.End-s.Begin, sum(s.Parts), tiny*(1+s.End), "%s: %v has %v", p.Name, s.Access, s.Parts)
		}
		r, err := Run(p, trace, Options{Until: model.Agent(rapid.IntRange(0, 2).Draw(t, "until"))})
		require.NoError(t, err)
		total := 0.0
		for _, step := range r.Steps {
			total += step.NS
			require.InDelta(t, step.NS, sum(step.Parts), tiny*(1+step.NS), step.Name)
		}
		require.InDelta(t, r.Latency.NS, total, tiny*(1+total))
	})
}

func sum(parts map[string]float64) (total float64) {
	for _, ns := range parts {
		total += ns
	}
	return total
}

// The range of a latency contains it.
func TestRangeContainsLatency(t *testing.T) {
	check := func(t require.TestingT, p *Preset, trace model.Trace, o Options) {
		r, err := Run(p, trace, o)
		require.NoError(t, err)
		require.LessOrEqual(t, r.Latency.Low, r.Latency.NS+tiny, p.Name)
		require.LessOrEqual(t, r.Latency.NS, r.Latency.High+tiny, p.Name)
	}
	onEach(t, 40, 1, func(t *rapid.T, p *Preset, trace model.Trace) {
		check(t, p, trace, Options{Until: model.Agent(rapid.IntRange(0, 2).Draw(t, "until"))})
	})
	for _, p := range builtins(t) {
		for _, bytes := range []int{1, 64, 65, 1500, 4096, 1 << 16} {
			trace, err := Loopback(bytes, 6)
			require.NoError(t, err)
			for until := range model.Agents {
				check(t, p, trace, Options{Warm: 4, Until: until})
			}
		}
	}
}

// The costs of receive structures and transmit structures in device memory add up: the layouts of the
// paper differ only in accesses that follow each other on the path.
func TestLayoutsAdd(t *testing.T) {
	for _, bytes := range []int{64, 1500, 4096} {
		l1, err := design{preset: "cxl2-fpga"}.loop(bytes, "", nominal)
		require.NoError(t, err)
		extra := func(place map[string]string) float64 {
			r, err := design{preset: "cxl2-fpga", place: place}.loop(bytes, "", nominal)
			require.NoError(t, err)
			return (r.Latency.NS/l1.Latency.NS - 1) * 100
		}
		rx, tx, both := extra(rxInNIC), extra(txInNIC), extra(inNIC)
		t.Logf("%d B: %+.2f and %+.2f %%, together %+.2f %%", bytes, rx, tx, both)
		require.Positive(t, rx)
		require.Positive(t, tx)
		require.InDelta(t, rx+tx, both, 0.01, "%d B, in points", bytes)
	}
}

// Each number of each preset says where it comes from. Without, it is no preset.
func TestEveryNumberHasTrustAndSource(t *testing.T) {
	n := 0
	for _, p := range builtins(t) {
		for name, q := range p.Price {
			require.NotEmpty(t, strings.TrimSpace(q.Source), "%s: %s", p.Name, name)
			require.Less(t, int(q.Trust), len(trustLetters), "%s: %s", p.Name, name)
		}
		text, err := presetFiles.ReadFile("presets/" + p.Name + ".toml")
		require.NoError(t, err)
		lines := strings.SplitAfter(string(text), "\n")
		price, at := "", 0
		for i, line := range lines {
			if name, ok := strings.CutPrefix(line, "[price."); ok {
				price, at = strings.Trim(strings.TrimSpace(name), `]"`), i+1
			}
			key, _, _ := strings.Cut(line, " ")
			if key != "trust" && key != "source" {
				continue
			}
			without := slices.Clone(lines)
			without[i] = "\n"
			_, err := Parse(p.Name, []byte(strings.Join(without, "")))
			var typed *PresetError
			require.ErrorAs(t, err, &typed, "%s: price.%s without %s", p.Name, price, key)
			require.Equal(t, PresetError{p.Name, at, "price." + price + "." + key, typed.Err}, *typed)
			n++
		}
	}
	require.Greater(t, n, 200)
}
