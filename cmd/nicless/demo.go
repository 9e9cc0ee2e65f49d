//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/tools/bench"
	"github.com/nicless/nicless/wqe"
	"github.com/spf13/cobra"
)

const demoUsage = `Starts an engine inside this process and makes one RDMA write. Then it prints
bytes of the shared memory: what the program wrote for the device, and what the
device wrote back. After that it times writes, reads and sends and compares
every payload. It needs no privileges and takes a few seconds.

Usage:
  nicless demo [--count N]

Flags:
  --count N   operations of each kind, 1 to 10000000 (default: 100000)

Example:
  nicless demo
`

const maxDemoCount = 10_000_000

func newDemo() *cobra.Command {
	count := 100_000
	c := &cobra.Command{
		Use:   "demo",
		Short: "one RDMA write byte by byte, then 300,000 operations",
		Long:  demoUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if count < 1 || count > maxDemoCount {
				return usagef("leave out --count for 100000 operations of each kind", "demo: --count %d; 1 to %d are possible", count, maxDemoCount)
			}
			w := &printer{w: c.OutOrStdout()}
			start := time.Now()
			if err := showOneWrite(c.Context(), w); err != nil {
				return err
			}
			if err := showMany(c.Context(), w, count); err != nil {
				return err
			}
			w.printf("\nAll of it took %.1f s.\n", time.Since(start).Seconds())
			return w.err
		},
	}
	c.Flags().IntVar(&count, "count", count, "operations of each kind")
	return c
}

// A printer writes until its writer returns an error, and keeps that error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// text prints one line, folded.
func (p *printer) text(format string, args ...any) {
	p.printf("%s\n", fold(fmt.Sprintf(format, args...)))
}

// dump prints bytes as decode explains them, indented.
func (p *printer) dump(kind string, b []byte) {
	k, err := findKind(kind)
	var t field.Tree
	if err == nil {
		t, err = k.describe(b, about{address: wqe.NoAddress}) // the send WQEs are those of an RC queue pair
	}
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("demo: %s: %w", kind, err)
	}
	if p.err != nil {
		return
	}
	var text strings.Builder
	_ = t.Print(&text, b) // a Builder returns no error
	for line := range strings.Lines(text.String()) {
		p.text("  %s", strings.TrimSuffix(line, "\n"))
	}
}

// withPair runs f with an engine and two connected queue pairs.
func withPair(cfg bench.PairConfig, f func(*bench.Pair) error) (err error) {
	c, err := nicless.Open(nicless.Config{})
	if err != nil {
		return err
	}
	defer func() {
		closing := c.Close()
		if err == nil {
			err = closing
		}
	}()
	p, err := bench.NewPair(c, cfg)
	if err != nil {
		return err
	}
	return f(p)
}
