package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Instructions that do nothing here do nothing.
func TestNothing(t *testing.T) {
	r := newRig(t, `
.shared .align 8 .b64 s;
.entry k(.param .u64 out) {`+prelude+`
	.reg .b32 %a;
	mov.u32 %a, s;
	setp.eq.u32 %p, %tid, 3;
	cp.async.commit_group;
	cp.async.wait_group 0;
	@%p cp.async.wait_all;
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group.read 0;
	cp.async.mbarrier.arrive.shared.b64 [%a];
	prefetch.global.L2 [%out];
	@!%p brkpt;
	st.u64 [%o], 5;
	ret;
}`)
	words, err := r.run("k", 1, 32, 32)
	require.NoError(t, err)
	require.EqualValues(t, 5, words[31])
}
