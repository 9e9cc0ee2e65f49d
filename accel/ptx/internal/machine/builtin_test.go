package machine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// printing returns a kernel that prints one value of 8 bytes.
func printing(format string, bits uint64) string {
	text := strings.Builder{}
	for _, c := range []byte(format) {
		fmt.Fprintf(&text, "%d, ", c)
	}
	return fmt.Sprintf(`
.extern .func (.param .b32 n) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 format[] = {%s0};
.entry k(.param .u64 out) {
	.local .align 8 .b8 values[16];
	.reg .b64 %%v, %%f; .reg .b32 %%n;
	mov.u64 %%v, %#x; st.local.u64 [values], %%v; st.local.u64 [values+8], %%v;
	mov.u64 %%v, values; cvta.local.u64 %%v, %%v; mov.u64 %%f, format; cvta.global.u64 %%f, %%f;
	{ .param .b64 a; .param .b64 b; .param .b32 r;
	st.param.b64 [a], %%f; st.param.b64 [b], %%v;
	call.uni (r), vprintf, (a, b); ld.param.b32 %%n, [r]; }
	ret;
}`, text.String(), bits)
}

// Numbers are printed as C prints them.
func TestPrintfOfFloats(t *testing.T) {
	for _, c := range []struct {
		format string
		value  float64
		want   string
	}{
		{"%g", 0.30000000000000004, "0.3"},
		{"%g", 1e6, "1e+06"},
		{"%g", 100000, "100000"},
		{"%.3g", 1234567, "1.23e+06"},
		{"%f", math.Inf(1), "inf"},
		{"%+f", math.Inf(1), "+inf"},
		{"%06.2f", math.Inf(-1), "  -inf"},
		{"%-5f|", math.NaN(), "nan  |"},
		{"%E", math.Inf(1), "INF"},
		{"%8.3f", 3.14159, "   3.142"},
	} {
		r := newRig(t, printing(c.format, math.Float64bits(c.value)))
		_, err := r.run("k", 1, 1, 1)
		require.NoError(t, err)
		require.Equal(t, c.want, r.out.String(), c.format)
	}
}

// A width does not take the host's memory.
func TestPrintfIsBounded(t *testing.T) {
	for _, format := range []string{"%999999d", "%.999999f", "%99999999999999999999d", "%*d"} {
		r := newRig(t, printing(format, 1<<30))
		_, err := r.run("k", 1, 1, 1)
		require.ErrorContains(t, err, "printf of more than", format)
	}
}

// A declaration of strangers does not let a builtin write more than its result has.
func TestBuiltinWithoutWords(t *testing.T) {
	r := newRig(t, `
.extern .func (.param .b8 n[3]) vprintf(.param .b64 format, .param .b64 values);
.global .b8 format[2] = {65, 0};
.entry k(.param .u64 out) {
	.reg .b64 %f;
	mov.u64 %f, format;
	{ .param .b64 a; .param .b64 b; .param .b8 r[3];
	st.param.b64 [a], %f; st.param.b64 [b], %f;
	call.uni (r), vprintf, (a, b); }
	ret;
}`)
	_, err := r.run("k", 1, 1, 1)
	require.ErrorContains(t, err, "a parameter of 3 bytes")
}
