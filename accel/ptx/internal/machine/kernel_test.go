package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/accel/ptx/internal/order"
)

// A rig runs kernels of a text.
type rig struct {
	t    testing.TB
	mem  *memory
	prog *Program
	out  bytes.Buffer

	cooperative bool
	order       *order.Memory // nil: none
	stack       uint64        // 0: 4096
}

func newRig(t testing.TB, text string) *rig {
	r := &rig{t: t, mem: newMemory(t)}
	r.prog = program(t, ".version 8.0\n.target sm_90\n.address_size 64\n"+text, r.mem)
	return r
}

// run runs a kernel, whose first parameter is memory of n words, and returns them.
func (r *rig) run(kernel string, blocks, threads uint32, n int, params ...uint64) ([]uint64, error) {
	k, err := r.prog.Kernel(kernel)
	if err != nil {
		return nil, err
	}
	at, words := r.mem.words(r.t, n)
	return words, r.mem.run(Launch{
		Kernel: k, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1},
		Stack: cmp.Or(r.stack, 4096), Print: &r.out, Workers: 2, Cooperative: r.cooperative, Order: r.order,
	}, append([]uint64{at}, params...)...)
}

const prelude = `
	.reg .b64 %out, %o; .reg .b32 %tid, %n; .reg .pred %p, %q;
	ld.param.u64 %out, [out]; mov.u32 %tid, %tid.x; mad.wide.u32 %o, %tid, 8, %out;
`

func TestRecursion(t *testing.T) {
	r := newRig(t, `
.func (.param .b64 r) fib(.param .b32 n) {
	.reg .b32 %a; .reg .b64 %x, %y; .reg .pred %p;
	ld.param.u32 %a, [n];
	setp.gt.u32 %p, %a, 1;
	@%p bra more;
	cvt.u64.u32 %x, %a;
	st.param.u64 [r], %x;
	ret;
more:
	{ .param .b32 arg; .param .b64 res; add.s32 %a, %a, -1; st.param.u32 [arg], %a; call (res), fib, (arg); ld.param.u64 %x, [res]; }
	{ .param .b32 arg; .param .b64 res; add.s32 %a, %a, -1; st.param.u32 [arg], %a; call (res), fib, (arg); ld.param.u64 %y, [res]; }
	add.u64 %x, %x, %y;
	st.param.u64 [r], %x;
	ret;
}
.entry k(.param .u64 out) {`+prelude+`
	.reg .b64 %x;
	.param .b32 arg; .param .b64 res;
	st.param.u32 [arg], %tid;
	call (res), fib, (arg);
	ld.param.u64 %x, [res];
	st.u64 [%o], %x;
	ret;
}`)
	words, err := r.run("k", 1, 16, 16)
	require.NoError(t, err)
	require.Equal(t, []uint64{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610}, words)
}

// A lock that all lanes of a warp take, one after another, and lanes that wait for a lane of their own warp.
func TestLockInWarp(t *testing.T) {
	r := newRig(t, `
.entry k(.param .u64 out) {`+prelude+`
	.reg .b64 %v; .reg .b32 %l;
L:	atom.acquire.gpu.global.cas.b32 %l, [%out], 0, 1;
	setp.ne.u32 %p, %l, 0;
	@%p bra L;
	ld.u64 %v, [%out+8];
	add.u64 %v, %v, 1;
	st.u64 [%out+8], %v;
	st.release.gpu.b32 [%out], 0;
	ret;
}
.entry chain(.param .u64 out) {`+prelude+`
	.reg .b32 %v;
W:	ld.acquire.gpu.u32 %v, [%out];
	setp.ne.u32 %p, %v, %tid;
	@%p bra W;
	add.u32 %v, %v, 1;
	st.release.gpu.u32 [%out], %v;
	ret;
}
.entry down(.param .u64 out) {`+prelude+`
	.reg .b32 %v, %w;
	sub.u32 %w, 63, %tid;
W:	ld.acquire.gpu.u32 %v, [%out];
	setp.ne.u32 %p, %v, %w;
	@%p bra W;
	add.u32 %v, %v, 1;
	st.release.gpu.u32 [%out], %v;
	ret;
}`)
	words, err := r.run("k", 2, 64, 2)
	require.NoError(t, err)
	require.EqualValues(t, 128, words[1])
	for _, k := range []string{"chain", "down"} {
		words, err = r.run(k, 1, 64, 2)
		require.NoError(t, err)
		require.EqualValues(t, 64, words[0])
	}
}

