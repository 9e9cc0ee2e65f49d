package machine

import (
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/stretchr/testify/require"
)

// refused are texts that no GPU executes, and what is said of their kernel k.
var refused = []struct{ name, text, want string }{
	{
		"madc without modifiers", `.entry k(.param .u64 out) { madc; ret; }`,
		"madc: it has one type of 32 or 64 bits",
	},
	{
		"atomic addition of 16 bits",
		`.entry k(.param .u64 out) {` + prelude + `.reg .b16 %h; mov.b16 %h, 1; red.global.add.u16 [%o], %h; ret; }`,
		".add of .u16 is not supported",
	},
	{
		"an offset whose end has more than 63 bits",
		`.entry k(.param .u64 out) { .reg .b64 %x; ld.param.u64 %x, [out+0x7fffffffffffffff]; ret; }`,
		"it reaches 8 bytes at byte 9223372036854775807 of a variable of 8",
	},
	{
		"local variables that no memory has",
		`.entry k(.param .u64 out) { .local .b8 a[1<<40], b[1<<40]; ret; }`,
		"the function has more than 1099511627776 bytes of local memory",
	},
	{
		"an initial value far behind", `.global .b8 g[2][1<<38] = {{1}, {1}}; .entry k(.param .u64 out) { ret; }`,
		"there is an initial value at byte 274877906944; at most 268435456 bytes can have any",
	},
	{
		"an array whose size has more than 64 bits",
		`.global .b8 g[][1<<23][1<<40] = {{{1}}, {{1}}}; .entry k(.param .u64 out) { ret; }`,
		"g has more than 1099511627776 bytes",
	},
	{
		"a number with a fraction as an integer", `.global .u32 g = 1.5; .entry k(.param .u64 out) { ret; }`,
		"a floating-point number is no value of type .u32",
	},
	{
		"a reduction of more bytes than an address has",
		`.shared .align 16 .b8 s[64]; .entry k(.param .u64 out) {` + prelude + `.reg .b64 %l; .reg .b32 %a;
		mov.u32 %a, s; cvta.shared.u64 %l, s; mov.u32 %n, k+0xbfffffffffffffd0;
		cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%out], [%a+48], %n; ret; }`,
		"mov.u32: the address of k has 64 bits; .u32 is expected",
	},
	{
		"a reduction of a part of a number",
		`.shared .align 16 .b8 s[16]; .entry k(.param .u64 out) {` + prelude + `.reg .b32 %a; mov.u32 %a, s;
		cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%out], [%a], 1; ret; }`,
		"0x1 is not a multiple of 16 bytes",
	},
	{
		"a number that is added to a special register",
		`.entry k(.param .u64 out) { .reg .b32 %a; mov.u32 %a, %ctaid.x+1; ret; }`,
		"a number is added to %ctaid, which only addresses may have",
	},
	{
		"an argument without bytes",
		`.func f(.param .b8 x[1]) { ret; } .entry k(.param .u64 out) { .param .b8 a[0]; call f, (a); ret; }`,
		"call: a has no bytes",
	},
	{
		"a parameter that is a group of registers",
		`.func f(.reg .b32 %r<5>) { ret; } .entry k(.param .u64 out) { call f, (7); ret; }`,
		"%r: a parameter is one register of at most 64 bits",
	},
	{
		"a register for a parameter that is no word",
		`.func f(.param .b8 x[3]) { ret; } .entry k(.param .u64 out) {` + prelude + `call f, (%tid); ret; }`,
		"f: argument 0 has 4 bytes, and the parameter 3",
	},
	{
		"a wide register for a narrow one",
		`.func f(.reg .b32 %r) { ret; } .entry k(.param .u64 out) {` + prelude + `call f, (%o); ret; }`,
		"f: argument 0 has 8 bytes, and the parameter 4",
	},
	{
		"a call of a kernel by its address", `.entry v(.param .b8 x[64]) { ret; }
		.entry k(.param .u64 out) { .reg .b64 %f; .param .b8 a[64]; mov.u64 %f, v;
		call %f, (a), p; p: .callprototype _ (.param .b8 x[64]); ret; }`,
		"v is a kernel, which cannot be called",
	},
}

// A text that is wrong is an error of its module, of its kernel or of a lane, and nothing else.
func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, refusal(t, c.text), c.want)
		})
	}
}

// refusal returns why kernel k of a text is not executed to its end.
func refusal(t *testing.T, text string) error {
	s, err := syntax.Parse(".version 8.0\n.target sm_90\n.address_size 64\n" + text)
	if err != nil {
		return err
	}
	m, err := code.Build(s)
	if err != nil {
		return err
	}
	r := &rig{t: t, mem: newMemory(t)}
	r.prog, err = Link([]*code.Module{m}, r.mem)
	if err != nil {
		return err
	}
	_, err = r.run("k", 1, 32, 64)
	return err
}

// A number that is passed in a register has the bits of that register.
func TestNumberAsArgument(t *testing.T) {
	r := newRig(t, `
.func (.reg .b32 %r) f(.reg .b32 %a) { .reg .pred %p; setp.eq.u32 %p, %a, -1; selp.b32 %r, 1, 0, %p; ret; }
.entry k(.param .u64 out) {`+prelude+` call (%n), f, (-1); st.u32 [%o], %n; ret; }`)
	words, err := r.run("k", 1, 1, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, words[0])
}
