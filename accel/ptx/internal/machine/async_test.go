package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A small copy reads as many bytes as it says, and those that it does not read become zeros. A lane that
// reads none may have any address.
func TestSmallCopyFills(t *testing.T) {
	r := newRig(t, `
.shared .align 16 .b8 s[512];
.entry k(.param .u64 out) {`+prelude+`
	.reg .b32 %a; .reg .b64 %x, %policy;
	mov.u32 %a, s; mad.lo.u32 %a, %tid, 16, %a;
	st.shared.u64 [%a], -1; st.shared.u64 [%a+8], -1;
	mov.u64 %x, 0x1122334455667788; st.u64 [%out], %x; st.u64 [%out+8], %x;
	cp.async.cg.shared.global [%a], [%out], 16, %tid;
	setp.lt.u32 %p, %tid, 8; mov.u64 %x, %out; @%p mov.u64 %x, 0;
	cp.async.ca.shared.global.L2::cache_hint [%a+8], [%x], 8, %p, %policy;
	cp.async.wait_all;
	mad.wide.u32 %o, %tid, 16, %out;
	ld.shared.u64 %x, [%a]; st.u64 [%o+16], %x;
	ld.shared.u64 %x, [%a+8]; st.u64 [%o+24], %x;
	ret;
}`)
	words, err := r.run("k", 1, 17, 2+2*17)
	require.NoError(t, err)
	const value = 0x1122334455667788
	for l := range 17 {
		first := uint64(value)
		if l < 8 {
			first = value & (1<<(8*l) - 1)
		}
		require.Equal(t, first, words[2+2*l], l)
		require.EqualValues(t, map[bool]uint64{true: 0, false: value}[l < 8], words[3+2*l], l)
	}
	_, err = r.run("k", 1, 18, 2+2*18)
	require.ErrorContains(t, err, "a copy to 16 bytes reads 17")
}
