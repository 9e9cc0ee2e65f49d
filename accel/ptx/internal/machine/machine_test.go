package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/nicless/nicless/accel/ptx/internal/vectors"
	"github.com/stretchr/testify/require"
)

// A memory is what kernels reach in tests.
type memory struct {
	Arena
	space Space
}

func newMemory(t testing.TB) *memory {
	m := &memory{}
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// Allocate returns memory that is full of zeros.
func (m *memory) Allocate(size, align int64) (uint64, []byte, error) {
	address, b, err := m.Arena.Allocate(size, align)
	if err == nil {
		clear(b)
		err = m.space.Add(address, uint64(size))
	}
	return address, b, err
}

func (m *memory) words(t testing.TB, n int) (uint64, []uint64) {
	address, b, err := m.Allocate(int64(8*n), 8)
	require.NoError(t, err)
	return address, wordsOf(b)
}

// run executes a kernel whose parameters are words.
func (m *memory) run(l Launch, params ...uint64) error {
	var b []byte
	for _, p := range params {
		b = binary.LittleEndian.AppendUint64(b, p)
	}
	var arena Arena
	l.Params, l.Space, l.Arena = b[:l.Kernel.ParamBytes], &m.space, &arena
	g, err := NewGrid(l)
	if err != nil {
		return err
	}
	return errors.Join(g.Run(), arena.Close())
}

func program(t require.TestingT, text string, mem Memory) *Program {
	s, err := syntax.Parse(text)
	require.NoError(t, err)
	m, err := code.Build(s)
	require.NoError(t, err)
	p, err := Link([]*code.Module{m}, mem)
	require.NoError(t, err)
	return p
}

// registerType returns the type of the register for values of a type.
func registerType(t alu.Type) string {
	if t.Kind == alu.Pred {
		return "pred"
	}
	return fmt.Sprintf("b%d", max(t.Width, 16))
}

// formKernel returns a kernel that computes a form with a row of operands for each thread.
func formKernel(n int, f *vectors.Form) string {
	var k strings.Builder
	fmt.Fprintf(&k, ".entry k%d(.param .u64 in, .param .u64 out) {\n.reg .b64 %%in, %%out, %%t; .reg .b32 %%n; .reg .pred %%q;\n", n)
	k.WriteString("mov.u32 %n, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n")
	k.WriteString("mad.wide.u32 %in, %n, 32, %in; mad.wide.u32 %out, %n, 16, %out;\n")
	for i, s := range f.Sources {
		t, _ := alu.ParseType(s.Type)
		r := registerType(t)
		if t.Width == 8 {
			r = "b32"
		}
		fmt.Fprintf(&k, ".reg .%s %%s%d;\n", r, i)
		if r == "pred" {
			fmt.Fprintf(&k, "ld.u32 %%n, [%%in+%d]; and.b32 %%n, %%n, 1; setp.ne.u32 %%s%d, %%n, 0;\n", 8*i, i)
		} else {
			fmt.Fprintf(&k, "ld.%s %%s%d, [%%in+%d];\n", r, i, 8*i)
		}
	}
	var store strings.Builder
	for i, name := range f.Results {
		t, _ := alu.ParseType(name)
		r := registerType(t)
		if t.Width == 8 {
			r = "b32"
		}
		fmt.Fprintf(&k, ".reg .%s %%d%d;\n", r, i)
		if r == "pred" {
			fmt.Fprintf(&store, "selp.u32 %%n, 1, 0, %%d%d; st.u32 [%%out+%d], %%n;\n", i, 8*i)
		} else {
			fmt.Fprintf(&store, "st.%s [%%out+%d], %%d%d;\n", r, 8*i, i)
		}
	}
	names := strings.NewReplacer(
		"$0", "%d0", "$1", "%d1", "$a", "%s0", "$b", "%s1", "$c", "%s2", "$d", "%s3",
	)
	template := names.Replace(f.Template)
	fmt.Fprintf(&k, "%s\n%sret; }\n", template, store.String())
	return k.String()
}

func TestVectors(t *testing.T) {
	v, err := vectors.Read("../../testdata/h200.bin.gz")
	require.NoError(t, err)
	var text strings.Builder
	text.WriteString(".version 8.6\n.target sm_90\n.address_size 64\n")
	for n := range v.Forms {
		text.WriteString(formKernel(n, &v.Forms[n]))
	}
	mem := newMemory(t)
	p := program(t, text.String(), mem)
	in, input := mem.words(t, 4*v.Rows)
	out, output := mem.words(t, 2*v.Rows)
	bad := 0
	for n := range v.Forms {
		f := &v.Forms[n]
		k, err := p.Kernel(fmt.Sprintf("k%d", n))
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			bad++
			continue
		}
		for row := range v.Rows {
			o := v.Operands(f, row)
			copy(input[4*row:], o[:])
		}
		clear(output)
		l := Launch{Kernel: k, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{uint32(v.Rows), 1, 1}}
		require.NoError(t, mem.run(l, in, out), f.Name)
		wrong, rough := false, strings.Contains(f.Name, "approx") || strings.Contains(f.Name, "full")
		for row := range v.Rows {
			for r := range f.Results {
				got, want := output[2*row+r], f.Values[r][row]
				if got != want && !wrong && !rough {
					wrong = true
					t.Errorf("%s: %s row %d result %d: %#x: got %#x, want %#x", f.Name, f.Template, row, r, v.Operands(f, row), got, want)
				}
			}
		}
		if wrong {
			bad++
		}
	}
	t.Log(len(v.Forms), bad)
}
