package syntax

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const header = ".version 7.8\n.target sm_80\n.address_size 64\n"

func parse(t *testing.T, text string) *Module {
	t.Helper()
	m, err := Parse(header + text)
	require.NoError(t, err)
	return m
}

// body parses statements of a function.
func body(t *testing.T, text string) []Statement {
	t.Helper()
	m := parse(t, ".entry k() {\n"+text+"\n}")
	require.Len(t, m.Functions, 1)
	return m.Functions[0].Body.Statements
}

func TestModule(t *testing.T) {
	m := parse(t, `
// a comment
.file	1 "a/b.cu", 1663929487, 5731
# 12 "line of the preprocessor"
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.global .align 1 .b8 $str[5] = {104, 0x69, 041, 10, 0};
.const .align 8 .u64 table[2][2] = {{1, 2U}, {generic($str)+1, 0xff(generic($str)+4)}};
.extern .shared .align 16 .b8 smem[];
.weak .global .attribute(.managed) .f32 f = 0f3F800000;
.global .v4 .f32 many, more[3];
/* a function
*/
.visible .entry _Z1kPv(
	.param .u64 .ptr .global .align 1 _Z1kPv_param_0, .param .align 8 .b8 _Z1kPv_param_1[24]
)
.maxntid 128, 2
.minnctapersm 3
{
	.reg .pred 	%p<7>;
	.reg .b64 	%rd<20>, x;
}
.func f;
.alias g, f;
.section .debug_str
{
$L__info_string0:
.b8 60
.b32 .debug_abbrev
}
`)
	require.Equal(t, []string{"sm_80"}, m.Targets)
	require.Equal(t, [2]int{7, 8}, [2]int{m.Major, m.Minor})
	require.Equal(t, 64, m.AddressSize)
	require.Equal(t, "a/b.cu", m.Sources[1])

	require.Len(t, m.Functions, 3)
	printf, k, f := m.Functions[0], m.Functions[1], m.Functions[2]
	require.Equal(t, Extern, printf.Linkage)
	require.Nil(t, printf.Body)
	require.Equal(t, "func_retval0", printf.Results[0].Name)
	require.Len(t, printf.Params, 2)
	require.True(t, k.Entry)
	require.Equal(t, Visible, k.Linkage)
	require.Equal(t, map[string][3]int64{"maxntid": {128, 2, 1}, "minnctapersm": {3, 1, 1}}, k.Limits)
	require.Equal(t, []int64{24}, k.Params[1].Sizes)
	require.True(t, k.Params[0].Pointer)
	require.Equal(t, "u64", k.Params[0].Type)
	require.Len(t, k.Body.Statements, 3)
	require.Equal(t, 7, k.Body.Statements[0].(*Variable).Count)
	x := k.Body.Statements[2].(*Variable)
	require.Equal(t, []any{"x", -1, "b64"}, []any{x.Name, x.Count, x.Type})
	require.Nil(t, f.Body)
	require.Equal(t, "g", m.Aliases[0].Name)
	require.Equal(t, "f", m.Aliases[0].Of)

	v := m.Variables
	require.Len(t, v, 6)
	require.Equal(t, []uint64{104, 0x69, 041, 10, 0}, values(v[0].Initial))
	table := v[1]
	require.Equal(t, []int64{2, 2}, table.Sizes)
	require.Equal(t, []uint64{1, 2}, values(&table.Initial.List[0]))
	address := table.Initial.List[1].List
	require.Equal(t, []any{"$str", true, uint64(1), uint64(0)},
		[]any{address[0].Symbol, address[0].Generic, address[0].Value.Bits, address[0].Mask})
	require.Equal(t, []any{"$str", true, uint64(4), uint64(0xff)},
		[]any{address[1].Symbol, address[1].Generic, address[1].Value.Bits, address[1].Mask})
	require.Equal(t, []int64{-1}, v[2].Sizes)
	require.Equal(t, 16, v[2].Align)
	require.True(t, v[3].Managed)
	require.Equal(t, Constant{Single, 0x3f800000}, v[3].Initial.Value)
	require.Equal(t, []any{"more", 4, "f32", []int64{3}},
		[]any{v[5].Name, v[5].Vector, v[5].Type, v[5].Sizes})
}

