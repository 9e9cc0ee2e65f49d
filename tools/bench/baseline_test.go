package bench

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func tableOf(rows ...Row) *Table { return &Table{Machine: Machine{CPU: "some"}, Rows: rows} }

func ratioRow(name, unit, target string, ratios ...float64) Row {
	return Row{Name: name, Unit: unit, Target: target, Values: *newSpread([]float64{100, 200}), Floors: newSpread([]float64{1}), Ratios: newSpread(ratios)}
}

func valueRow(name, unit string, values ...float64) Row {
	return Row{Name: name, Unit: unit, Target: "<= 1 " + unit, Values: *newSpread(values)}
}

// A row counts as changed only if the two spreads do not touch. Whether more or less is better
// depends on the row.
func TestChanges(t *testing.T) {
	old := tableOf(
		ratioRow("lat", "ns", "<= 1 x floor", 1.2, 1.3, 1.4), ratioRow("rate", "Mops", ">= 1 x floor", 0.5, 0.6),
		valueRow("us", "us", 700, 710), valueRow("noise", "us", 10, 20), valueRow("once", "us", 10), valueRow("left", "us", 1, 2))
	now := tableOf(
		ratioRow("rate", "Mops", ">= 1 x floor", 0.4, 0.3), ratioRow("lat", "ns", "<= 1 x floor", 1.1, 1.0),
		valueRow("us", "us", 711, 720), valueRow("noise", "us", 20, 30), valueRow("once", "us", 20), valueRow("came", "us", 1, 2))
	var b bytes.Buffer
	require.NoError(t, old.PrintJSON(&b))
	old, err := ReadTable(&b)
	require.NoError(t, err)
	got := map[string]string{}
	for _, c := range now.Compare(old) {
		got[c.Name] = c.Verdict()
	}
	require.Equal(t, map[string]string{
		"rate": "worse", "lat": "better", "us": "worse", "noise": "within the spread", "once": "one sample", "came": "new", "left": "not measured",
	}, got)
	b.Reset()
	require.NoError(t, now.PrintChanges(&b, old))
	require.Regexp(t, `lat +x floor +1\.30 \(1\.20\.\.1\.40\) +1\.10 \(1\.00\.\.1\.10\) +-15\.4% +better`, b.String())
	require.NotContains(t, b.String(), "another machine")
	old.Machine.CPU = "other"
	b.Reset()
	require.NoError(t, now.PrintChanges(&b, old))
	require.Contains(t, b.String(), "another machine")
}

// Ratios to different floors are not compared, even if the rows have the same name.
func TestChangeOfTheFloor(t *testing.T) {
	old, now := tableOf(ratioRow("lat", "ns", "<= 1 x floor", 1, 1.1)), tableOf(ratioRow("lat", "ns", "<= 1 x floor", 2, 2.1))
	old.Rows[0].Floor, now.Rows[0].Floor = "this", "that"
	changes := now.Compare(old)
	require.Len(t, changes, 2)
	require.Equal(t, "new", changes[0].Verdict())
	require.Equal(t, "not measured", changes[1].Verdict())
}

func TestNotATable(t *testing.T) {
	for text, want := range map[string]string{
		"": "not a table", "[]": "not a table", "{}": "no rows", `{"rows":[{"name":"x"}]}`: `"x"`,
		`{"rows":[{"name":"x","values":{"samples":[1]},"ratios":{}}]}`: "no samples",
	} {
		_, err := ReadTable(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

// The plots hold every curve by name, and say where the peers' figures are from.
func TestPlots(t *testing.T) {
	p, err := readPeers()
	require.NoError(t, err)
	swept := tableOf()
	for i, g := range sweeps {
		r := newRow(g.rows[0], []pairOf{{device: sample{value: 300 + float64(i)}, floor: sample{value: 200}}}, 0)
		require.Equal(t, "-", r.Verdict())
		swept.Rows = append(swept.Rows, r)
	}
	for _, plot := range []struct {
		write func(io.Writer) error
		peers []curve
		ticks []string
	}{
		{swept.PlotLatency, p.Latency, []string{">8<", ">64K<", "nicless"}},
		{swept.PlotRate, p.Rate, []string{">1<", ">64<", "nicless"}},
	} {
		var b bytes.Buffer
		require.NoError(t, plot.write(&b))
		svg := b.String()
		require.Contains(t, svg, "<svg")
		require.Contains(t, svg, "floor of the same two cores")
		require.Contains(t, svg, p.Machine)
		require.NotContains(t, svg, "NaN")
		require.NotContains(t, svg, "Inf", "an axis without a range")
		require.NotEmpty(t, plot.peers)
		for _, c := range plot.peers {
			require.Contains(t, svg, c.Name)
		}
		for _, tick := range plot.ticks {
			require.Contains(t, svg, tick)
		}
	}
	require.ErrorContains(t, tableOf().PlotRate(io.Discard), "0 rows")
}
