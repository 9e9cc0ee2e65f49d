package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

const traceUsage = `Shows what an engine does for its clients, from the doorbell to the completion:
a line for each event, as strace does for system calls. It ends when it is
interrupted, and when the engine stops. Clients that are not watched are as fast
as before. A watch that is too slow loses events; it says where, and at its end
how many. "nicless run --trace FILE" traces a program from its start on.

Usage:
  nicless trace --all|--qp N|--client PID|--program NAME [flags]
  nicless trace show FILE|- [flags]

Which clients:
  --all             all, and later ones too
  --qp N            one queue pair that exists, such as 81 or 0x51
  --client PID      those of one process that runs, and later ones of it too
  --program NAME    those of the processes with this name, and later ones too
  An ordinary user sees clients of that user only; root and the engine's user
  see all.

Flags:
  --engine PATH     socket of the engine (default: that of nicless run; in its
                    programs, also with --private, the one that they use)
  -o, --out FILE    write to FILE (default: standard output). The ending says
                    the form: .nictrace is a trace, which costs least, and which
                    nicless trace show shows in all forms
  --format FORM     the form; "nicless trace show --help" describes the forms
  --replay          record also payload, receives and how queues were made, for
                    nicless replay. The clients are then slower
  --sanitize        record also what nicless trace show --sanitize needs. The
                    clients are then much slower
  --cut             as for nicless trace show
  --utc             times of the text in UTC (default: local time)

Example:
  nicless trace --all
  nicless trace --program ib_write_bw --out put.nictrace
  nicless trace show put.nictrace -o put.pcapng
  nicless trace --all --format pcapng | wireshark -k -i -
`

func newTrace() *cobra.Command {
	var f traceFlags
	var all bool
	var socket string
	c := &cobra.Command{
		Use:   "trace",
		Short: "show what a device does",
		Long:  traceUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			const hint = `"nicless trace --help" lists commands and flags`
			switch {
			case len(args) > 0 && (isFile(args[0]) || strings.HasSuffix(args[0], ".nictrace")):
				return usagef("nicless trace show "+plain(args[0]), "trace: %s is a file, and no command", plain(args[0]))
			case len(args) > 0:
				return usagef(hint, "trace: command %q does not exist", args[0])
			case all && !f.choice.whole():
				return usagef("choose one", "trace: --all, --qp, --client and --program exclude each other")
			case !all && f.choice.whole():
				return usagef(hint, "trace: one of --all, --qp, --client and --program is needed")
			}
			return f.watch(c, socket)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all clients")
	c.Flags().BoolVar(&f.choice.replay, "replay", false, "record what a replay needs")
	c.Flags().BoolVar(&f.choice.sanitize, "sanitize", false, "record what the sanitizer needs")
	c.Flags().StringVar(&socket, "engine", "", "socket of the engine")
	_ = c.MarkFlagFilename("engine")
	f.add(c)
	c.AddCommand(newTraceShow())
	return c
}

// watch shows what an engine does.
func (f *traceFlags) watch(c *cobra.Command, socket string) error {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if hangup != nil && !signal.Ignored(hangup) { // nohup: the record goes on without the terminal
		ends = append(ends, hangup)
	}
	ctx, stop := signal.NotifyContext(c.Context(), ends...)
	defer stop()
	return f.run(c, "", func() (*namedSource, error) {
		in, err := openWatch(ctx, socket, &f.choice)
		f.choice = eventChoice{} // the engine chooses
		return in, err
	})
}
