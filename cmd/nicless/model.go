package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/nicless/nicless/tools/costs"
	"github.com/spf13/cobra"
)

const modelUsage = `Says what the cache-line traffic of a request costs on fabrics that are not
there: cores of one host, CXL, PCIe, a pool. It prices the accesses of a trace,
follows the critical path, and counts messages. Every output ends with how far
the numbers can be trusted: the weakest price, and the range of the total.
Numbers that rest on recalled or inferred prices have two digits. docs/CXL.md
explains the output.

Usage:
  nicless model [--synth OP] [--bytes N] [--preset LIST] [flags]
  nicless model presets [--json]
  nicless model show PRESET [--json|--toml]
  nicless model diff PRESET PRESET [flags]
  nicless model rack [--nodes N] [--talk N] [flags]
  nicless model validate [--recorded] [--json]
  nicless model calibrate [--cores A,B]

Traffic:
  --synth OP        steady traffic of one operation: loopback (packets to a NIC
                    and back), write, write-imm, read, send, send-imm,
                    fetch-add, cmp-swap, masked-fetch-add, masked-cmp-swap,
                    nop, dump or copy (default: write)
  --bytes N         bytes of each operation (default: 64; atomics: 8)
  --inline          the payload is in the WQE
  --blueflame       the queue pair has a BlueFlame register
  --batch N         requests for each doorbell (default: 1); the output is then
                    for each doorbell
  --signal N        one of N requests asks for a completion (default: 1)
  --sges N          pieces of memory that a payload is in (default: 1)
  --srq             receives come from a shared receive queue
  --prefetch        the device reads a receive before its message comes
                    (default: for loopback yes, otherwise no)
  --trace FILE      in place of all these: a trace as --out trace writes it; "-"
                    is standard input (its form: docs/CXL.md)

Presets:
  --preset LIST     names, or paths of .toml files. A name may be followed by
                    what is different: cxl2-fpga+cq=dev+price.link=300. For
                    files, go doc github.com/nicless/nicless/model Parse
                    (default: local-measured,cxl1-fpga,pcie-asic,pool-750)
  --place LIST      where structures are: sq, rq, cq, dbrec, uar, payload.tx,
                    payload.rx = host, dev or pool
  --request LIST    requests of the device by kind, and reason or operation, as
                    in dbrec.poll=CO-read or payload.store=NC-P
  --ncp             the device pushes payload and completions into the host's
                    last-level cache; --ncp=false: it does not
  --set LIST        prices in ns: price.link=300, or a range price.link=200..400

Output:
  --until AGENT     whose load ends a request: host, for the completion, peer,
                    for the payload, or dev (default: host; loopback: dev)
  --warm N          requests at the beginning that are not reported (default: as
                    many as fill the rings; with --trace: 0)
  --sweep PRICE=LOW:HIGH:STEP   the total for each value of a price, and where
                    two presets cross
  --out FORM        table, json or svg (default: by the ending of FILE,
                    which is .txt, .json or .svg, or none; otherwise table);
                    trace: the trace itself, as JSON Lines
  --output FILE     write to FILE (default: standard output)

Lists have commas. What only some presets know is changed there.

Example:
  nicless model --synth send --bytes 4096 --until peer --out svg > send.svg
  nicless model --preset cxl2-fpga,cxl2-fpga+rq=dev+payload.rx=dev --synth send
  nicless model --sweep price.d2h_read_dram=200:900:100 \
      --preset cxl1-fpga,pcie-asic --output sweep.svg
`

// A modelFlags has the flags of nicless model and nicless model diff.
type modelFlags struct {
	cmd *cobra.Command // knows which flags were given

	synth string
	bytes int
	file  string // name of a file with a trace
	form  traffic.Form

	presets, place, request, set []string
	ncp                          bool

	until, sweep, out, output string
	warm                      int
}

var defaultPresets = []string{"local-measured", "cxl1-fpga", "pcie-asic", "pool-750"}

