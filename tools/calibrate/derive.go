//go:build linux && (amd64 || arm64)

package calibrate

import (
	"slices"

	"github.com/nicless/nicless/tools/quantile"
)

// prices returns the rows that prices are derived from.
func prices(hit, llc, dram *loads) []row {
	return []row{
		{name: Handover, shape: sameLine},
		{name: "word out, line back", shape: wordOutLineBack},
		{name: "line ahead", shape: lineAhead},
		{name: "chain of 2", shape: chain(2)},
		{name: "chain of 6", shape: chain(6)},
		{name: "block of 16", shape: block(16)},
		{name: "block of 64", shape: block(64)},
		{name: "adding together", shape: adding(true)},
		{name: "adding apart", shape: adding(false)},
		{name: "copy of 1", shape: copies(64)},
		{name: "copy of 64", shape: copies(4096)},
		{name: Hit, alone: hit.run},
		{name: LLCLoad, before: llc.touch, alone: llc.run},
		{name: DRAMLoad, alone: dram.run},
	}
}

// allRows returns the rows of a round. Prices and floors alternate, so that both see the machine at
// the same time.
func allRows(prices, floors []row) []row {
	list := []row{{name: firstRow, shape: eachWay}}
	for i := range max(len(prices), len(floors)) {
		if i < len(floors) {
			list = append(list, floors[i])
		}
		if i < len(prices) {
			list = append(list, prices[i])
		}
	}
	return append(list, row{name: lastRow, shape: eachWay})
}

// derive returns the prices of a round.
func (r round) derive() map[string]float64 {
	t, read := r.first, r.second
	each := (t[firstRow] + t[lastRow]) / 2
	p := map[string]float64{
		Signal:    each / 2,
		Handover:  t[Handover] / 2,
		Post:      t["word out, line back"] - each/2,
		Data:      t["line ahead"] - each,
		Chase:     (read["chain of 6"] - read["chain of 2"]) / 4,
		Next:      (read["block of 64"] - read["block of 16"]) / 48,
		WriteNext: (t["block of 64"] - t["block of 16"]) / 48,
		Atomic:    (t["adding together"] - t["adding apart"]) / 2,
		Copy:      (t["copy of 64"] - t["copy of 1"]) / 63,
		Hit:       t[Hit], LLCLoad: t[LLCLoad], DRAMLoad: t[DRAMLoad],
	}
	p[LinesInFlight] = p[Chase] / p[Next]
	return p
}

// counting returns the rounds that count: those that were not disturbed. If fewer than a quarter
// are left, or fewer than three, all count.
func counting(all []round) (list []round, dropped int, disturbed bool) {
	for _, r := range all {
		if !r.disturbed {
			list = append(list, r)
		}
	}
	dropped = len(all) - len(list)
	if len(list) < 3 || 4*len(list) < len(all) {
		return all, 0, true
	}
	return list, dropped, 2*dropped > len(all)
}

// sample returns the median and the quartiles of some values. The slice stays as it is.
func sample(name, note string, values []float64) Sample {
	v := slices.Clone(values)
	slices.Sort(v)
	return Sample{
		Name: name, Median: quantile.Between(v, 0.5), Low: quantile.Between(v, 0.25),
		High:   quantile.Between(v, 0.75),
		Rounds: len(v), Note: note,
	}
}
