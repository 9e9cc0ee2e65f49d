package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// chain is a kernel whose calls by name need 5,000 bytes and more, functions that call themselves or each
// other, and one that is called by its address.
const chain = `
.func leaf(.param .b64 to) {
	.local .align 8 .b8 big[3000]; .reg .b64 %x, %a;
	ld.param.u64 %x, [to]; mov.u64 %a, big; st.local.u64 [%a+2992], %x; ld.local.u64 %x, [%a+2992];
	st.u64 [%x], 7;
	ret;
}
.func middle(.param .b64 to) {
	.local .align 8 .b8 big[2000]; .reg .b64 %x, %a;
	ld.param.u64 %x, [to]; mov.u64 %a, big; st.local.u64 [%a+1992], 5;
	{ .param .b64 p; st.param.u64 [p], %x; call leaf, (p); }
	ld.local.u64 %a, [%a+1992];
	st.u64 [%x+8], %a;
	ret;
}
.func even(.param .b64 to);
.func odd(.param .b64 to) { .local .b8 b[64]; .param .b64 p; call even, (p); ret; }
.func even(.param .b64 to) { .local .b8 b[64]; .param .b64 p; call odd, (p); ret; }
.func huge(.param .b64 to) { .local .b8 b[600000]; ret; }
.entry k(.param .u64 out) {` + prelude + `
	{ .param .b64 p; st.param.u64 [p], %out; call middle, (p); }
	ret;
}
.entry again(.param .u64 out) { .param .b64 p; call odd, (p); ret; }
.entry address(.param .u64 out) {
	.reg .b64 %f; .param .b64 p;
	mov.u64 %f, leaf;
	call %f, (p), proto;
proto: .callprototype _ (.param .b64 p);
	ret;
}
.entry never(.param .u64 out) {` + prelude + `
	.param .b64 p;
	setp.eq.u32 %p, %tid, 77;
	@!%p bra end;
	call huge, (p);
end:	st.u64 [%out], 3;
	ret;
}`

// Calls by name have memory for their frames, whatever the launch says.
func TestStackOfCallsByName(t *testing.T) {
	r := newRig(t, chain)
	r.stack = 16
	words, err := r.run("k", 2, 40, 2)
	require.NoError(t, err)
	require.Equal(t, []uint64{7, 5}, words)
	words, err = r.run("never", 1, 1, 1)
	require.NoError(t, err)
	require.EqualValues(t, 3, words[0])
}

// A function that is wrong has no calls that could be followed.
func TestStackOfWrongFunctions(t *testing.T) {
	r := newRig(t, `
.extern .func nobody();
.func wrong() { call nobody; call wrong; ret; }
.entry k(.param .u64 out) {`+prelude+` setp.eq.u32 %p, %tid, 1; @%p call wrong; st.u64 [%out], 3; ret; }`)
	words, err := r.run("k", 1, 1, 1)
	require.NoError(t, err)
	require.EqualValues(t, 3, words[0])
	_, err = r.run("k", 1, 2, 1)
	require.ErrorContains(t, err, "nobody is not defined")
}

// Other calls have the launch's.
func TestStackOfOtherCalls(t *testing.T) {
	r := newRig(t, chain)
	for _, kernel := range []string{"again", "address"} {
		r.stack = 256
		_, err := r.run(kernel, 1, 1, 1)
		require.ErrorContains(t, err, "stack overflow", kernel)
	}
}
