package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const loops = `.version 7.8
.target sm_80
.address_size 64
.entry alu(.param .u64 out, .param .u32 n) {
	.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<2>;
	ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x; mov.u32 %r3, 0;
L:	add.s32 %r3, %r3, %r2; xor.b32 %r4, %r3, %r1; mad.lo.s32 %r3, %r4, 5, %r2; shl.b32 %r5, %r3, 3;
	or.b32 %r3, %r5, 1; and.b32 %r3, %r3, 65535; add.s32 %r1, %r1, -1; setp.ne.s32 %p1, %r1, 0;
	@%p1 bra L;
	mad.wide.u32 %rd2, %r2, 4, %rd1; st.u32 [%rd2], %r3; ret;
}
.entry mem(.param .u64 out, .param .u32 n) {
	.reg .b32 %r<8>; .reg .b64 %rd<6>; .reg .pred %p<2>;
	ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x; mad.wide.u32 %rd2, %r2, 8, %rd1;
L:	ld.u64 %rd3, [%rd2]; add.s64 %rd3, %rd3, 1; st.u64 [%rd2], %rd3; ld.volatile.u64 %rd4, [%rd2+512];
	add.s32 %r1, %r1, -1; setp.ne.s32 %p1, %r1, 0;
	@%p1 bra L;
	ret;
}`

func benchmark(b *testing.B, kernel string, threads uint32, insts int) {
	mem := newMemory(b)
	p := program(b, loops, mem)
	k, err := p.Kernel(kernel)
	require.NoError(b, err)
	out, _ := mem.words(b, 256)
	for b.Loop() {
		l := Launch{Kernel: k, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}}
		require.NoError(b, mem.run(l, out, 100_000))
	}
	b.ReportMetric(float64(b.N)*100_000*float64(threads)*float64(insts)/b.Elapsed().Seconds()/1e6, "Minst/s")
}

func BenchmarkALU32(b *testing.B) { benchmark(b, "alu", 32, 9) }
func BenchmarkALU1(b *testing.B)  { benchmark(b, "alu", 1, 9) }
func BenchmarkMem32(b *testing.B) { benchmark(b, "mem", 32, 7) }
func BenchmarkMem1(b *testing.B)  { benchmark(b, "mem", 1, 7) }

// A launch allocates, but no instruction does, however many are executed.
func TestInstructionsDoNotAllocate(t *testing.T) {
	mem := newMemory(t)
	p := program(t, loops, mem)
	out, _ := mem.words(t, 256)
	for _, name := range []string{"alu", "mem"} {
		k, err := p.Kernel(name)
		require.NoError(t, err)
		for _, threads := range []uint32{1, 32, 40} {
			count := func(n uint64) float64 {
				return testing.AllocsPerRun(5, func() {
					l := Launch{Kernel: k, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}}
					require.NoError(t, mem.run(l, out, n))
				})
			}
			// The runtime allocates now and then too.
			require.Less(t, count(10_000), count(10)+20, "%s with %d threads", name, threads)
		}
	}
}
