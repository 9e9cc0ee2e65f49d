package ptx_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/edsrzf/mmap-go"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/accel/ptx"
	"github.com/nicless/nicless/internal/await"
)

const head = ".version 8.0\n.target sm_90\n.address_size 64\n"

// memory returns n bytes that are not Go's, which a space reaches, between pages that it does not reach.
func memory(t *testing.T, space *ptx.Space, n int) (b []byte, address uint64) {
	t.Helper()
	const page = 4096
	m, err := mmap.MapRegion(nil, n+2*page, mmap.RDWR, mmap.ANON, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmap()) })
	b = m[page:][:n]
	require.NoError(t, space.Add(ptx.AddressOf(b), uint64(n)))
	return b, ptx.AddressOf(b)
}

func load(t *testing.T, space *ptx.Space, text string) *ptx.Program {
	t.Helper()
	p, err := ptx.Load(space, ptx.Module{Name: "test.ptx", Text: head + text})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func kernel(t *testing.T, p *ptx.Program, name string) *ptx.Kernel {
	t.Helper()
	k, err := p.Kernel(name)
	require.NoError(t, err)
	return k
}

func shape(blocks, threads uint32) ptx.Launch {
	return ptx.Launch{Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}}
}

// Arguments are values of Go in the places of the kernel's parameters, and what does not fit is refused with
// both sizes.
func TestArguments(t *testing.T) {
	var space ptx.Space
	k := kernel(t, load(t, &space, `
.entry _Z4mixajmfdb(.param .u8 a, .param .u32 b, .param .u64 c, .param .f32 d, .param .f64 e, .param .align 4 .b8 f[12]) { ret; }`), "mixajmfdb"[:4])
	require.EqualValues(t, 44, k.ParamBytes())
	twelve := []byte("abcdefghijkl")
	b, err := k.Arguments(int8(-1), uint32(7), 1<<40, float32(1), 2.0, twelve)
	require.NoError(t, err)
	want := append([]byte{0xff, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0x40}, twelve...)
	require.Equal(t, want, b)
	for _, c := range []struct {
		args []any
		why  string
	}{
		{[]any{1, 2, 3}, "has 6 parameters, not 3"},
		{[]any{256, 0, 0, float32(0), 0.0, twelve}, "parameter 0 (a) has 1 bytes: 256 does not fit"},
		{[]any{-129, 0, 0, float32(0), 0.0, twelve}, "parameter 0 (a) has 1 bytes: -129 does not fit"},
		{[]any{0, uint64(1 << 32), 0, float32(0), 0.0, twelve}, "parameter 1 (b) has 4 bytes: 4294967296 does not fit"},
		{[]any{0, 0, 0, 0.0, 0.0, twelve}, "parameter 3 (d) has 4 bytes: a number of 64 bits does not fit"},
		{[]any{0, 0, 0, float32(0), 0.0, twelve[:11]}, "parameter 5 (f) has 12 bytes: 11 bytes do not fit"},
		{[]any{0, 0, "x", float32(0), 0.0, twelve}, "a string is no argument"},
	} {
		_, err := k.Arguments(c.args...)
		require.ErrorContains(t, err, c.why)
	}
}

// Each kind of mistake ends the grid with an error that says who did what where, and the program and its
// space go on.
func TestFaults(t *testing.T) {
	var space ptx.Space
	_, at := memory(t, &space, 4096)
	p := load(t, &space, `
.entry store(.param .u64 at) {
	.reg .b64 %a; .reg .b32 %t; .reg .pred %p;
	ld.param.u64 %a, [at];
	mov.u32 %t, %tid.x;
	setp.ne.u32 %p, %t, 37;
	@%p ret;
	st.u32 [%a], %t;
	ret;
}
.entry stop() { trap; }`)
	for _, c := range []struct {
		at   uint64
		kind ptx.Kind
		why  string
	}{
		{at + 4096, ptx.Unreachable, "cannot be reached"},
		{at - 4, ptx.Unreachable, "cannot be reached"},
		{0, ptx.Unreachable, "4 bytes at generic address 0x0 cannot be reached"},
		{1 << 63, ptx.Unreachable, "cannot be reached"},
		{at + 2, ptx.Misaligned, "is not a multiple of 4 bytes"},
	} {
		l := shape(1, 64)
		var err error
		k := kernel(t, p, "store")
		l.Params, err = k.Arguments(c.at)
		require.NoError(t, err)
		var f *ptx.Fault
		require.ErrorAs(t, k.Run(t.Context(), l), &f)
		require.Equal(t, ptx.Fault{
			Kernel: "store", Thread: 37, Line: 11, Column: 2, Kind: c.kind, Why: f.Why,
		}, *f)
		require.ErrorContains(t, f, c.why)
		require.ErrorContains(t, f, "store, block [0 0 0], thread 37, at PTX line 11:2: ")

		l.Params, err = k.Arguments(at)
		require.NoError(t, err)
		require.NoError(t, k.Run(t.Context(), l), "after a fault")
	}
	var f *ptx.Fault
	require.ErrorAs(t, kernel(t, p, "stop").Run(t.Context(), shape(1, 1)), &f)
	require.Equal(t, ptx.Trap, f.Kind)
}

