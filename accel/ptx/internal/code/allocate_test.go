package code

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/stretchr/testify/require"
)

// labels returns a kernel of n labels and n registers, of which each lives from its label to the end, because
// all labels are in one loop.
func labels(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {\n.reg .b32 %%r<%d>; .reg .pred %%p;\n", n)
	b.WriteString("setp.ne.u32 %p, %r0, 0;\n")
	for k := 1; k < n; k++ {
		fmt.Fprintf(&b, "L%d: add.u32 %%r%d, %%r%d, %%r%d; @%%p bra L%d;\n", k, k, k-1, k, n-k)
	}
	b.WriteString("ret; }\n")
	return b.String()
}

func build(t testing.TB, text string) *Module {
	s, err := syntax.Parse(text)
	require.NoError(t, err)
	m, err := Build(s)
	require.NoError(t, err)
	return m
}

// A text of strangers takes no more memory than some times what it has itself.
func TestManyLabels(t *testing.T) {
	s, err := syntax.Parse(labels(40_000))
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := Build(s)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.NoError(t, m.Functions[0].Err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20))
	require.Equal(t, 40_000, m.Functions[0].Slots)
}

func TestTooManyValues(t *testing.T) {
	m := build(t, labels(maxSlots+100))
	require.EqualError(t, m.Functions[0].Err,
		"k: 4:1: 65636 values live at a time; at most 65536 are possible, as many as local memory has room for")
}

// Values that do not live at the same time share slots, also across blocks.
func TestShares(t *testing.T) {
	m := build(t, `.version 8.0
.target sm_90
.address_size 64
.entry k(.param .u64 out) {
	.reg .b64 %a, %b, %c, %d, %n; .reg .pred %p;
	ld.param.u64 %a, [out];
	mov.u64 %n, 3;
L:	add.u64 %b, %a, 1;     // %b ends before %c begins
	add.u64 %c, %b, 1;
	setp.eq.u64 %p, %c, 9;
	@%p bra E;
	st.u64 [%a], %c;
E:	mov.u64 %d, 4;         // %d begins after the end of %c
	st.u64 [%a], %d;
	sub.u64 %n, %n, 1;     // %a and %n live in all rounds
	setp.ne.u64 %p, %n, 0;
	@%p bra L;
	ret;
}`)
	require.NoError(t, m.Functions[0].Err)
	require.Equal(t, 3, m.Functions[0].Slots)
	require.Equal(t, 1, m.Functions[0].Predicates)
}

func TestManyTargets(t *testing.T) {
	const names, jumps = 1000, 1100
	var b strings.Builder
	b.WriteString(".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {\n.reg .b32 %r;\nL: ret;\nT: .branchtargets L")
	b.WriteString(strings.Repeat(", L", names-1) + ";\n" + strings.Repeat("brx.idx %r, T;\n", jumps) + "}\n")
	m := build(t, b.String())
	require.ErrorContains(t, m.Functions[0].Err, "k: 1056:1: brx.idx: the targets of the function's tables")
	require.ErrorContains(t, m.Functions[0].Err, "more than 1048576")
}

func BenchmarkBuild(b *testing.B) {
	texts := map[string]string{"labels": labels(8000)}
	files, err := filepath.Glob("../../../testdata/*.ptx")
	require.NoError(b, err)
	more, err := filepath.Glob(os.Getenv("PTX_CORPUS"))
	require.NoError(b, err)
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		require.NoError(b, err)
		texts[filepath.Base(name)] = string(text)
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				build(b, text)
			}
		})
	}
}