func values(i *Initial) (all []uint64) {
	for _, e := range i.List {
		all = append(all, e.Value.Bits)
	}
	return all
}

func TestInstructions(t *testing.T) {
	s := body(t, `
	.loc	1 30 5, function_name $L__info_string0+4, inlined_at 1 20 5
	@!%p1 bra 	$L__BB0_2;
	ld.global.L1::no_allocate.L2::128B.v2.b64 {%rd1, _}, [%rd2+-16];
$L__BB0_2:
	mad.lo.s32 %r1, %ctaid.x, 5, -(2+3)*4;
	setp.lt.and.s32 %p1|%p2, %r1, 0x7fffffff, !%p3;
	{ .param .b64 param0; st.param.b64 [param0+8], %rd1;
	call.uni (retval0), f, (param0, 7); }
	table: .branchtargets $L__BB0_2, out;
	proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 4 .b8 _[12]) .noreturn;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];
out: ret;`)
	branch := s[0].(*Instruction)
	require.Equal(t, []any{"%p1", true, "bra", Source{1, 30}},
		[]any{branch.Guard, branch.Negated, branch.Op.Base, branch.Source})
	require.Equal(t, Position{7, 2}, branch.At)
	load := s[1].(*Instruction)
	require.Equal(t, []string{"global", "L1::no_allocate", "L2::128B", "v2", "b64"}, load.Op.Mods)
	require.Equal(t, []Kind{Name, Discard},
		[]Kind{load.Operands[0].List[0].Kind, load.Operands[0].List[1].Kind})
	require.Equal(t, []any{Address, "%rd2", int64(-16)},
		[]any{load.Operands[1].Kind, load.Operands[1].Name, int64(load.Operands[1].Value.Bits)})
	require.Equal(t, "$L__BB0_2", s[2].(*Label).Name)
	mad := s[3].(*Instruction)
	require.Equal(t, []any{"%ctaid", "x"}, []any{mad.Operands[1].Name, mad.Operands[1].Part})
	require.Equal(t, int64(-20), int64(mad.Operands[3].Value.Bits))
	set := s[4].(*Instruction)
	require.Equal(t, Pair, set.Operands[0].Kind)
	require.Equal(t, []any{"%p3", true}, []any{set.Operands[3].Name, set.Operands[3].Negated})
	call := s[5].(*Block).Statements[2].(*Instruction)
	require.Equal(t, []Kind{Group, Name, Group},
		[]Kind{call.Operands[0].Kind, call.Operands[1].Kind, call.Operands[2].Kind})
	require.Equal(t, uint64(7), call.Operands[2].List[1].Value.Bits)
	require.Equal(t, []string{"$L__BB0_2", "out"}, s[6].(*Table).Names)
	proto := s[7].(*Prototype)
	require.True(t, proto.NoReturn)
	require.Equal(t, []int64{12}, proto.Params[1].Sizes)
	bulk := s[8].(*Instruction)
	require.Equal(t, []Kind{Address, Address, Number, Address},
		[]Kind{bulk.Operands[0].Kind, bulk.Operands[1].Kind, bulk.Operands[2].Kind, bulk.Operands[3].Kind})
	require.Equal(t, "mbarrier::complete_tx::bytes", bulk.Op.Mods[4])
}

func TestConstants(t *testing.T) {
	for text, want := range map[string]Constant{
		"1+2*3":                   {Signed, 7},
		"(1+2)*3":                 {Signed, 9},
		"7 % 4":                   {Signed, 3},
		"7%4":                     {Signed, 3},
		"-7 / 2":                  {Signed, ^uint64(2)},
		"1 << 4 | 3":              {Signed, 19},
		"-1 >> 70":                {Signed, ^uint64(0)},
		"0xffffffffffffffff >> 4": {Unsigned, 1<<60 - 1},
		"1 << 64":                 {Signed, 0},
		"0b101":                   {Signed, 5},
		"017":                     {Signed, 15},
		"5U - 6":                  {Unsigned, ^uint64(0)},
		"(.s64)(5U - 6) < 0":      {Signed, 1},
		"5U - 6 < 0":              {Signed, 0},
		"(!0) ? 4 : 5":            {Signed, 4},
		"1 == 2 || 3 != 4":        {Signed, 1},
		"~0":                      {Signed, ^uint64(0)},
		"WARP_SZ - 1":             {Unsigned, 31},
		"0f3f800000":              {Single, 0x3f800000},
		"-0f3F800000":             {Single, 0xbf800000},
		"0d3FF0000000000000":      {Double, 0x3ff0000000000000},
		"1.5 + 1e-1 * 5.0":        {Double, 0x4000000000000000},
		"9223372036854775808":     {Unsigned, 1 << 63},
		"-9223372036854775808":    {Unsigned, 1 << 63},
	} {
		s := body(t, "mov.b64 %rd1, "+text+";")
		require.Equal(t, want, s[0].(*Instruction).Operands[1].Value, text)
	}
}

