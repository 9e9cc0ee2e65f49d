package main

import "github.com/spf13/cobra"

const traceUsage = `Shows traces: records of everything that a device did for its clients, from the
doorbell to the completion. docs/TRACE.md describes their format.

Usage:
  nicless trace show FILE|- [flags]

"nicless trace show --help" describes the forms in which it shows them: text,
JSON, timelines of Perfetto, packets for Wireshark, and cache lines.

Example:
  nicless trace show put.nictrace
  nicless trace show put.nictrace -o put.pcapng
`

func newTrace() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "show what a device did",
		Long:  traceUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			const hint = `"nicless trace --help" lists the commands`
			if len(args) > 0 {
				return usagef(hint, "trace: command %q does not exist", args[0])
			}
			return usagef(hint, "trace: the command is missing")
		},
	}
	c.AddCommand(newTraceShow())
	return c
}
