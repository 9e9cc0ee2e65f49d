package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A barrier for some threads counts whole warps: lanes that have ended, or are not there in the last warp of
// the block, do not keep the others; one that has arrived without waiting, and then ended, counts once.
func TestBarrierCountsWarps(t *testing.T) {
	r := newRig(t, `
.entry ended(.param .u64 out) {`+prelude+`
	setp.eq.u32 %p, %tid, 5; @%p ret;
	bar.sync 1, 64;
	st.u64 [%o], 5;
	ret;
}
.entry arrives(.param .u64 out) {`+prelude+`
	setp.ge.u32 %p, %tid, 32; @%p bra W;
	st.volatile.u32 [%out+512], 7;
	bar.arrive 1, 64;
	ret;
W:	ld.volatile.u32 %n, [%out+512]; setp.ne.u32 %p, %n, 7; @%p bra W;
	nanosleep.u32 1000000;
	bar.sync 1, 64;
	st.u64 [%o], 5;
	ret;
}
.entry votes(.param .u64 out) {`+prelude+`
	setp.eq.u32 %p, %tid, 5; @%p ret;
	setp.ge.u32 %p, %tid, 32;
	bar.red.popc.u32 %n, 1, 64, %p;
	st.u32 [%o], %n;
	ret;
}`)
	for _, k := range []string{"ended", "arrives"} {
		for _, threads := range []uint32{64, 48} {
			words, err := r.run(k, 1, threads, 65)
			require.NoError(t, err, "%s, %d threads", k, threads)
			require.EqualValues(t, 5, words[47])
		}
	}
	words, err := r.run("votes", 1, 48, 65)
	require.NoError(t, err)
	require.EqualValues(t, 16, words[47])
}