// Each element of a vector is extended to the width of its own register.
func TestVectorLoads(t *testing.T) {
	r := newRig(t, `
.entry k(.param .u64 out) {`+prelude+`
	.reg .b16 %h; .reg .b32 %a, %b; .reg .b64 %x, %y; .reg .b128 %z;
	st.u64 [%out], 0xfc82fe80;
	ld.v2.s8 {%a, %x}, [%out];
	st.u64 [%out+8], %x;
	cvt.u64.u32 %x, %a;
	st.u64 [%out+16], %x;
	add.u64 %x, %x, 1; // of a register with more bits than it has, the sum would be another
	st.u64 [%out+24], %x;
	ld.v4.s8 {%h, %a, _, %y}, [%out];
	cvt.s64.s16 %x, %h;
	st.u64 [%out+32], %x;
	cvt.s64.s32 %x, %a;
	st.u64 [%out+40], %x;
	st.u64 [%out+48], %y;
	ld.v4.u16 {%h, %x, _, %b}, [%out];
	st.u64 [%out+56], %x;
	ld.v2.s16 {%x, %a}, [%out];
	shr.u32 %a, %a, 1;
	mov.b64 %y, {%a, %b};
	st.u64 [%out+64], %x;
	st.u64 [%out+72], %y;
	mov.b64 {_, %a}, %x;
	cvt.u64.u32 %x, %a;
	st.u64 [%out+80], %x;
	ld.b128 _, [%out];
	ld.b128 %z, [%out];
	mov.b128 {%x, _}, %z;
	st.u64 [%out+88], %x;
	ret;
}`)
	w, err := r.run("k", 1, 1, 12)
	require.NoError(t, err)
	require.Equal(t, []uint64{
		0xfc82fe80, negative(2), 0xffffff80, 0xffffff81,
		negative(128), negative(2), negative(4), 0xfc82,
		negative(0x180), 0x7ffffe41, 0xffffffff, 0xfc82fe80,
	}, w)
}

// negative returns the bits of -n.
func negative(n uint64) uint64 { return -n }

func TestInSpace(t *testing.T) {
	spaces := []string{
		"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry",
	}
	ask := ""
	for k, s := range spaces {
		ask += fmt.Sprintf("isspacep.%s %%p, %%a; selp.u64 %%v, %d, 0, %%p; or.b64 %%x, %%x, %%v;\n", s, 1<<k)
	}
	r := newRig(t, `
.const .b8 last;
.const .b32 c[4];
.global .b32 g;
.shared .b32 s;
.entry k(.param .u64 out) {`+prelude+`
	.local .b64 f;
	.reg .b64 %a, %v, %x;
	brx.idx %tid, T;
T:	.branchtargets A, B, C, D, E, F, G, H, I, J;
A:	mov.u64 %a, %out; bra Q;
B:	mov.u64 %a, g; bra Q;
C:	mov.u64 %a, c; bra Q;
D:	mov.u64 %a, c; add.u64 %a, %a, 15; bra Q;
E:	mov.u64 %a, c; add.u64 %a, %a, 16; bra Q;
F:	mov.u64 %a, last; bra Q;
G:	cvt.u64.u32 %a, s; cvta.shared.u64 %a, %a; bra Q;
H:	mov.u64 %a, f; cvta.local.u64 %a, %a; bra Q;
I:	mov.u64 %a, out; cvta.param.u64 %a, %a; bra Q;
J:	mov.u64 %a, 4096;
Q:	mov.u64 %x, 0;
`+ask+`	st.u64 [%o], %x;
	ret;
}
.entry func(.param .u64 out) { .reg .pred %p; .reg .b64 %x; isspacep.param::func %p, %x; ret; }`)
	const global, constant, shared, local, param = 1, 2, 4 + 8 + 16, 32, 64 + 128
	w, err := r.run("k", 1, 10, 10)
	require.NoError(t, err)
	require.Equal(t, []uint64{
		global, global, constant, constant, global, constant, shared, local, global + param, global,
	}, w)
	_, err = r.run("func", 1, 1, 1)
	require.ErrorContains(t, err, "not param::func")
}

