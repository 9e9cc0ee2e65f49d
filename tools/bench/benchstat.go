//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

// nanoseconds are the units of time that rows have. benchstat knows ns/op.
var nanoseconds = map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6}

// PrintBenchstat prints the table as lines of Go benchmarks, one for each sample, which benchstat reads. The
// key "of" of a name says whether a sample is one of nicless or of the floor.
func (t *Table) PrintBenchstat(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\ncpu: %s\nkernel: %s\n", runtime.GOOS, runtime.GOARCH, t.Machine.CPU, t.Machine.Kernel)
	known := map[string]bool{}
	for i := range t.Rows {
		r := &t.Rows[i]
		unit, factor := strings.ReplaceAll(r.Unit, " ", "-"), 1.0
		if ns, ok := nanoseconds[r.Unit]; ok {
			unit, factor = "ns/op", ns
		} else if !known[unit] {
			known[unit] = true
			better := "lower"
			if strings.HasPrefix(r.Target, ">=") {
				better = "higher"
			}
			fmt.Fprintf(&b, "Unit %s better=%s\n", unit, better)
		}
		for _, of := range []struct {
			name string
			*Spread
		}{{"nicless", &r.Values}, {"floor", r.Floors}} {
			if of.Spread == nil {
				continue
			}
			for _, v := range of.Samples {
				fmt.Fprintf(&b, "Benchmark%s%s/of=%s-%d 1 %g %s\n", strings.ToUpper(r.Name[:1]), r.Name[1:],
					of.name, len(t.Machine.CPUs), v*factor, unit)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
