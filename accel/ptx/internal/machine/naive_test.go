package machine

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/naive"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A writer writes a random kernel, which ends, and has no race.
type writer struct {
	*rapid.T
	strings.Builder
	labels int
	depth  int  // of loops and conditions
	inside bool // of a function that the kernel calls
	loops  int  // that have begun, each with a counter of its own
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
func (w *writer) number(n int) int                { return rapid.IntRange(0, n-1).Draw(w.T, "n") }
func (w *writer) one(list ...string) string       { return list[w.number(len(list))] }
func (w *writer) r() string                       { return fmt.Sprintf("%%r%d", w.number(12)) }
func (w *writer) d() string                       { return fmt.Sprintf("%%d%d", w.number(8)) }
func (w *writer) p() string                       { return fmt.Sprintf("%%p%d", w.number(4)) }

// x is a source of 32 bits.
func (w *writer) x() string {
	if w.number(4) == 0 {
		return fmt.Sprint(rapid.Uint32().Draw(w.T, "constant"))
	}
	return w.r()
}

// y is a source of 64 bits.
func (w *writer) y() string {
	if w.number(4) == 0 {
		return fmt.Sprint(rapid.Uint64().Draw(w.T, "constant"))
	}
	return w.d()
}

// guard is a guard, or nothing.
func (w *writer) guard() string {
	switch w.number(4) {
	case 0:
		return "@" + w.p() + " "
	case 1:
		return "@!" + w.p() + " "
	}
	return ""
}

func (w *writer) label() string {
	w.labels++
	return fmt.Sprintf("L%d", w.labels)
}

// statements writes some statements.
func (w *writer) statements() {
	for range 1 + w.number(6) {
		w.statement()
	}
}

func (w *writer) statement() {
	g := w.guard()
	switch w.number(16) {
	case 0, 1, 2:
		op := w.one("add.s32", "sub.u32", "mul.lo.s32", "mul.hi.u32", "mul.hi.s32", "min.s32", "max.u32",
			"and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32", "shr.s32")
		w.line("%s%s %s, %s, %s;", g, op, w.r(), w.x(), w.x())
	case 3:
		w.line("%s%s %s, %s, %s, %s;", g, w.one("mad.lo.s32", "mad.hi.u32", "sad.s32", "prmt.b32",
			"shf.l.wrap.b32", "shf.r.clamp.b32"), w.r(), w.x(), w.x(), w.x())
		w.line("%s%s %s, %s, %d, %d;", g, w.one("bfe.u32", "bfe.s32"), w.r(), w.x(),
			w.number(40), w.number(40))
	case 4:
		w.line("%s%s %s, %s, %s;", g, w.one("add.s64", "sub.s64", "mul.lo.u64", "mul.hi.s64", "and.b64",
			"xor.b64", "min.u64", "max.s64"), w.d(), w.y(), w.y())
	case 5:
		w.line("%s%s %s, %s, %s;", g, w.one("mul.wide.u32", "mul.wide.s32"), w.d(), w.x(), w.x())
	case 6:
		w.line("%s%s %s, %s;", g, w.one("cvt.u32.u64", "cvt.s32.s64", "cvt.sat.s32.s64", "cvt.u32.u64"),
			w.r(), w.d())
	case 7:
		w.line("%s%s %s, %s;", g, w.one("cvt.u64.u32", "cvt.s64.s32", "cvt.s64.s8", "cvt.u64.u16"), w.d(),
			w.r())
	case 8:
		w.line("%ssetp.%s.%s %s, %s, %s;", g, w.one("eq", "ne", "lt", "le", "gt", "ge"), w.one("s32", "u32"), w.p(), w.x(), w.x())
	case 9:
		w.line("%ssetp.%s.%s.%s %s|%s, %s, %s, %s;", g, w.one("eq", "lt", "ge"), w.one("and", "or", "xor"), w.one("s64", "u64"),
			"%p0", "%p1", w.y(), w.y(), w.one("%p2", "!%p3"))
	case 10:
		w.line("%sselp.b32 %s, %s, %s, %s;", g, w.r(), w.x(), w.x(), w.p())
	case 11:
		w.line("%s%s %s, %s;", g, w.one("popc.b32", "clz.b32", "brev.b32", "not.b32", "neg.s32", "abs.s32",
			"mov.b32"), w.r(), w.r())
	case 12:
		w.access(g)
	case 13:
		if w.inside {
			return // a function does not know where global memory is
		}
		w.line("%sred.global.add.u32 [%%out], %s;", g, w.x())
	case 14:
		w.condition()
	default:
		w.loop()
	}
}

// access writes an access of memory that only this lane has.
func (w *writer) access(g string) {
	from, at := w.one("local", "shared"), w.number(7)*8
	base := map[string]string{"local": "%loc", "shared": "%sh"}[from]
	switch w.number(7) {
	case 0:
		w.line("%sst.%s.u32 [%s+%d], %s;", g, from, base, at, w.r())
	case 1:
		w.line("%sst.%s.v2.u32 [%s+%d], {%s, %s};", g, from, base, at, w.r(), w.r())
	case 2:
		w.line("%sld.%s.%s %s, [%s+%d];", g, from, w.one("u32", "s8", "u16"), w.r(), base, at)
	case 3:
		w.line("%sst.%s.u64 [%s+%d], %s;", g, from, base, at, w.d())
	case 4:
		w.line("%sld.%s.%s %s, [%s+%d];", g, from, w.one("u64", "s32", "s8"), w.d(), base, at)
	case 5:
		w.vector(g, from, base)
	default:
		w.line("%satom.shared.%s %s, [%%sh+%d], %s;", g, w.one("add.u32", "exch.b32", "min.s32", "inc.u32", "dec.u32", "or.b32"), w.r(), at, w.r())
	}
}

// vector writes an access of several elements, and moves of the parts of a value.
func (w *writer) vector(g, from, base string) {
	mixed := func(n int) string {
		all := make([]string, n)
		for k := range all {
			all[k] = w.one(w.r(), w.d(), "_")
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	w.line("%sld.%s.v4.%s %s, [%s+%d];", g, from, w.one("s8", "u16", "s16", "b8", "b16"), mixed(4), base, 8*w.number(8))
	w.line("%sld.%s.v2.%s %s, [%s+%d];", g, from, w.one("s8", "u16", "s16", "s32", "u32"), mixed(2), base, 8*w.number(8))
	w.line("%sst.%s.v4.%s [%s+%d], {%s, %s, %s, %s};", g, from, w.one("u8", "b16"), base, 8*w.number(8),
		w.r(), w.d(), w.r(), w.d())
	r := w.r()
	w.line("%sld.%s.v2.s8 {%s, %s}, [%s+%d];", g, from, r, w.d(), base, 8*w.number(8))
	w.line("%sshr.u32 %s, %s, 1;", g, r, r) // shows bits that the register does not have
	w.line("%smov.b64 %s, {%s, %s};", g, w.d(), w.r(), w.x())
	w.line("%smov.b64 {%s, %s}, %s;", g, w.one(w.r(), "_"), w.r(), w.d())
}

// condition writes statements that some lanes leave out.
func (w *writer) condition() {
	if w.depth == 3 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	other, end := w.label(), w.label()
	w.line("@%s bra %s;", w.p(), other)
	w.statements()
	if w.number(2) == 0 {
		w.line("bra %s;", end)
		w.line("%s:", other)
		w.statements()
		w.line("%s:", end)
		return
	}
	w.line("%s:", other)
}

// loop writes statements that each lane repeats as often as its number says, or all as often.
func (w *writer) loop() {
	if w.depth == 3 || w.loops == 8 {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	counter := fmt.Sprintf("%%c%d", w.loops)
	w.loops++
	begin := w.label()
	if w.number(2) == 0 {
		w.line("and.b32 %s, %%tid, %d;", counter, w.number(8))
	} else {
		w.line("mov.u32 %s, %d;", counter, w.number(4))
	}
	w.line("%s:", begin)
	w.statements()
	w.line("setp.ne.u32 %%q, %s, 0;", counter)
	w.line("sub.u32 %s, %s, 1;", counter, counter)
	w.line("@%%q bra %s;", begin)
}

// together writes what all lanes do together.
func (w *writer) together() {
	switch w.number(6) {
	case 0:
		w.line("bar.sync 0;")
	case 1:
		how := w.one("idx", "bfly", "up", "down")
		clamp := "31"
		if how == "up" {
			clamp = "0"
		}
		w.line("shfl.sync.%s.b32 %s|%s, %s, %s, %s, -1;", how, w.r(), w.p(), w.r(), w.x(), clamp)
	case 2:
		w.line("vote.sync.ballot.b32 %s, %s, -1;", w.r(), w.p())
	case 3:
		w.line("vote.sync.%s.pred %s, %s, -1;", w.one("any", "all"), w.p(), w.p())
	case 4:
		w.line("redux.sync.add.u32 %s, %s, -1;", w.r(), w.r())
	default:
		w.line("{ .param .b32 a%d; .param .b64 b%d; .param .b64 z%d;", w.labels, w.labels, w.labels)
		w.line("st.param.b32 [a%d], %s; st.param.b64 [b%d], %s;", w.labels, w.r(), w.labels, w.d())
		w.line("call (z%d), f, (a%d, b%d); ld.param.b64 %s, [z%d]; }", w.labels, w.labels, w.labels, w.d(), w.labels)
		w.labels++
	}
}

const registers = `.reg .b32 %r<12>, %c<8>, %tid; .reg .b64 %d<8>, %out, %loc; .reg .b32 %sh; .reg .pred %p<4>, %q;
.local .align 16 .b8 mine[64]; mov.u64 %loc, mine; mov.u32 %tid, %tid.x;
mov.u32 %sh, words; mad.lo.u32 %sh, %tid, 64, %sh;
`

// kernel writes a module with the kernel k and the function f.
func (w *writer) kernel() string {
	w.line(".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 words[4096];\n")
	w.line(".func (.param .b64 r) f(.param .b32 a, .param .b64 b) {\n%s", registers)
	w.line("mov.u64 %%out, 0; ld.param.b32 %%r0, [a]; ld.param.b64 %%d0, [b];")
	w.inside = true
	w.begin(1)
	loops := w.loops
	for range 3 {
		g := w.guard()
		w.line("%sadd.s32 %s, %s, %s;", g, w.r(), w.x(), w.x())
		w.access(g)
		w.loop()
	}
	w.line("xor.b64 %%d0, %%d0, %%d1; st.param.b64 [r], %%d0; ret; }")
	w.loops, w.inside = loops, false
	w.line(".entry k(.param .u64 to, .param .u64 from) {\n%s", registers)
	w.line("ld.param.u64 %%out, [to]; ld.param.u32 %%r0, [from]; ld.param.u64 %%d0, [from];")
	w.begin(1)
	for range 1 + w.number(5) {
		w.statements()
		w.together()
	}
	w.line("mad.wide.u32 %%out, %%tid, 128, %%out;")
	for k := range 12 {
		w.line("st.global.u32 [%%out+%d], %%r%d;", 8+4*k, k)
	}
	w.floats()
	for k := range 8 {
		w.line("st.global.u64 [%%out+%d], %%d%d;", 56+8*k, k)
	}
	w.line("ret; }")
	return w.String()
}

// floats writes additions of floating-point numbers to what this lane has stored. Small integers are
// subnormal numbers.
func (w *writer) floats() {
	for range 2 {
		w.line("atom.%s.f32 %s, [%%out+%d], %s;", w.one("global.add", "add"), w.r(), 8+4*w.number(12), w.r())
		w.line("red.global.add.v2.f32 [%%out+%d], {%s, %s};", 8+8*w.number(6), w.r(), w.r())
		w.line("atom.global.add.v4.f32 {%s, %s, _, %s}, [%%out+%d], {%s, %s, %s, %s};",
			w.r(), w.r(), w.r(), 16+16*w.number(2), w.r(), w.r(), w.r(), w.r())
		w.line("atom.shared.add.f32 %s, [%%sh+%d], %s;", w.r(), 4*w.number(16), w.r())
	}
	w.line("xor.b32 %%r0, %%r0, %%r1; xor.b32 %%r2, %%r2, %%r3;")
	w.line("st.global.u32 [%%out+120], %%r0; st.global.u32 [%%out+124], %%r2;")
}

// begin gives registers values that differ between lanes. The first have values already.
func (w *writer) begin(first int) {
	for k := first; k < 12; k++ {
		w.line("mad.lo.s32 %%r%d, %%tid, %d, %%r%d;", k, w.number(1000)*w.number(1000), k-1)
	}
	for k := first; k < 8; k++ {
		w.line("mad.wide.u32 %%d%d, %%r%d, %d, %%d%d;", k, k, w.number(1<<20), k-1)
	}
	for k := range 4 {
		w.line("setp.gt.s32 %%p%d, %%r%d, %d;", k, k, w.number(1<<20))
	}
	for _, at := range []int{0, 16, 32, 48} {
		w.line("st.local.v2.u64 [%%loc+%d], {%%d1, %%d2}; st.shared.v2.u64 [%%sh+%d], {%%d1, %%d2};", at, at)
	}
}

// Random kernels compute the same as the naive interpreter.
func TestAgreesWithNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{T: t}
		text := w.kernel()
		threads := rapid.SampledFrom([]int{1, 31, 32, 33, 64}).Draw(t, "threads")
		seed := rapid.Uint64().Draw(t, "seed")
		mem := &memory{}
		defer mem.Close()
		to, out, err := mem.Allocate(64*128+64, 64)
		require.NoError(t, err)
		other := make([]byte, len(out))
		params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, to), seed)

		tree, err := syntax.Parse(text)
		require.NoError(t, err, text)
		require.NoError(t, naive.Run(&naive.Launch{
			Module: tree, Kernel: "k", Threads: threads, Params: params, Memory: other, Base: to,
		}), text)

		p := program(t, text, mem)
		k, err := p.Kernel("k")
		require.NoError(t, err, text)
		l := Launch{Kernel: k, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}, Stack: 4096}
		if rapid.Bool().Draw(t, "late") {
			l.Order = NewOrder(seed)
		}
		require.NoError(t, mem.run(l, to, seed), text)
		for at := 0; at < len(out); at += 4 {
			got, want := binary.LittleEndian.Uint32(out[at:]), binary.LittleEndian.Uint32(other[at:])
			if got != want {
				t.Fatalf("byte %d of thread %d: %#x, and naively %#x\n%s", at%128, at/128, got, want, text)
			}
		}
	})
}
