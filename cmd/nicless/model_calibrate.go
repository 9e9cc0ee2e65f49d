package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nicless/nicless/tools/calibrate"
	"github.com/nicless/nicless/tools/costs"
	"github.com/nicless/nicless/tools/quantile"
	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
)

const modelCalibrateUsage = `Measures in two seconds what cache lines cost between two cores of this machine,
and keeps the prices for the preset local-measured.

Usage:
  nicless model calibrate [flags]

Flags:
  --cores A,B     the two cores (default: the first two that are allowed)
  --output FILE   write the preset there, not to the user's cache folder

Example:
  nicless model calibrate
  nicless model calibrate --cores 0,2 --output far-cores.toml
`

func newModelCalibrate() *cobra.Command {
	cores, output := []int{-1, -1}, ""
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "measure the prices of this machine",
		Long:  modelCalibrateUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := calibrateOptions(cores)
			if err != nil {
				return err
			}
			return calibrateModel(c.Context(), c.OutOrStdout(), o, output)
		},
	}
	c.Flags().IntSliceVar(&cores, "cores", cores, "two cores")
	c.Flags().StringVar(&output, "output", "", "file to write to")
	_ = c.MarkFlagFilename("output", "toml")
	return c
}

func calibrateOptions(cores []int) (o calibrate.Options, err error) {
	if len(cores) != 2 {
		return o, usagef("such as --cores 0,1", "--cores: %d numbers and not 2", len(cores))
	}
	return calibrate.Options{Cores: [2]int(cores)}, nil
}

// calibrateModel measures, and writes the preset.
func calibrateModel(ctx context.Context, stdout io.Writer, o calibrate.Options, output string) error {
	r, err := calibrate.Run(ctx, o)
	if err != nil {
		return err
	}
	text, err := calibrated(&r, time.Now())
	if err == nil {
		_, err = costs.Parse(localMeasured, text) // a measurement may give what no price can be
	}
	if err != nil {
		return fmt.Errorf("calibrate: %w; repeat it", err)
	}
	if output == "" {
		if output, err = calibratedPath(); err == nil {
			err = os.MkdirAll(filepath.Dir(output), 0o755)
		}
	}
	if err == nil {
		err = replaceFile(output, text)
	}
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	fmt.Fprintf(stdout, "# %s, %d rounds", r.Machine, r.Rounds)
	if r.Disturbed {
		fmt.Fprint(stdout, ", disturbed by other programs: repeat when it is quiet")
	}
	fmt.Fprintln(stdout)
	for _, s := range r.Prices {
		unit := "ns"
		if s.Name == calibrate.LinesInFlight {
			unit = "lines"
		}
		fmt.Fprintf(stdout, "%-16s %7.1f %-5s (%.1f..%.1f)  %s\n", s.Name, s.Median, unit, s.Low, s.High, s.Note)
	}
	fmt.Fprintf(stdout, "# preset local-measured is in %s\n", output)
	return nil
}

// replaceFile writes a file so that readers see the old text or the new one. A file that is not an ordinary
// one is written in place.
func replaceFile(path string, text []byte) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, text, 0o644)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".calibrate-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// calibratedPath returns where the preset of this machine is kept.
func calibratedPath() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "nicless", localMeasured+".toml"), err
}

const localMeasured = "local-measured"

// builtinPreset returns the preset of that name. For local-measured that is the one of this machine, if it
// has been calibrated.
func builtinPreset(name string) (*costs.Preset, error) {
	if name == localMeasured {
		return localPreset()
	}
	return costs.Builtin(name)
}

// localPreset returns the preset of this machine, if it has been calibrated, or that of the machine where the
// package's preset was recorded.
func localPreset() (*costs.Preset, error) {
	path, err := calibratedPath()
	if err != nil {
		return costs.Builtin(localMeasured) // there is no home
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return costs.Builtin(localMeasured)
	}
	if err != nil {
		return nil, err
	}
	p, err := costs.Parse(localMeasured, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; nicless model calibrate writes it anew", path, err)
	}
	return p, nil
}

// A measuredPrice is a price in the file of a preset.
type measuredPrice struct {
	NS     float64   `toml:"ns"`
	Range  []float64 `toml:"range"`
	Trust  string    `toml:"trust"`
	Source string    `toml:"source"`
}

// calibrated returns the preset that a calibration gives, as a TOML file.
func calibrated(r *calibrate.Result, now time.Time) ([]byte, error) {
	var b bytes.Buffer
	file := struct {
		About  string                   `toml:"about"`
		Base   string                   `toml:"base"`
		Prices map[string]measuredPrice `toml:"price"`
	}{
		About:  fmt.Sprintf("Two cores of %s, %s", r.Machine, now.UTC().Format(time.DateOnly)),
		Base:   "local-xeon",
		Prices: map[string]measuredPrice{},
	}
	all := func(name string) []float64 { return r.Values[name] }
	for name, q := range modelPrices(all, fmt.Sprintf("quartiles of %d rounds", r.Rounds)) {
		file.Prices[name] = measuredPrice{round3(q.Value), []float64{round3(q.Low), round3(q.High)},
			q.Trust.Letter(), q.Source}
	}
	e := toml.NewEncoder(&b).SetIndentTables(false)
	err := e.Encode(file)
	return b.Bytes(), err
}

// modelPrices returns the prices of preset local-measured. The function values returns what calibration
// measured under a name, round by round. The text is added to the sources.
func modelPrices(values func(name string) []float64, text string) map[string]costs.Quantity {
	list := map[string]costs.Quantity{}
	for name, from := range map[string]struct {
		name, less, by string // a measured price, less another or divided by another
	}{
		"miss":             {name: calibrate.Chase},
		"upgrade":          {name: calibrate.Signal, less: calibrate.Chase},
		"upgrade.cqe":      {name: calibrate.Post, less: calibrate.Chase},
		"upgrade.wqe":      {name: calibrate.Post, less: calibrate.Chase},
		"data":             {name: calibrate.Data},
		"handover":         {name: calibrate.Handover},
		"hit":              {name: calibrate.Hit},
		"llc_load":         {name: calibrate.LLCLoad},
		"dram_load":        {name: calibrate.DRAMLoad},
		"loads_in_flight":  {name: calibrate.Chase, by: calibrate.Next},
		"stores_in_flight": {name: calibrate.Chase, by: calibrate.WriteNext},
	} {
		source := "nicless model calibrate: " + from.name
		v := slices.Clone(values(from.name))
		if from.less != "" {
			source += " less " + from.less
			for i, less := range values(from.less) {
				v[i] -= less
			}
		}
		if from.by != "" {
			source += " divided by " + from.by
			for i, by := range values(from.by) {
				v[i] /= by
			}
		}
		for i := range v {
			v[i] = max(v[i], 0) // differences can be slightly below 0, and prices cannot
		}
		if text != "" {
			source += ", " + text
		}
		slices.Sort(v)
		list[name] = costs.Quantity{Value: quantile.Rank(v, 0.5), Low: quantile.Rank(v, 0.25),
			High: quantile.Rank(v, 0.75), Trust: costs.Measured, Source: source}
	}
	return list
}

func median(v []float64) float64 { return quantile.Rank(slices.Sorted(slices.Values(v)), 0.5) }

func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
