package main

import (
	"testing"

	"github.com/nicless/nicless/tools/calibrate"
	"github.com/nicless/nicless/tools/costs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rounds returns what calibration measures in four rounds. In every second one the cores are far from each
// other, so that everything takes five times as long. Floors that are held out take slower times what the
// rules say.
func rounds(slower float64) *calibrate.Result {
	r := &calibrate.Result{Rounds: 4, Values: map[string][]float64{}}
	for _, far := range []float64{1, 5, 1, 5} {
		for name, ns := range map[string]float64{
			calibrate.Signal: 60, calibrate.Handover: 50, calibrate.Post: 60, calibrate.Data: 3, calibrate.Chase: 20, calibrate.Next: 2, calibrate.WriteNext: 4,
			calibrate.Hit: 1, calibrate.LLCLoad: 15, calibrate.DRAMLoad: 150,
			calibrate.EachWay: 120, calibrate.SameLine: 100, calibrate.PollWQE: slower * 120, calibrate.Doorbell: slower * 123, calibrate.TwoLines: slower * 126,
			calibrate.Memcpy + "/8": slower * 123.3, calibrate.Memcpy + "/64": slower * 123.3,
		} {
			r.Values[name] = append(r.Values[name], ns*far)
		}
	}
	return r
}

// Predictions are compared round by round, so it does not matter that rounds differ. A floor that takes
// longer than predicted is not reproduced.
func TestFloorsAreComparedRoundByRound(t *testing.T) {
	for _, slower := range []float64{1, 1.2} {
		rows, err := compareFloors(rounds(slower), 5)
		require.NoError(t, err)
		require.Len(t, rows, len(costs.Floors))
		for _, row := range rows {
			want, status := slower, costs.Reproduced
			if row.Role == costs.Calibration {
				want = 1
			} else if slower > 1 {
				status = costs.NotReproduced
			}
			assert.InEpsilon(t, want, row.Measured/row.Predicted, 0.01, row.ID)
			assert.Equal(t, status, row.Status, row.ID)
			assert.InEpsilon(t, row.Predicted, row.Low, 0.01, "all rounds agree: %s", row.ID)
		}
	}
}

// Prices of this machine are differences of what was measured, at the least 0, with quartiles as their range.
func TestPricesOfThisMachine(t *testing.T) {
	r := rounds(1)
	r.Values[calibrate.Data] = []float64{-1, 3, 4, 5}
	list := modelPrices(func(name string) []float64 { return r.Values[name] }, "")
	assert.Equal(t, costs.Quantity{Value: 200, Low: 40, High: 200, Trust: costs.Measured, Source: "nicless model calibrate: signal less chase"}, list["upgrade"])
	assert.Equal(t, 10.0, list["loads_in_flight"].Value)
	assert.Equal(t, 5.0, list["stores_in_flight"].Value)
	assert.Equal(t, []float64{3, 4, 5}, []float64{list["data"].Low, list["data"].Value, list["data"].High})
	r.Values[calibrate.Data] = []float64{-3, -2, -1, -1}
	list = modelPrices(func(name string) []float64 { return r.Values[name] }, "")
	assert.Zero(t, list["data"].Value)
	p, err := costs.Builtin("local-xeon")
	require.NoError(t, err)
	_, err = p.WithPrices("here", list)
	require.NoError(t, err)
}
