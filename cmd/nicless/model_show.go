package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nicless/nicless/tools/costs"
	"github.com/spf13/cobra"
)

const modelPresetsUsage = `Prints the presets of nicless model: the name of each, its fabric, the weakest
trust of its numbers, and what it is.

Usage:
  nicless model presets [--json]

Flags:
  --json           print JSON, with all numbers of each preset

Example:
  nicless model presets
`

func newModelPresets() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "presets",
		Short: "list the presets of nicless model",
		Long:  modelPresetsUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			var list []*costs.Listing
			for _, name := range costs.Names() {
				p, err := builtinPreset(name)
				if err != nil {
					return fmt.Errorf("model: %w", err)
				}
				list = append(list, p.List())
			}
			slices.SortFunc(list,
				func(a, b *costs.Listing) int { return strings.Compare(a.Preset, b.Preset) })
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				e.SetEscapeHTML(false)
				return e.Encode(list)
			}
			return printPresets(c.OutOrStdout(), list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printPresets(w io.Writer, list []*costs.Listing) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PRESET\tFABRIC\tWEAKEST TRUST")
	weakest := map[string]int{}
	for _, l := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Preset, l.Fabric, l.Trust)
		weakest[l.Trust]++
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range list {
		if _, err := fmt.Fprintf(w, "\n%s\n", fold(l.Preset+": "+l.About)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\nweakest: %s in %d of %d presets; \"nicless model show PRESET\" prints ranges and sources\n",
		costs.Inferred, weakest[costs.Inferred.String()], len(list))
	return err
}

const modelShowUsage = `Prints all numbers of a preset, with range, trust and source, the places of the
structures, and the requests of the device.

Usage:
  nicless model show PRESET [--json|--toml]

PRESET is a name, or the path of a .toml file; changes may follow, as in
nicless model --preset.

Flags:
  --json           print one JSON object
  --toml           print the file of a preset that the command has, to begin a
                   preset of your own with

Example:
  nicless model show cxl1-fpga
  nicless model show cxl1-fpga --toml > mine.toml
`

func newModelShow() *cobra.Command {
	var asJSON, asTOML bool
	c := &cobra.Command{
		Use:               "show PRESET",
		Short:             "print all numbers of a preset of nicless model",
		Long:              modelShowUsage,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: presetNames,
		RunE: func(c *cobra.Command, args []string) error {
			if err := needPresets(args, 1, "show"); err != nil {
				return err
			}
			if asJSON && asTOML {
				return usagef("give one of them", "model show: --json and --toml exclude each other")
			}
			if asTOML {
				text, err := costs.Text(args[0])
				if err != nil {
					return usagef("--toml is for names that \"nicless model presets\" lists", "model show: %w", err)
				}
				_, err = c.OutOrStdout().Write(text)
				return err
			}
			p, err := loadPreset(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return p.List().JSON(c.OutOrStdout())
			}
			return p.List().Table(c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&asTOML, "toml", false, "print the file")
	return c
}

// needPresets returns an error unless there are n arguments.
func needPresets(args []string, n int, command string) error {
	const hint = `"nicless model presets" lists them`
	switch {
	case len(args) < n:
		return usagef(hint, "model %s: %d of %d presets are missing", command, n-len(args), n)
	case len(args) > n:
		return usagef(hint, "model %s: takes %d presets, %q was given as well", command, n, args[n])
	}
	return nil
}

// presetNames completes names of presets, and files.
func presetNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return costs.Names(), cobra.ShellCompDirectiveDefault
}
