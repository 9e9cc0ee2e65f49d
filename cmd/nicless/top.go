//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nicless/nicless/cmd/nicless/internal/top"
	"github.com/nicless/nicless/state"
	"github.com/spf13/cobra"
)

const topUsage = `Shows an engine live, on the terminal: the load of its threads, and its queues,
clients and completion queues with rates, outstanding work, latencies from post
to completion, states, and why work waits or has failed. Keys are as in htop(1):
F1 or ? explains them. Enter opens a queue: its attributes, a histogram of its
latencies, and its rings with the decoded WQE or CQE under the cursor.

The engine is asked once in an interval, and more seldom if that takes more than
a hundredth of a core, as with thousands of queues. Latencies are those of short
samples of the queues on the screen. Users see their own programs, and root and
the engine's own user all of them.

Usage:
  nicless top [--socket PATH] [flags]

Flags:
  --ascii         draw with ASCII only (default: if the locale is not UTF-8)
  --interval D    least time between two looks, from 100ms on (default: 1s)
  --no-color      no colours; also if NO_COLOR is set
  --socket PATH   socket of the engine (default: that of nicless run; in its
                  programs, also with --private, the one that they use)

Example:
  nicless top
  nicless top --socket $XDG_RUNTIME_DIR/nicless.sock --interval 5s
`

// leastInterval bounds what top asks of an engine.
const leastInterval = 100 * time.Millisecond

func newTop() *cobra.Command {
	var socket string
	var noColor, ascii bool
	var interval time.Duration
	c := &cobra.Command{
		Use:   "top",
		Short: "show an engine live, on the terminal",
		Long:  topUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if interval < leastInterval {
				return usagef("the engine is not asked more often", "top: --interval %s; at least %s", interval, leastInterval)
			}
			if !isTerminal(c.OutOrStdout()) || !isTerminal(c.InOrStdin()) {
				return hintf("nicless status prints the same once, and with --json for programs",
					"top: standard input and output are not both a terminal")
			}
			if socket == "" {
				if socket, err = defaultSocket(); err != nil {
					return err
				}
			}
			if err := answers(c.Context(), socket); err != nil {
				return err
			}
			env := os.Environ()
			return top.Run(c.Context(), top.Live(socket),
				top.Terminal{In: c.InOrStdin(), Out: c.OutOrStdout(), Environ: env, NoColor: noColor},
				top.Options{Engine: socket, Interval: interval, ASCII: ascii || !drawsUnicode(env)})
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "socket of the engine")
	c.Flags().StringVar(&socket, "engine", "", "socket of the engine, by the name of the flag elsewhere")
	c.Flags().DurationVar(&interval, "interval", time.Second, "least time between two looks")
	c.Flags().BoolVar(&noColor, "no-color", false, "no colours")
	c.Flags().BoolVar(&ascii, "ascii", false, "draw with ASCII only")
	_ = c.Flags().MarkHidden("engine")
	_ = c.MarkFlagFilename("socket")
	return c
}

// answers returns an error, for before the screen is taken, if an engine does not say anything.
func answers(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	_, err := state.Read(ctx, socket, state.Request{Kinds: []state.Kind{state.Clients}})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return hintf("its owner decides who may connect: nicless engine --mode", "top: %w", err)
	case errors.Is(err, state.ErrRefused), errors.Is(err, context.DeadlineExceeded):
		return hintf("", "top: engine at %s: %w", plain(socket), err)
	case errors.Is(err, syscall.ENOENT) && exists(socket):
		return hintf("start the engine anew: only this version and later ones say what state they have",
			"top: the engine at %s has no socket for its state: %w", plain(socket), err)
	}
	return hintf("name the engine's socket: nicless top --socket PATH", "top: no engine at %s: %w", plain(socket), err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// drawsUnicode reports whether a terminal with this environment shows more than ASCII: its locale says UTF-8,
// and it is no terminal of hardware.
func drawsUnicode(environ []string) bool {
	locale := ""
	for _, name := range []string{"LANG=", "LC_CTYPE=", "LC_ALL="} { // the last one that is set decides
		for _, e := range environ {
			if value, ok := strings.CutPrefix(e, name); ok && value != "" {
				locale = value
			}
		}
	}
	locale = strings.ReplaceAll(strings.ToLower(locale), "-", "")
	return strings.HasSuffix(locale, "utf8") && !top.Hardware(environ)
}
