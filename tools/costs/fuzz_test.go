package costs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// FuzzPreset: there is a preset or an error that names the preset, and a preset can price a trace.
func FuzzPreset(f *testing.F) {
	for _, name := range Names() {
		text, err := presetFiles.ReadFile("presets/" + name + ".toml")
		require.NoError(f, err)
		f.Add(string(text))
	}
	for _, text := range []string{
		"about = 'a cycle'\nbase = 'fuzzed'",
		"about = 'a cycle of prices'\nbase = 'pcie-asic'\n[price.hit]\nof = 'device'\ntrust = 'I'\nsource = 'x'\n[price.device]\nof = 'hit'\ntrust = 'I'\nsource = 'x'",
		"about = 'absurd'\nbase = 'pcie-asic'\n[price.hit]\nns = 1e300\nrange = [nan, inf]\ntrust = 'I'\nsource = 'x'",
		"about = 'a request of another fabric'\nbase = 'cxl1-fpga'\nfabric = 'pcie'",
		"about = 'its base is in device bias'\nbase = 'cxl2-devbias'\nfabric = 'cxl.cache'",
		"about = 'no line in flight'\nbase = 'upi'\n[price.loads_in_flight]\nns = 0\ntrust = 'I'\nsource = 'x'",
	} {
		f.Add(text)
	}
	trace, err := Loopback(200, 2)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("fuzzed", []byte(text))
		var typed *PresetError
		switch {
		case err == nil && p == nil, err != nil && p != nil:
			t.Fatalf("preset %v and error %v", p, err)
		case err != nil && !errors.As(err, &typed):
			t.Fatalf("%v is a %T", err, err)
		case err != nil:
			return
		}
		for name, q := range p.Price {
			if q.check() != nil || q.Source == "" {
				t.Fatalf("price %s is %+v", name, q)
			}
		}
		if r, err := Run(p, trace, Options{}); err == nil && !(r.Latency.NS >= 0) {
			t.Fatalf("latency %v", r.Latency)
		}
	})
}

// anyTrace draws a trace that the rules of traces allow, of up to longest accesses that belong to up to
// requests work requests. If wild, accesses also break the rules of traces.
func anyTrace(t *rapid.T, longest, requests int, wild bool) model.Trace {
	trace := model.Trace{Regions: map[string]model.Structure{}}
	for s := range model.Structures {
		trace.Regions[s.String()] = s
	}
	seq, req := 0, 0
	n := rapid.IntRange(1, longest).Draw(t, "accesses")
	for i := range n {
		a := model.Access{
			Who: model.Agent(rapid.IntRange(0, int(model.Agents)-1).Draw(t, "who")),
			Op:  model.Op(rapid.IntRange(0, len(model.OpNames())-1).Draw(t, "op")),
			Why: model.Why(rapid.IntRange(0, len(model.WhyNames())-1).Draw(t, "why")),
			N:   rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "n"),
		}
		load := a.Op == model.Load
		switch {
		case !load && (a.Why == model.Poll || a.Why == model.Prefetch):
			a.Why = model.Signal // only loads poll and prefetch
		case load && (a.Why == model.Signal || a.Why == model.Complete):
			a.Why = model.Follow // only stores signal and complete
		}
		is := model.Structure(rapid.IntRange(0, int(model.Structures)-1).Draw(t, "structure"))
		a.Kind = [...]model.Kind{model.SQ: model.WQE, model.RQ: model.RxWQE, model.CQ: model.CQE, model.Records: model.Record, model.UARs: model.UAR, model.TxPayload: model.Payload, model.RxPayload: model.Payload, model.Keys: model.Key}[is]
		a.Line = model.Line{Region: is.String(), Index: rapid.IntRange(0, 2).Draw(t, "index")}
		for earlier := rapid.IntRange(-2, seq).Draw(t, "after"); earlier > 0; earlier = 0 {
			a.After = []int{earlier}
		}
		seq++
		if requests > 1 && req < requests-1 && i*requests > n*(req+1) {
			req++
		}
		a.Seq, a.Req = seq, req
		if wild {
			spoil(t, &a)
		}
		trace.Accesses = append(trace.Accesses, a)
	}
	return trace
}

// spoil makes an access that may break a rule of traces.
func spoil(t *rapid.T, a *model.Access) {
	v := rapid.SampledFrom([]int{-1 << 31, -1, 0, 1, 200, 1<<31 - 1}).Draw(t, "value")
	switch rapid.IntRange(0, 40).Draw(t, "spoilt") {
	case 0:
		a.Who = model.Agent(v)
	case 1:
		a.Op = model.Op(v)
	case 2:
		a.Kind = model.Kind(v)
	case 3:
		a.Why = model.Why(v)
	case 4:
		a.N = min(v, 1<<10)
	case 5:
		a.N = max(v, 1<<30)
	case 6:
		a.Line.Region = "nowhere"
	case 7:
		a.Line.Index = v
	case 8:
		a.After = append(a.After, v)
	case 9:
		a.Seq = v
	case 10:
		a.Req = v
	case 11:
		a.Bytes = v
	}
}

// builtins returns all presets that the package has.
func builtins(t require.TestingT) (all []*Preset) {
	for _, name := range Names() {
		p, err := Builtin(name)
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

// FuzzPricer: any trace has a report or an error on any preset.
func FuzzPricer(f *testing.F) {
	all := builtins(f)
	for i := range byte(4) {
		f.Add([]byte(strings.Repeat(fmt.Sprintf("%d trace of many accesses", i), 40)))
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		trace := anyTrace(t, 12, 3, true)
		o := Options{Warm: rapid.IntRange(-1, 2).Draw(t, "warm"), Until: model.Agent(rapid.IntRange(0, 2).Draw(t, "until"))}
		for _, p := range all {
			r, err := Run(p, trace, o)
			if (r == nil) == (err == nil) {
				t.Fatalf("%s: report %v and error %v", p.Name, r, err)
			}
		}
	}))
}
