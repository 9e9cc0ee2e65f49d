package alu

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/nicless/nicless/accel/ptx/internal/vectors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// instruction returns the instruction of a form, or nil if it is not a single one with operands $a, $b, $c
// in this order.
func instruction(t *testing.T, f *vectors.Form) *syntax.Instruction {
	t.Helper()
	names := strings.NewReplacer("$0", "%r0", "$1", "%r1", "$a", "a", "$b", "b", "$c", "c", "$d", "d")
	text := names.Replace(f.Template)
	m, err := syntax.Parse(".version 8.6\n.target sm_90\n.entry k() {\n" + text + "\n}")
	require.NoError(t, err, f.Name)
	statements := m.Functions[0].Body.Statements
	i, ok := statements[0].(*syntax.Instruction)
	if !ok || len(statements) > 1 || len(f.Results) > 1 || len(i.Operands) != 1+len(f.Sources) {
		return nil
	}
	for k, name := range []string{"a", "b", "c"}[:min(3, len(f.Sources))] {
		if o := i.Operands[1+k]; o.Name != name || o.Negated {
			return nil
		}
	}
	return i
}

// near reports whether a result of an approximation is near enough to that of the GPU.
func near(base string, t Type, a, got, want uint64) bool {
	value := func(v uint64) float64 { return f64(double.round(formatOf(t).number(v), nearest)) }
	difference := math.Abs(value(got) - value(want))
	relative := difference / math.Abs(value(want))
	switch {
	case t.Pair:
		half := t.one()
		return near(base, half, half.wrap(a), half.wrap(got), half.wrap(want)) &&
			near(base, half, a>>16, got>>16, want>>16)
	case t.Width == 16:
		return got-want+1 <= 2 // neighbours
	case base == "sin" || base == "cos":
		// in this range; what GPUs compute elsewhere is not specified
		return difference < math.Exp2(-20.5) || math.Abs(value(a)) > math.Pi
	case base == "lg2":
		return difference < math.Exp2(-22) || relative < math.Exp2(-22)
	case base == "tanh":
		return relative < math.Exp2(-10.9)
	case t.Width == 64:
		return relative < math.Exp2(-19)
	}
	return got-want+2 <= 4
}

// Each form that is a function of at most three operands computes what an H200 has computed.
func TestVectors(t *testing.T) {
	v, err := vectors.Read("../../testdata/h200.bin.gz")
	require.NoError(t, err)
	tried := 0
	for i := range v.Forms {
		f := &v.Forms[i]
		in := instruction(t, f)
		// these consist of several functions
		if in == nil || in.Op.Base == "mov" || len(f.Sources) > 3 {
			continue
		}
		if in.Op.Base == "setp" && len(f.Sources) == 3 {
			continue
		}
		approximate := in.Op.Mods[0] == "approx" || in.Op.Mods[0] == "full"
		do, err := Find(in.Op.Base, in.Op.Mods)
		if !assert.NoError(t, err, f.Name) {
			continue
		}
		tried++
		for row := range v.Rows {
			o := v.Operands(f, row)
			for k := range do.Operands {
				o[k] = do.Operands[k].wrap(o[k])
			}
			got, want := do.Do(o[0], o[1], o[2]), f.Values[0][row]
			if do.Result == types["s8"] {
				want = do.Result.wrap(want)
			}
			if got == want || approximate && near(in.Op.Base, do.Result, o[0], got, want) {
				continue
			}
			assert.Equal(t, want, got, "%s, row %d: %#x", f.Name, row, o)
			break
		}
	}
	require.Equal(t, 2121, tried)
}

// The forms that the assembler of the GPU's driver refuses are refused.
func TestRefused(t *testing.T) {
	text, err := os.ReadFile("../../testdata/h200-refused.txt")
	require.NoError(t, err)
	tried := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, "\t")
		name, template, _ := strings.Cut(fields[2], " ")
		if len(fields) != 4 || fields[1] != "refused" || strings.Contains(template, "|") {
			continue
		}
		tried++
		parts := strings.Split(name, ".")
		_, err := Find(parts[0], parts[1:])
		assert.Error(t, err, "%s: %s", name, fields[3])
	}
	require.Equal(t, 90, tried)
}
