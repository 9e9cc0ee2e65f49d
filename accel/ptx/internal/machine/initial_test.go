package machine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Initial values are of the type of their variable. Variables that a function declares have theirs, too.
func TestInitialValues(t *testing.T) {
	r := newRig(t, `
.global .f32 g[] = {1.5, 0f40000000, 0};
.global .v2 .f64 d[] = {{1.5, -0.5}};
.entry k(.param .u64 out) {`+prelude+`
	.global .b32 inner = 77;
	ld.global.u32 %n, [g]; st.u32 [%out], %n;
	ld.global.u32 %n, [g+4]; st.u32 [%out+4], %n;
	ld.global.u64 %o, [d+8]; st.u64 [%out+8], %o;
	ld.global.u32 %n, [inner]; st.u32 [%out+16], %n;
	ret;
}`)
	words, err := r.run("k", 1, 1, 3)
	require.NoError(t, err)
	require.EqualValues(t, uint64(math.Float32bits(2))<<32|uint64(math.Float32bits(1.5)), words[0])
	require.EqualValues(t, math.Float64bits(-0.5), words[1])
	require.EqualValues(t, 77, words[2])
}
