package machine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// meet is a function at which all blocks of a cooperative grid meet: as cooperative_groups does it.
const meet = `
.func meet() {
	.reg .b32 %hi, %lo, %tid, %block, %blocks, %n, %old, %now; .reg .b64 %at; .reg .pred %p;
	mov.u32 %hi, %envreg1; mov.u32 %lo, %envreg2; mov.b64 %at, {%lo, %hi};
	mov.u32 %tid, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %blocks, %nctaid.x;
	bar.sync 0;
	setp.ne.u32 %p, %tid, 0;
	@%p bra together;
	setp.eq.u32 %p, %block, 0;
	sub.u32 %n, 0x80000001, %blocks;
	selp.u32 %n, %n, 1, %p;
	fence.acq_rel.gpu;
	atom.add.release.gpu.u32 %old, [%at+4], %n;
again:
	ld.volatile.u32 %now, [%at+4];
	xor.b32 %now, %now, %old;
	setp.ge.s32 %p, %now, 0;
	@%p bra again;
	ld.acquire.gpu.u32 %now, [%at+4];
together:
	bar.sync 0;
	ret;
}`

// Blocks of a cooperative grid meet again and again: none goes on before all have come.
const rounds = meet + `
.entry k(.param .u64 out) {` + prelude + `
	.reg .b32 %block, %blocks, %round, %i, %sum, %want; .reg .b64 %at, %bad; .reg .u64 %v;
	mov.u32 %block, %ctaid.x; mov.u32 %blocks, %nctaid.x;
	mov.u32 %round, 1;
next:
	setp.ne.u32 %p, %tid, 0;
	@%p bra stored;
	mad.wide.u32 %at, %block, 8, %out;
	cvt.u64.u32 %v, %round;
	st.u64 [%at+8], %v;
stored:
	call meet;
	mov.u32 %i, 0;
look:
	mad.wide.u32 %at, %i, 8, %out;
	ld.u64 %v, [%at+8];
	cvt.u32.u64 %sum, %v;
	setp.eq.u32 %p, %sum, %round;
	@%p bra right;
	atom.global.add.u64 %bad, [%out], 1;
right:
	add.u32 %i, %i, 1;
	setp.lt.u32 %p, %i, %blocks;
	@%p bra look;
	call meet;
	add.u32 %round, %round, 1;
	setp.le.u32 %p, %round, 5;
	@%p bra next;
	ret;
}
.entry workspace(.param .u64 out) {
	.reg .b64 %out, %at; .reg .b32 %hi, %lo, %size, %barrier; .reg .pred %p;
	ld.param.u64 %out, [out];
	mov.u32 %hi, %envreg1; mov.u32 %lo, %envreg2; mov.b64 %at, {%lo, %hi};
	st.u64 [%out], %at;
	setp.eq.u64 %p, %at, 0;
	@%p ret;
	ld.u32 %size, [%at]; ld.u32 %barrier, [%at+4];
	st.u32 [%out+8], %size; st.u32 [%out+12], %barrier;
	ld.global.u32 %size, [%at+8];
	ret;
}`

func TestBlocksMeet(t *testing.T) {
	const blocks = 24
	r := newRig(t, rounds)
	r.cooperative = true
	for range 3 {
		words, err := r.run("k", blocks, 40, 1+blocks)
		require.NoError(t, err)
		require.Zero(t, words[0], "a block has gone on before all had come")
		for _, w := range words[1:] {
			require.EqualValues(t, 5, w)
		}
	}
	for seed := range uint64(4) {
		r.order = NewOrder(seed)
		words, err := r.run("k", 5, 3, 6)
		require.NoError(t, err)
		require.Zero(t, words[0], "a block has gone on before all had come")
	}
}

// A cooperative grid reaches its workspace and no byte more; another grid has none.
func TestWorkspace(t *testing.T) {
	r := newRig(t, rounds)
	words, err := r.run("workspace", 1, 1, 2)
	require.NoError(t, err)
	require.Equal(t, []uint64{0, 0}, words)
	r.cooperative = true
	words, err = r.run("workspace", 1, 1, 2)
	require.NotZero(t, words[0])
	require.EqualValues(t, workspaceBytes, words[1])
	require.ErrorContains(t, err, fmt.Sprintf("4 bytes at global address %#x cannot be reached", words[0]+workspaceBytes))
}