// Additions of f32 flush subnormal numbers, except in shared memory. Those of 16 bits keep them.
func TestAtomicFloats(t *testing.T) {
	const small, least = 3, 1 << 23 // a subnormal number, and the least normal one
	r := newRig(t, `
.shared .align 16 .b32 words[4];
.entry k(.param .u64 out) {`+prelude+`
	.reg .b32 %r, %s, %z, %w; .reg .b64 %g; .reg .b16 %h, %i;
	st.u32 [%out], 0x3;         red.global.add.f32 [%out], 0f00000003;
	st.u32 [%out+4], 0x800000;  red.add.f32 [%out+4], 0f807fffff;
	st.u32 [%out+8], 0x80800000; atom.add.f32 %r, [%out+8], 0f00000003;
	st.u32 [%out+12], 0x80000001; atom.add.f32 %r, [%out+12], 0f80000002;
	mov.u32 %s, words;
	st.shared.u32 [%s], 0x3;    red.shared.add.f32 [%s], 0f00000003;
	cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g;
	st.shared.u32 [%s+4], 0x800000; atom.add.f32 %r, [%g+4], 0f807fffff;
	ld.shared.v2.u32 {%r, %s}, [%s];
	st.v2.u32 [%out+16], {%r, %s};
	mov.u32 %z, 1; mov.b16 %h, 1; mov.b16 %i, 0x8002;
	st.v2.u32 [%out+24], {%z, %z};
	red.global.add.noftz.v2.f16x2 [%out+24], {%z, 0x10001};
	st.v2.u32 [%out+32], {%z, %z};
	atom.global.min.noftz.v4.f16 {%h, _, _, %i}, [%out+32], {%h, %i, %h, %i};
	mov.b32 %w, {%h, %i};
	st.u32 [%out+40], %w;
	st.u32 [%out+44], 0x10001; red.global.add.noftz.bf16 [%out+44], %h;
	ret;
}
.entry old(.param .u64 out) {`+prelude+` red.global.add.f16x2 [%out], 1; ret; }
.entry keep(.param .u64 out) {`+prelude+` red.global.add.noftz.f32 [%out], 1; ret; }
.entry shared(.param .u64 out) {`+prelude+` .reg .b32 %r; red.shared.add.v2.f32 [%r], {%r, %r}; ret; }
.entry odd(.param .u64 out) {`+prelude+` .reg .b32 %r; red.global.add.v4.f32 [%out+8], {%r, %r, %r, %r}; ret; }
.entry end(.param .u64 out) {`+prelude+` .reg .b32 %r; red.global.add.v4.f32 [%out+48], {%r, %r, %r, %r}; ret; }
`)
	w, err := r.run("k", 1, 1, 6)
	require.NoError(t, err)
	var got []uint32
	for _, v := range w {
		got = append(got, uint32(v), uint32(v>>32))
	}
	require.Equal(t, []uint32{
		0, least, 0x80800000, 0x80000000, 2 * small, 1, // -0 stays negative
		2, 0x10002,
		0x80020001, 0x80020001, 1, 0x10002,
	}, got)
	for kernel, want := range map[string]string{
		"old":    "which .noftz says",
		"keep":   ".noftz does not go with .f32",
		"shared": "is not supported",
		"odd":    "is not a multiple of 16",
		"end":    "16 bytes at global address",
	} {
		_, err := r.run(kernel, 1, 1, 6)
		require.ErrorContains(t, err, want)
	}
}