func newModel() *cobra.Command {
	var f modelFlags
	c := &cobra.Command{
		Use:   "model",
		Short: "price the traffic of cache lines on fabrics that are not there",
		Long:  modelUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef(`"nicless model --help" lists the commands`, "model: command %q does not exist", args[0])
			}
			return f.run(c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f.add(c)
	c.Flags().StringSliceVar(&f.presets, "preset", defaultPresets, "presets")
	c.Flags().StringVar(&f.sweep, "sweep", "", "values of a price")
	_ = c.RegisterFlagCompletionFunc("preset",
		cobra.FixedCompletions(costs.Names(), cobra.ShellCompDirectiveDefault))
	c.AddCommand(newModelPresets(), newModelShow(), newModelDiff(), newModelRack(), newModelValidate(),
		newModelCalibrate())
	return c
}

// add adds the flags that nicless model and nicless model diff have.
func (f *modelFlags) add(c *cobra.Command) {
	f.cmd = c
	g := c.Flags()
	g.StringVar(&f.synth, "synth", "write", "operation")
	g.StringVar(&f.file, "trace", "", "trace to price")
	g.IntVar(&f.bytes, "bytes", 64, "bytes of each operation")
	g.BoolVar(&f.form.Inline, "inline", false, "payload in the WQE")
	g.BoolVar(&f.form.BlueFlame, "blueflame", false, "BlueFlame register")
	g.IntVar(&f.form.Batch, "batch", 1, "requests for each doorbell")
	g.IntVar(&f.form.Signaled, "signal", 1, "requests for each completion")
	g.IntVar(&f.form.SGEs, "sges", 1, "pieces of memory")
	g.BoolVar(&f.form.SRQ, "srq", false, "shared receive queue")
	g.BoolVar(&f.form.Prefetched, "prefetch", false, "receives are prefetched")
	g.StringSliceVar(&f.place, "place", nil, "where structures are")
	g.StringSliceVar(&f.request, "request", nil, "requests of the device")
	g.StringSliceVar(&f.set, "set", nil, "prices")
	g.BoolVar(&f.ncp, "ncp", false, "push into the last-level cache")
	g.StringVar(&f.until, "until", "host", "whose load ends a request")
	g.IntVar(&f.warm, "warm", 0, "requests that are not reported")
	g.StringVar(&f.out, "out", "table", "form of the output")
	g.StringVar(&f.output, "output", "", "file to write to")
	for name, values := range map[string][]string{"synth": synthOps(), "until": {"host", "peer", "dev"},
		"out": outputForms} {
		_ = c.RegisterFlagCompletionFunc(name,
			cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	_ = c.MarkFlagFilename("output")
	_ = c.MarkFlagFilename("trace")
}

func (f *modelFlags) changed(name string) bool { return f.cmd.Flags().Changed(name) }

var outputForms = []string{"table", "json", "svg", "trace"}

// An output can be written in each form.
type output interface {
	Table(io.Writer) error
	JSON(io.Writer) error
	SVG(io.Writer) error
}

func (f *modelFlags) run(stdin io.Reader, stdout, stderr io.Writer) error {
	form, err := f.outputForm()
	if err != nil {
		return err
	}
	presets, err := f.load(f.presets, stderr)
	if err != nil {
		return err
	}
	t, o, title, err := f.trace(stdin)
	if err != nil {
		return err
	}
	f.noteUnused(presets, t, stderr)
	if form == "trace" {
		if f.sweep != "" {
			return usagef("a trace has no prices", "model: --sweep and --out trace exclude each other")
		}
		return f.print(stdout, func(w io.Writer) error { return model.WriteTrace(w, t) })
	}
	if f.sweep != "" {
		s, err := f.runSweep(title, presets, t, o)
		if err != nil {
			return err
		}
		s.Unit = f.unit()
		return f.print(stdout, inForm(form, s))
	}
	c, err := costs.Compare(title, presets, t, o)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	c.Unit = f.unit()
	return f.print(stdout, inForm(form, c))
}

func (f *modelFlags) runSweep(title string, presets []*costs.Preset, t model.Trace,
	o costs.Options) (*costs.Sweep, error) {
	const hint = "for instance: --sweep price.link=100:800:50"
	price, low, high, step, err := costs.ParseSweep(f.sweep)
	if err != nil {
		return nil, usagef(hint, "model: --sweep: %w", err)
	}
	for _, change := range f.set {
		if name, _, _ := strings.Cut(change, "="); strings.TrimPrefix(name, "price.") == price {
			return nil, usagef("the sweep sets it", "model: --sweep and --set are both for price.%s", price)
		}
	}
	s, err := costs.RunSweep(title, presets, t, o, price, low, high, step)
	if err != nil {
		return nil, usagef(hint, "model: --sweep: %w", err)
	}
	return s, nil
}

// outputForm returns the form of the output.
func (f *modelFlags) outputForm() (string, error) {
	form := f.out
	if !f.changed("out") {
		switch ext := filepath.Ext(f.output); ext {
		case "", ".txt":
		case ".json", ".svg":
			form = ext[1:]
		default:
			return "", usagef("write .txt, .json or .svg, or say the form: --out table", "model: --output %s: %s is not a form of output", f.output, ext)
		}
	}
	for _, known := range outputForms {
		if form == known {
			return form, nil
		}
	}
	return "", usagef("one of "+strings.Join(outputForms, ", "), "model: --out %q does not exist", form)
}

// unit returns what a request of a report is.
func (f *modelFlags) unit() string {
	if f.form.Batch > 1 {
		return "doorbell"
	}
	return "request"
}

// inForm returns what writes the output in a form.
func inForm(form string, p output) func(io.Writer) error {
	return map[string]func(io.Writer) error{"table": p.Table, "json": p.JSON, "svg": p.SVG}[form]
}

// print writes the result to where the flags say. A file is written when all of the result is there.
func (f *modelFlags) print(stdout io.Writer, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if f.output != "" {
		if err := os.WriteFile(f.output, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("model: %w", err)
		}
		return nil
	}
	_, err := stdout.Write(b.Bytes())
	return err
}
