package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Lanes meet in twos while a third one waits for both of them.
func TestMeetingWithinMeeting(t *testing.T) {
	r := newRig(t, `
.entry k(.param .u64 out) {`+prelude+`
	setp.gt.u32 %p, %tid, 2; @%p ret;
	setp.ne.u32 %p, %tid, 0; @%p bra B;
	bar.warp.sync 7;
	bra E;
B:	setp.eq.u32 %p, %tid, 1; @%p bra C;
	bar.warp.sync 6;
	bra D;
C:	bar.warp.sync 6;
D:	bar.warp.sync 7;
E:	st.u64 [%o], 5;
	ret;
}`)
	words, err := r.run("k", 1, 32, 32)
	require.NoError(t, err)
	require.Equal(t, []uint64{5, 5, 5, 0}, words[:4])
}

// Lanes call functions by their addresses: some a function of the driver, the others one of their own.
func TestBuiltinByAddress(t *testing.T) {
	r := newRig(t, `
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[2] = {33, 0};
.func (.param .b32 r) own(.param .b64 f, .param .b64 a) { st.param.b32 [r], 9; ret; }
.entry k(.param .u64 out) {`+prelude+`
	.reg .b64 %f;
	.param .b64 a; .param .b64 b; .param .b32 r;
	mov.u64 %f, text; st.param.b64 [a], %f; st.param.b64 [b], %out; st.param.b32 [r], 7;
	mov.u64 %f, vprintf;
	setp.gt.u32 %p, %tid, 3;
	@%p mov.u64 %f, own;
	call (r), %f, (a, b), kind;
	ld.param.b32 %n, [r]; cvt.u64.u32 %f, %n; st.u64 [%o], %f;
	ret;
kind: .callprototype (.param .b32 r) _ (.param .b64 f, .param .b64 a);
}`)
	words, err := r.run("k", 1, 8, 8)
	require.NoError(t, err)
	require.Equal(t, []uint64{0, 0, 0, 0, 9, 9, 9, 9}, words)
	require.Equal(t, "!!!!", r.out.String())
}
