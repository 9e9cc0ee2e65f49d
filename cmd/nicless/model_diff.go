package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/nicless/nicless/tools/costs"
	"github.com/spf13/cobra"
)

const modelDiffUsage = `Prints what differs between two presets: numbers, places and requests. With
--synth or --trace, it also prints what a trace costs on both.

Usage:
  nicless model diff PRESET PRESET [flags]

PRESET is a name, or the path of a .toml file; changes may follow, as in
nicless model --preset.

Flags:
  --synth OP, --bytes N, --inline, --blueflame, --batch N, --signal N, --sges N,
  --srq, --prefetch, --trace FILE, --place LIST, --request LIST, --ncp,
  --set LIST, --until AGENT, --warm N, --out FORM, --output FILE
                   as in nicless model; a picture shows the costs only

Example:
  nicless model diff cxl1-fpga cxl1-fpga+ncp
  nicless model diff local-measured upi --synth write --bytes 64
`

func newModelDiff() *cobra.Command {
	var f modelFlags
	c := &cobra.Command{
		Use:               "diff PRESET PRESET",
		Short:             "print what differs between two presets of nicless model",
		Long:              modelDiffUsage,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: presetNames,
		RunE: func(c *cobra.Command, args []string) error {
			if err := needPresets(args, 2, "diff"); err != nil {
				return err
			}
			return f.diff(args, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f.add(c)
	return c
}

func (f *modelFlags) diff(names []string, stdin io.Reader, stdout, stderr io.Writer) error {
	form, err := f.outputForm()
	if err != nil {
		return err
	}
	presets, err := f.load(names, stderr)
	if err != nil {
		return err
	}
	both := difference{Diff: costs.DiffPresets(presets[0], presets[1])}
	if form == "trace" {
		return usagef("nicless model --out trace", "model diff: --out trace is not for comparing presets")
	}
	if f.changed("synth") || f.file != "" || form == "svg" {
		t, o, title, err := f.trace(stdin)
		if err != nil {
			return err
		}
		f.noteUnused(presets, t, stderr)
		both.costs, err = costs.Compare(title, presets, t, o)
		if err != nil {
			return fmt.Errorf("model: %w", err)
		}
		both.costs.Unit = f.unit()
	}
	return f.print(stdout, inForm(form, both))
}

// A difference is what differs between presets, and what a trace costs on them, or nil.
type difference struct {
	*costs.Diff
	costs *costs.Comparison
}

// Table writes both tables.
func (d difference) Table(w io.Writer) error {
	if err := d.Diff.Table(w); err != nil || d.costs == nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return d.costs.Table(w)
}

// JSON writes an object that has the differences, and the reports if there are costs.
func (d difference) JSON(w io.Writer) error {
	if d.costs == nil {
		return d.Diff.JSON(w)
	}
	var reports strings.Builder
	if err := d.costs.JSON(&reports); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		*costs.Diff
		Reports json.RawMessage `json:"reports"`
	}{d.Diff, json.RawMessage(reports.String())})
}

// SVG writes the picture of the costs.
func (d difference) SVG(w io.Writer) error { return d.costs.SVG(w) }