func TestBarrierAndShared(t *testing.T) {
	r := newRig(t, `
.shared .align 4 .b32 tile[64];
.entry k(.param .u64 out) {`+prelude+`
	.reg .b32 %a, %v; .reg .b64 %x;
	mov.u32 %a, tile;
	mad.lo.u32 %a, %tid, 4, %a;
	st.shared.u32 [%a], %tid;
	bar.sync 0;
	mov.u32 %a, tile;
	sub.u32 %v, 63, %tid;
	mad.lo.u32 %a, %v, 4, %a;
	ld.shared.u32 %v, [%a];
	cvt.u64.u32 %x, %v;
	st.u64 [%o], %x;
	ret;
}
.entry red(.param .u64 out) {`+prelude+`
	.reg .b32 %v; .reg .b64 %x;
	and.b32 %v, %tid, 1;
	setp.eq.u32 %p, %v, 0;
	bar.red.popc.u32 %v, 1, %p;
	cvt.u64.u32 %x, %v;
	bar.red.and.pred %q, 2, %p;
	selp.u64 %x, 1000, %x, %q;
	bar.red.or.pred %q, 2, %p;
	@!%q add.u64 %x, %x, 1000;
	st.u64 [%o], %x;
	ret;
}
.entry early(.param .u64 out) {`+prelude+`
	setp.lt.u32 %p, %tid, 40;
	@%p bra W;
	ret;
W:	bar.sync 0;
	st.u64 [%o], 7;
	ret;
}
.entry stuck(.param .u64 out) {`+prelude+`
	setp.lt.u32 %p, %tid, 40;
	@%p bra W;
	bar.sync 1;
	ret;
W:	bar.sync 0;
	ret;
}`)
	words, err := r.run("k", 1, 64, 64)
	require.NoError(t, err)
	for i := range words {
		require.EqualValues(t, 63-i, words[i])
	}
	words, err = r.run("red", 1, 64, 64)
	require.NoError(t, err)
	require.EqualValues(t, 32, words[5])
	words, err = r.run("early", 1, 64, 64)
	require.NoError(t, err)
	require.EqualValues(t, 7, words[39])
	require.EqualValues(t, 0, words[40])
	_, err = r.run("stuck", 1, 64, 64)
	require.ErrorContains(t, err, "wait for each other")
}

func TestWarpOperations(t *testing.T) {
	r := newRig(t, `
.entry k(.param .u64 out) {`+prelude+`
	.reg .b32 %v, %w, %m; .reg .b64 %x;
	mul.lo.u32 %v, %tid, 3;
	shfl.sync.bfly.b32 %w|%p, %v, 1, 31, -1;
	cvt.u64.u32 %x, %w;
	st.u64 [%o], %x;
	and.b32 %w, %tid, 3;
	match.any.sync.b32 %m, %w, -1;
	st.u32 [%o+256], %m;
	setp.gt.u32 %p, %tid, 15;
	vote.sync.ballot.b32 %m, %p, -1;
	st.u32 [%o+512], %m;
	redux.sync.add.u32 %m, %tid, -1;
	st.u32 [%o+768], %m;
	@%p bra H;
	shfl.sync.idx.b32 %w, %tid, 3, 31, 0xffff;
	bra E;
H:	shfl.sync.idx.b32 %w, %tid, 20, 31, 0xffff0000;
E:	st.u32 [%o+1024], %w;
	elect.sync %w|%q, -1;
	selp.u32 %w, 1, 0, %q;
	st.u32 [%o+1280], %w;
	ret;
}`)
	w, err := r.run("k", 1, 32, 192)
	require.NoError(t, err)
	for i := range 32 {
		require.EqualValues(t, 3*(i^1), w[i])
		require.EqualValues(t, 0x11111111<<(i&3)&0xffffffff, w[32+i])
		require.EqualValues(t, 0xffff0000, w[64+i])
		require.EqualValues(t, 496, w[96+i])
		require.EqualValues(t, map[bool]int{true: 20, false: 3}[i > 15], w[128+i])
		require.EqualValues(t, map[bool]int{true: 1, false: 0}[i == 0], w[160+i])
	}
}

