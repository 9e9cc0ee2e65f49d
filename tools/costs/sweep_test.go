package costs

import (
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
)

// A sweep prices as With and Run do, leaves presets alone that lack the price, and finds where the total of
// one passes that of the other.
func TestSweep(t *testing.T) {
	presets := fixed(t)[:2]
	trace, err := Loopback(64, 6)
	require.NoError(t, err)
	o := Options{Warm: 4, Until: model.Dev}
	s, err := RunSweep("loopback", presets, trace, o, "link", 0, 300, 50)
	require.NoError(t, err)
	require.Equal(t, []float64{0, 50, 100, 150, 200, 250, 300}, s.Values)
	far, err := presets[1].With(nil, nil, map[string]string{"link": "150"})
	require.NoError(t, err)
	r, err := Run(far, trace, o)
	require.NoError(t, err)
	require.Equal(t, r, s.Reports[1][3])
	require.Equal(t, s.Reports[0][0], s.Reports[0][6])

	require.Len(t, s.Crossings, 1)
	x := s.Crossings[0]
	at, err := presets[1].With(nil, nil, map[string]string{"link": digits(x.At, 9)})
	require.NoError(t, err)
	r, err = Run(at, trace, o)
	require.NoError(t, err)
	require.InDelta(t, s.Reports[0][0].Latency.NS, r.Latency.NS, 1e-3, "the totals are equal where the presets cross")
	require.InDelta(t, x.NS, r.Latency.NS, 1e-3)
	require.Contains(t, x.String(), "near and far cross at ")

	s, err = RunSweep("loopback", presets, trace, o, "link", 200, 300, 50)
	require.NoError(t, err)
	require.Equal(t, []string{"no two presets cross"}, s.crossings())
}

// A total that is equal at a value of the price, and not only between two, is one crossing.
func TestCrossingAtAValue(t *testing.T) {
	report := func(ns float64) *Report { return &Report{Latency: Figure{ns, ns, ns}} }
	s := &Sweep{Values: []float64{1, 2, 3}, Reports: [][]*Report{
		{report(10), report(20), report(30)}, {report(20), report(20), report(20)}}}
	s.cross()
	require.Len(t, s.Crossings, 1)
	require.Equal(t, 2.0, s.Crossings[0].At)
	require.True(t, s.Crossings[0].Certain)
}

func TestSweepRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"price.link":              "is not a price and its values",
		"=1:2:3":                  "is not a price and its values",
		"price.link=1:2":          "is not a price and its values",
		"price.link=1:x:2":        `price.link: "x" is not a number of 0..1e+09`,
		"price.link=-1:2:1":       `price.link: "-1" is not a number of 0..1e+09`,
		"price.link=0:2e10:1e9":   `price.link: "2e10" is not a number of 0..1e+09`,
		"price.link=0:NaN:1":      `price.link: "NaN" is not a number of 0..1e+09`,
		"price.link=300:100:50":   "are 0 values; 2..200 are possible",
		"price.link=100:100:50":   "are 1 values; 2..200 are possible",
		"price.link=100:200:0":    "are +Inf values",
		"price.link=0:1000:0.001": "are 1000001 values",
		"price.nothing=1:3:1":     "none of the presets has it",
	} {
		trace, err := Loopback(64, 6)
		require.NoError(t, err)
		price, low, high, step, err := ParseSweep(text)
		if err == nil {
			_, err = RunSweep("loopback", fixed(t), trace, Options{Warm: 4}, price, low, high, step)
		}
		require.ErrorContains(t, err, want, text)
	}
}
