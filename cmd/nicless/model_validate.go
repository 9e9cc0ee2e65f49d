package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nicless/nicless/tools/calibrate"
	"github.com/nicless/nicless/tools/costs"
	"github.com/nicless/nicless/tools/quantile"
	"github.com/spf13/cobra"
)

const modelValidateUsage = `Compares predictions of the model with what was measured: floors of two cores of
this machine, measured now and priced round by round; floors recorded on another
machine; and what notes of the paper on CXL-NIC (MICRO'25) report. docs/CXL.md
explains the rows and columns.

Usage:
  nicless model validate [flags]

Flags:
  --recorded      only the recorded values: nothing is measured
  --cores A,B     the two cores (default: the first two that are allowed)
  --json          print JSON

Example:
  nicless model validate
  nicless model validate --recorded --json
`

func newModelValidate() *cobra.Command {
	cores, recorded, asJSON := []int{-1, -1}, false, false
	c := &cobra.Command{
		Use:   "validate",
		Short: "compare the model with measurements",
		Long:  modelValidateUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			var rows []costs.Row
			if !recorded {
				o, err := calibrateOptions(cores)
				if err != nil {
					return err
				}
				if rows, err = localRows(c.Context(), o, 5); err != nil {
					return err
				}
			}
			known, err := costs.Validate()
			if err != nil {
				return err
			}
			return printRows(c.OutOrStdout(), append(rows, known...), asJSON)
		},
	}
	c.Flags().IntSliceVar(&cores, "cores", cores, "two cores")
	c.Flags().BoolVar(&recorded, "recorded", false, "measure nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printRows(w io.Writer, rows []costs.Row, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	if err := costs.WriteRows(w, rows); err != nil {
		return err
	}
	count, trusts := map[string]int{}, map[string]int{}
	for _, r := range rows {
		count[r.Status]++
		trusts[r.Trust]++
	}
	fmt.Fprintf(w, "\n%d rows: %d reproduced, %d direction only, %d not reproduced, %d without a value to compare\n",
		len(rows), count[costs.Reproduced], count[costs.DirectionOnly], count[costs.NotReproduced],
		count[costs.NoValue])
	var list []string
	for t := costs.Inferred; ; t-- { // the weakest first
		if n := trusts[t.String()]; n > 0 {
			list = append(list, fmt.Sprintf("%v in %d", t, n))
		}
		if t == 0 {
			break
		}
	}
	_, err := fmt.Fprintf(w, "weakest trust of the predictions: %s\n", strings.Join(list, ", "))
	return err
}

// localRows measures the floors of this machine, and compares each with what the prices of the same round
// predict. The tolerance is in percent.
func localRows(ctx context.Context, o calibrate.Options, tolerance float64) ([]costs.Row, error) {
	r, err := calibrate.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	return compareFloors(&r, tolerance)
}

// compareFloors returns rows whose figures are medians over rounds. They compare the ratio of
// prediction to measurement in each round, because a virtual machine's cores may be near each other in one
// round and far in the next.
func compareFloors(r *calibrate.Result, tolerance float64) ([]costs.Row, error) {
	base, err := costs.Builtin("local-xeon")
	if err != nil {
		return nil, err
	}
	var rows []costs.Row
	ratios := map[string][]float64{}
	for i := range r.Rounds {
		p, err := base.WithPrices("here",
			modelPrices(func(name string) []float64 { return r.Values[name][i : i+1] }, ""))
		if err != nil {
			return nil, err
		}
		measured := map[string]float64{}
		for _, f := range costs.Floors {
			measured[f.Name] = r.Values[f.Name][i]
		}
		if rows, err = costs.FloorRows(p, measured, tolerance); err != nil {
			return nil, err
		}
		for _, row := range rows {
			ratios[row.ID] = append(ratios[row.ID], row.Predicted/row.Measured)
		}
	}
	for i := range rows {
		row := &rows[i]
		list := slices.Sorted(slices.Values(ratios[row.ID]))
		row.Measured = median(r.Values[strings.TrimPrefix(row.ID, "here ")])
		row.Predicted = row.Measured * quantile.Rank(list, 0.5)
		row.Low, row.High = row.Measured*quantile.Rank(list, 0.25), row.Measured*quantile.Rank(list, 0.75)
		row.SetStatus()
	}
	return rows, nil
}