func TestPrint(t *testing.T) {
	r := newRig(t, `
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[30] = {37, 100, 32, 37, 53, 46, 50, 102, 32, 37, 108, 108, 120, 32, 37, 115, 33, 10, 0};
.global .align 1 .b8 word[4] = {97, 98, 99, 0};
.entry k(.param .u64 out) {`+prelude+`
	.local .align 8 .b8 args[32];
	.reg .b64 %a, %f; .reg .b32 %v;
	mov.u64 %a, args;
	st.local.u32 [%a], -5;
	st.local.f64 [%a+8], 0d3FF8000000000000;
	st.local.u64 [args+16], 0xabcdef0123;
	mov.u64 %f, word;
	st.local.u64 [args+24], %f;
	cvta.local.u64 %a, %a;
	mov.u64 %f, text;
	cvta.global.u64 %f, %f;
	{ .param .b64 p0; st.param.b64 [p0], %f; .param .b64 p1; st.param.b64 [p1], %a; .param .b32 r0;
	call.uni (r0), vprintf, (p0, p1); ld.param.b32 %v, [r0]; }
	cvt.u64.u32 %a, %v;
	st.u64 [%o], %a;
	ret;
}`)
	w, err := r.run("k", 1, 1, 1)
	require.NoError(t, err)
	require.Equal(t, "-5  1.50 abcdef0123 abc!\n", r.out.String())
	require.EqualValues(t, 4, w[0])
}

func TestFaults(t *testing.T) {
	r := newRig(t, `
.func f(.param .b64 n) { .reg .b64 %x; .local .b8 big[64]; ld.param.u64 %x, [n]; { .param .b64 a; st.param.u64 [a], %x; call f, (a); } ret; }
.entry deep(.param .u64 out) { .param .b64 a; call f, (a); ret; }
.entry trap(.param .u64 out) {`+prelude+` setp.eq.u32 %p, %tid, 5; @%p trap; ret; }
.entry null(.param .u64 out) { .reg .b64 %x; mov.u64 %x, 64; st.u64 [%x+8], %x; ret; }
.entry odd(.param .u64 out) {`+prelude+` st.u64 [%o+4], %o; ret; }
.entry shared(.param .u64 out) { .shared .b32 s[4]; .reg .b32 %v; ld.shared.u32 %v, [s+16]; ret; }
.entry call(.param .u64 out) { .reg .b64 %x; mov.u64 %x, 4096; call %x, p; p: .callprototype _ (); ret; }
.entry unknown(.param .u64 out) { wgmma.fence.sync.aligned; ret; }
`)
	for kernel, want := range map[string]string{
		"deep":    "stack overflow: f is",
		"trap":    "trap, block [0 0 0], thread 5, at PTX line 10:",
		"null":    "8 bytes at generic address 0x48 cannot be reached",
		"odd":     "is not a multiple of 8",
		"shared":  "4 bytes at shared address 0x10 cannot be reached",
		"call":    "call of address 0x1000, at which there is no function",
		"unknown": "wgmma is no instruction that is known",
	} {
		_, err := r.run(kernel, 1, 32, 64)
		require.ErrorContains(t, err, want)
	}
}

func TestMBarrier(t *testing.T) {
	r := newRig(t, `
.shared .align 8 .b64 bar;
.shared .align 16 .b8 room[256];
.entry k(.param .u64 out) {`+prelude+`
	.reg .b64 %s, %x; .reg .b32 %a, %r;
	mov.u32 %a, bar;
	mov.u32 %r, room;
	setp.eq.u32 %p, %tid, 0;
	@%p mbarrier.init.shared::cta.b64 [%a], 32;
	bar.sync 0;
	@!%p bra A;
	st.u64 [%out+256], 77;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%a], 16;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r+32], [%out+256], 16, [%a];
	bra W;
A:	mbarrier.arrive.shared::cta.b64 %s, [%a];
W:	mbarrier.try_wait.parity.shared::cta.b64 %q, [%a], 0;
	@!%q bra W;
	ld.shared.u64 %x, [room+32];
	st.u64 [%o], %x;
	ret;
}`)
	w, err := r.run("k", 1, 32, 64)
	require.NoError(t, err)
	for i := range 32 {
		require.EqualValues(t, 77, w[i])
	}
}
