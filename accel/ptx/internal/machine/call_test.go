package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A result in a register is there when the function returns, whatever has been computed since, and wherever
// the return is in the text.
func TestResultInRegister(t *testing.T) {
	r := newRig(t, `
.func (.reg .b32 %r) f(.reg .b64 %a) {
	.reg .b32 %x, %y;
	mov.u32 %r, 7;
	ld.u32 %x, [%a];
	add.u32 %y, %x, 9;
	st.u32 [%a], %y;
	ret;
}
.func (.reg .b32 %r) g(.reg .b64 %a) {
	.reg .b32 %x, %y;
	bra late;
end: ret;
late:
	mov.u32 %r, 8;
	ld.u32 %x, [%a];
	add.u32 %y, %x, 9;
	st.u32 [%a], %y;
	bra end;
}
.entry k(.param .u64 out) {`+prelude+`
	call (%n), f, (%o);
	st.u32 [%o+4], %n;
	call (%n), g, (%o);
	st.u32 [%o+256], %n;
	ret;
}`)
	words, err := r.run("k", 1, 32, 64)
	require.NoError(t, err)
	for l := range 32 {
		require.EqualValues(t, 7<<32|18, words[l])
		require.EqualValues(t, 8, words[32+l])
	}
}
