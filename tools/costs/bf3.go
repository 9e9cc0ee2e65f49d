package costs

import "github.com/nicless/nicless/model"
import "strconv"

// bf3Rows compares with BlueField-3 and with throughput. The notes give what a transfer costs against a DMA
// job, and which part of a loopback is PCIe; these rows are arithmetic on such figures.
func bf3Rows() ([]Row, error) {
	// Reductions by CXL.cache against DOCA: write of payload, read of payload, read of a descriptor, write of
	// a completion, signal.
	ops := []float64{0.69, 0.81, 0.85, 0.82, 0.29}
	// The cost of each over PCIe, if CXL operations cost as much as the presets say.
	p, err := Builtin("cxl1-fpga")
	if err != nil {
		return nil, err
	}
	trust := Secondary.String() // of the notes' figures, and of the prices
	sum := func(names ...string) (ns float64) {
		for _, n := range names {
			ns += p.Price[n].Value
			trust = weaker(trust, p.Price[n].Trust.String())
		}
		return ns
	}
	read, write := sum(fromCore...), sum(fromLLC...)
	cxl := []float64{write, read, read, write, read}
	mean, weighted, over := 0.0, 0.0, 0.0
	for i, cut := range ops {
		mean += cut / float64(len(ops))
		pcie := cxl[i] / (1 - cut)
		weighted += pcie * cut
		over += pcie
	}
	weighted /= over
	rows := []Row{
		{ID: "bf3 median", What: "type 1 loopback against BlueField-3, 64 B: PCIe's share 52 %, reductions weighted by cost", Measured: -46, Predicted: -52 * weighted, Tolerance: 2.5, Role: Arithmetic,
			Note: "the rest is outside the interconnect, or in how the share was measured"},
		{ID: "bf3 equal", What: "the same, all reductions weighted equally", Measured: -46, Predicted: -52 * mean, Tolerance: 2.5, Role: Arithmetic},
		{ID: "bf3 1500", What: "share 45 %, 1500 B, weighted by cost", Measured: -46, Predicted: -45 * weighted, Tolerance: 2.5, Role: Arithmetic, Note: "the size of the -46 % is not stated"},
		{ID: "bf3 ceiling", What: "the same if CXL operations cost nothing, 64 B", Predicted: -52, Tolerance: 2.5, Role: Arithmetic, Note: "a limit, no prediction: nothing to compare"},
		{ID: "bf3 ceiling 1500", What: "the same at 1500 B", Predicted: -45, Tolerance: 2.5, Role: Arithmetic, Note: "a limit, no prediction: nothing to compare"},
		{ID: "tx batch 32", What: "part of the full rate with batches of 32, from 31 % without batches", Measured: 88, Predicted: batched(31, 1, 32), Tolerance: 7.5, Role: Arithmetic},
		{ID: "rx batch 1", What: "part of the full rate without batches, from 95 % with batches of 8", Measured: 0, Predicted: batched(95, 8, 1), Tolerance: 7.5, Role: Arithmetic, Note: "the notes have no value"},
	}
	for i := range rows {
		rows[i].Trust = Secondary.String()
		if rows[i].ID == "bf3 median" || rows[i].ID == "bf3 1500" {
			rows[i].Trust = trust
		}
	}
	prices, err := bf3Prices()
	if err != nil {
		return nil, err
	}
	rows = append(rows, prices...)
	for i := range rows {
		rows[i].Unit, rows[i].Low, rows[i].High = "%", rows[i].Predicted, rows[i].Predicted
	}
	return rows, nil
}

// bf3Prices compares a loopback on CXL, at several prices of a read of host memory, with one whose PCIe
// operations cost what preset pcie-asic says and are 52 % of the whole.
func bf3Prices() (rows []Row, err error) {
	pcie, err := Builtin("pcie-asic")
	if err != nil {
		return nil, err
	}
	ops, trust := 0.0, ""
	for _, name := range []string{"doorbell", "dma_read", "dma_read", "dma_write"} {
		ops, trust = ops+pcie.Price[name].Value, weaker(trust, pcie.Price[name].Trust.String())
	}
	for _, read := range []int{300, 400, 500, 750} {
		p, err := Builtin("cxl1-fpga")
		if err != nil {
			return nil, err
		}
		if p, err = p.With(nil, nil, map[string]string{"d2h_read_dram": strconv.Itoa(read)}); err != nil {
			return nil, err
		}
		r, err := Run(p, loopback(64, 6, true), Options{Warm: 4, Until: model.Dev})
		if err != nil {
			return nil, err
		}
		rows = append(rows,
			Row{ID: "bf3 at " + strconv.Itoa(read) + " ns",
				What:     "type 1 loopback with a tail record, from prices of a PCIe ASIC, if a read of host memory takes " + strconv.Itoa(read) + " ns",
				Measured: -46, Predicted: (r.Latency.NS/(ops/0.52) - 1) * 100, Tolerance: 2.5, Role: HeldOut,
				Trust: weaker(trust, r.Trust),
				Note:  "the sign depends on a number that nobody has published"})
	}
	return rows, nil
}

// batched returns the part of the full rate, in percent, with batches of n, if it is known with batches of
// other. A batch costs a fixed time and a time for each request.
func batched(known float64, other, n int) float64 {
	fixed := (100/known - 1) * float64(other)
	return 100 / (1 + fixed/float64(n))
}
