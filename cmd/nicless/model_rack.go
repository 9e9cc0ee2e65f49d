package main

import (
	"github.com/nicless/nicless/tools/costs"
	"github.com/spf13/cobra"
)

const modelRackUsage = `Prices the nodes of a pool that hosts share without coherence: the lines that
each reads and writes for heartbeats, the directory of the others, its rings and
packets, and what of the devices, links and cores they take. A pool has as many
lines a second as its devices carry: if they are nearly full, each load waits
for others, and the table says how long. docs/CXL.md explains the output.

Usage:
  nicless model rack [--nodes N] [--talk N] [flags]

Flags:
  --nodes N        nodes of the pool, 2 to 1024 (default: 1024)
  --talk N         with how many others each has rings (default: 16)
  --rate N         packets a second of each node to all others together
                   (default: 100000)
  --bytes N        payload of each packet (default: 1024)
  --batch N        packets that a receiver finds at a look (default: 1)
  --slots N        slots of each ring (default: 64, as they begin)
  --devices N      devices among which the pool's lines are spread (default: 16)
  --preset LIST    presets of fabric pool, as in nicless model
                   (default: pool-250,pool-750)
  --set LIST       prices in ns: pool_line=1 for devices twice as fast
  --out FORM       table or json (default: table)
  --output FILE    write to FILE (default: standard output)

Example:
  nicless model rack
  nicless model rack --nodes 128 --devices 4 --bytes 4096 --rate 1e6
`

func newModelRack() *cobra.Command {
	f := modelFlags{}
	l := costs.DefaultRack()
	c := &cobra.Command{
		Use:   "rack",
		Short: "price the nodes of a pool",
		Long:  modelRackUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			form, err := f.outputForm()
			if err != nil {
				return err
			}
			if form != "table" && form != "json" {
				return usagef("one of table, json", "model rack: --out %q does not exist", form)
			}
			presets, err := f.load(f.presets, c.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := l.Check(); err != nil {
				return usagef(`"nicless model rack --help" lists the limits`, "model: %w", err)
			}
			t, err := costs.CompareRacks(presets, l)
			if err != nil {
				return usagef("pool-250, pool-750 and presets that are based on them have it", "model: %w", err)
			}
			if form == "json" {
				return f.print(c.OutOrStdout(), t.JSON)
			}
			return f.print(c.OutOrStdout(), t.Table)
		},
	}
	f.cmd = c
	g := c.Flags()
	g.IntVar(&l.Rack.Nodes, "nodes", l.Rack.Nodes, "nodes")
	g.IntVar(&l.Rack.Talks, "talk", l.Rack.Talks, "peers")
	g.IntVar(&l.Rack.Slots, "slots", l.Rack.Slots, "slots of a ring")
	g.IntVar(&l.Devices, "devices", l.Devices, "devices")
	g.IntVar(&l.Traffic.Payload, "bytes", l.Traffic.Payload, "payload")
	g.Float64Var(&l.Traffic.Batch, "batch", l.Traffic.Batch, "packets at a look")
	g.Float64Var(&l.Rate, "rate", l.Rate, "packets a second")
	g.StringSliceVar(&f.presets, "preset", []string{"pool-250", "pool-750"}, "presets")
	g.StringSliceVar(&f.set, "set", nil, "prices")
	g.StringVar(&f.out, "out", "table", "form of the output")
	g.StringVar(&f.output, "output", "", "file to write to")
	_ = c.MarkFlagFilename("output")
	for name, values := range map[string][]string{"preset": costs.Names(), "out": {"table", "json"}} {
		_ = c.RegisterFlagCompletionFunc(name,
			cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}