// Threads that all wait for each other are told where.
func TestDeadlock(t *testing.T) {
	var space ptx.Space
	p := load(t, &space, `
.entry k() {
	.reg .b32 %t; .reg .pred %p;
	mov.u32 %t, %tid.x;
	setp.lt.u32 %p, %t, 32;
	@%p bra first;
	bar.sync 1, 64;
	ret;
first:
	bar.sync 2, 64;
	ret;
}`)
	var d *ptx.Deadlock
	require.ErrorAs(t, kernel(t, p, "k").Run(t.Context(), shape(1, 64)), &d)
	require.Len(t, d.Waits, 2)
	require.ErrorContains(t, d, "warp 0, lanes 0xffffffff, at PTX line 13:2: at barrier 2, to which 32 of 64 threads have come")
	require.ErrorContains(t, d, "warp 1, lanes 0xffffffff, at PTX line 10:2: at barrier 1, to which 32 of 64 threads have come")
}

// A kernel that does not end goes on until its context ends, and its program is closed after that only.
func TestEndlessKernel(t *testing.T) {
	var space ptx.Space
	words, at := memory(t, &space, 4096)
	p := load(t, &space, `
.entry k(.param .u64 at) {
	.reg .b64 %a;
	ld.param.u64 %a, [at];
L:	st.release.sys.u32 [%a], 1;
	bra L;
}`)
	k := kernel(t, p, "k")
	l := shape(2, 64)
	l.Workers = 2
	var err error
	l.Params, err = k.Arguments(at)
	require.NoError(t, err)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() { ended <- k.Run(ctx, l) }()
	await.Until(t, "the kernel runs", func() bool { return words[0] != 0 })
	require.ErrorContains(t, p.Close(), "1 grids of the program are executed")
	cancel(why)
	require.ErrorIs(t, await.Receive(t, "the kernel ends", ended), why)
}

// Texts that are no program are refused with the place; a form that is not known is an error of its kernel
// alone.
func TestBadPrograms(t *testing.T) {
	var space ptx.Space
	whole, err := os.ReadFile("../testdata/poster.ptx")
	require.NoError(t, err)
	for text, why := range map[string]string{
		"":                               "test.ptx: 1:1: .version is expected at the beginning of PTX, not the end of the text",
		string(whole[:len(whole)/2]):     "not the end of the text",
		".version 99.0\n.target sm_90\n": "test.ptx: 1:10: version 99.0; known are 6.0 to 9.x",
		".version 3.2\n.target sm_90\n":  "test.ptx: 1:10: version 3.2; known are 6.0 to 9.x",
		".version 8.0\n.target gpu\n":    "test.ptx: 2:1: gpu is no target, such as sm_80",
		".version 8.0\n.target sm_90\n.address_size 32": "test.ptx: addresses have 32 bits; only 64 are supported",
	} {
		_, err := ptx.Load(&space, ptx.Module{Name: "test.ptx", Text: text})
		require.ErrorContains(t, err, why, "%.40s", text)
	}
	p := load(t, &space, `
.extern .func f;
.entry calls() { call f; ret; }
.entry frobs() { .reg .b32 %r; frob.u32 %r, %r; ret; }
.entry rets() { ret; }`)
	_, err = p.Kernel("calls")
	require.EqualError(t, err, "calls: PTX line 6:18: f is not defined")
	_, err = p.Kernel("frobs")
	require.EqualError(t, err, "frobs: 7:32: frob.u32: frob is no instruction that is known")
	_, err = p.Kernel("sleeps")
	require.ErrorIs(t, err, ptx.ErrNoKernel)
	require.EqualError(t, err, "sleeps: no such kernel; there are: calls, frobs, rets")
	require.NoError(t, kernel(t, p, "rets").Run(t.Context(), shape(1, 1)))
}

// A launch's wishes are compared with what is possible before a lane runs.
func TestImpossibleLaunches(t *testing.T) {
	var space ptx.Space
	k := kernel(t, load(t, &space, ".entry k(.param .u64 a) .maxntid 64, 1, 1 { ret; }"), "k")
	params := make([]byte, 8)
	for why, l := range map[string]ptx.Launch{
		"blocks of":  {Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{65, 1, 1}, Params: params},
		"[1 0 1]":    {Grid: [3]uint32{1, 0, 1}, Block: [3]uint32{1, 1, 1}, Params: params},
		"parameters": {Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: params[:4]},
		"shared": {Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: params,
			Shared: 1 << 40},
		"local memory": {Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: params, Stack: 1 << 40},
	} {
		err := k.Run(t.Context(), l)
		require.ErrorIs(t, err, ptx.ErrLaunch, why)
		require.ErrorContains(t, err, why)
		require.ErrorIs(t, k.Check(l), ptx.ErrLaunch)
	}
}

// printf of lanes is written in lines that are whole.
func TestPrint(t *testing.T) {
	var space ptx.Space
	p := load(t, &space, `
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 form[12] = {108, 97, 110, 101, 32, 37, 100, 32, 37, 115, 10, 0};
.global .align 1 .b8 word[3] = {111, 107, 0};
.entry k() {
	.local .align 8 .b8 args[16];
	.reg .b64 %a, %f, %w; .reg .b32 %t;
	mov.u64 %a, args;
	cvta.local.u64 %a, %a;
	mov.u32 %t, %tid.x;
	st.u32 [%a], %t;
	mov.u64 %w, word;
	cvta.global.u64 %w, %w;
	st.u64 [%a+8], %w;
	mov.u64 %f, form;
	cvta.global.u64 %f, %f;
	{ .param .b64 pf; .param .b64 pa; .param .b32 pr;
	st.param.u64 [pf], %f; st.param.u64 [pa], %a;
	call (pr), vprintf, (pf, pa); }
	ret;
}`)
	var out bytes.Buffer
	l := shape(1, 2)
	l.Print = &out
	require.NoError(t, kernel(t, p, "k").Run(t.Context(), l))
	require.Equal(t, "lane 0 ok\nlane 1 ok\n", out.String())
}
