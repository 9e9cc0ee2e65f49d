package naive

import (
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/nicless/nicless/accel/ptx/internal/vectors"
	"github.com/stretchr/testify/require"
)

// The arithmetic is what a GPU computes. Forms that this package does not know are counted.
func TestVectors(t *testing.T) {
	v, err := vectors.Read("../../testdata/h200.bin.gz")
	require.NoError(t, err)
	known, bases := 0, map[string]bool{}
	for n := range v.Forms {
		f := &v.Forms[n]
		op, ok := form(f)
		if !ok {
			continue
		}
		known++
		bases[op.Base] = true
		for row := range v.Rows {
			in := v.Operands(f, row)
			if (op.Base == "bfe" || op.Base == "bfi") && slices.Max(in[1:]) > 255 {
				continue // the manual takes the low 8 bits, and the GPU does not
			}
			got, err := integer(op, in[:len(f.Sources)])
			if err != nil {
				continue // a division by 0
			}
			want := f.Values[0][row]
			width := 8 * size(f.Results[0])
			if width == 8 {
				width = 32 // of the register
			}
			require.Equal(t, want, got&mask(width), "%s row %d: %#x", f.Template, row, in)
		}
	}
	t.Logf("%d of %d forms, of %d instructions", known, len(v.Forms), len(bases))
	require.Greater(t, known, 150)
	require.Greater(t, len(bases), 25)
}

// unknown are modifiers that package naive does not know, and others instructions.
var unknown = map[string]bool{"pack": true, "relu": true, "cc": true, "shiftamt": true}

const others = "addc subc madc mad24 mul24 slct set bfind dp2a dp4a szext bmsk fns selp"

// form returns the opcode of a form that has integers, one result, and operands in their order.
func form(f *vectors.Form) (*syntax.Opcode, bool) {
	name, _, _ := strings.Cut(f.Template, " ")
	words := strings.Split(name, ".")
	if strings.Contains(f.Template, "{") {
		return nil, false
	}
	op := &syntax.Opcode{Text: name, Base: words[0], Mods: words[1:]}
	if len(f.Results) != 1 || len(op.Mods) == 0 || len(f.Sources) != strings.Count(f.Template, ",") {
		return nil, false
	}
	for _, s := range append([]vectors.Source{{Type: f.Results[0]}}, f.Sources...) {
		if !strings.ContainsRune("bsu", rune(s.Type[0])) || strings.Contains(s.Type, "x") ||
			s.Type[:2] == "bf" {
			return nil, false
		}
	}
	last := op.Mods[len(op.Mods)-1]
	prmt := op.Base == "prmt" && len(op.Mods) > 1
	if prmt || slices.ContainsFunc(op.Mods, func(m string) bool { return unknown[m] }) ||
		strings.Contains(last, "x") {
		return nil, false
	}
	sat := op.Base != "cvt" && slices.Contains(op.Mods, "sat")
	if sat || slices.Contains(strings.Fields(others), op.Base) {
		return nil, false
	}
	return op, true
}
