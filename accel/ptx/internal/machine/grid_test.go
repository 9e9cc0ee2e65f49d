package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Directives of a kernel say how many threads its blocks have: .reqntid exactly, .maxntid at most.
func TestThreadsOfKernels(t *testing.T) {
	r := newRig(t, `
.entry exact(.param .u64 out) .reqntid 32, 2 { ret; }
.entry flat(.param .u64 out) .reqntid 64 { ret; }
.entry most(.param .u64 out) .maxntid 64 { ret; }
.entry huge(.param .u64 out) .maxntid 2147483648, 2147483648, 4 { ret; }`)
	_, err := r.run("flat", 1, 64, 1)
	require.NoError(t, err)
	_, err = r.run("flat", 1, 32, 1)
	require.ErrorIs(t, err, ErrLaunch)
	_, err = r.run("exact", 1, 64, 1)
	require.ErrorContains(t, err, "blocks of [64 1 1] threads; the kernel requires blocks of [32 2 1]")
	_, err = r.run("most", 1, 32, 1)
	require.NoError(t, err)
	_, err = r.run("most", 1, 65, 1)
	require.ErrorContains(t, err, "blocks of 65 threads; at most 64 are possible for this kernel")
	_, err = r.run("huge", 1, 1024, 1)
	require.NoError(t, err)
}