// Each error names its place and what is wrong.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "1:1: .version is expected at the beginning of PTX, not the end of the text",
		"\x7fELF":                                "1:1: byte 0x7f does not belong into PTX",
		".version seven":                         "1:10: a version is expected, not seven",
		".version 7":                             "1:10: 7 is no version, such as 7.8",
		".version 7.0":                           "1:13: the module names no .target",
		header + ".entry k() { ret":              "4:17: a constant is expected, not the end of the text",
		header + ".entry k() { ret;":             "4:18: } is expected, not the end of the text",
		header + ".entry k() { add.u32 %r1, ; }": "4:27: a constant is expected, not ;",
		header + ".entry k() { mov.u32 %r1, 1/0; }":                         "4:28: a constant is divided by 0",
		header + ".entry k() { mov.u32 %r1, 0f123; }":                       "4:27: 0f123 has not 8 hexadecimal digits",
		header + ".entry k() { mov.u32 %r1, 1x; }":                          "4:27: 1x is no integer of at most 64 bits",
		header + ".entry k() .fast { ret; }":                                "4:12: directive .fast is not known at a function",
		header + ".global .u32 .u64 x;":                                     "4:14: a variable has one type, not both .u32 and .u64",
		header + ".global x;":                                               "4:9: the type of a variable is expected, not x",
		header + ".global .align 3 .u32 x;":                                 "4:9: an alignment is a power of two, not 3",
		header + ".global .u32 x[-2];":                                      "4:16: an array has no -2 elements",
		header + ".entry k() { .reg .b32 %r<9999999>; }":                    "4:27: 9999999 is not in 0..1048576",
		header + ".magic":                                                   "4:1: directive .magic is not known here",
		header + "/* for ever":                                              "4:1: the comment does not end",
		header + ".pragma \"x\n":                                            "4:9: the string does not end on its line",
		header + ".entry k() { ld.u32 %r1, [{%r1}]; }":                      "4:27: an address is a name or a number, not a vector",
		header + ".entry k() " + strings.Repeat("{", 101):                   "4:112: this nests more than 100 deep",
		header + ".entry k() { mov.u32 %r1, " + strings.Repeat("(", 200):    "4:59: this nests more than 100 deep",
		header + ".entry k() { mov.u32 %r1, " + strings.Repeat("1?1:", 200): "4:409: this nests more than 100 deep",
	} {
		_, err := Parse(text)
		assert.EqualError(t, err, want, "%.80q", text)
	}
	_, err := Parse(header + ".entry " + strings.Repeat("k", 100) + " = ")
	require.EqualError(t, err, "4:109: { is expected, not =")
}

// Fat binaries end the text with NULs.
func TestNulsAtTheEnd(t *testing.T) {
	m := parse(t, ".entry k() { ret; }\n\x00\x00")
	require.Len(t, m.Functions, 1)
}

// The PTX files of this folder's corpus are read to their end.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(os.Getenv("PTX_CORPUS"))
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		m, err := Parse(string(text))
		require.NoError(t, err, name)
		t.Log(name, len(m.Functions), len(m.Variables))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(header + ".entry k(.param .u64 p) { .reg .b64 %r<2>; ld.param.u64 %r1, [p]; @%p1 bra L; L: ret; }")
	f.Add(header + ".global .u32 x[2] = {1, generic(y)+2}; .func (.param .b32 r) f(.param .b64 a) { call (r), f, (a); }")
	f.Add(header + ".file 1 \"x\"\n.entry k() { .loc 1 2 3, function_name f, inlined_at 1 2 3\n setp.lt.and.s32 %p1|%p2, %r1, 1+2*3, !%p3; }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		require.True(t, (m == nil) == (err != nil))
	})
}
