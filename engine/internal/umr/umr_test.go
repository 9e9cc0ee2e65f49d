//go:build linux && (amd64 || arm64)

package umr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/engine/internal/umr"
	"github.com/nicless/nicless/wqe"
)

func TestUnchangeable(t *testing.T) {
	require.Empty(t, umr.Unchangeable(wqe.MaskLen|wqe.MaskMkey|wqe.MaskSmallFence))
	require.Equal(t, "the protection domain", umr.Unchangeable(wqe.MaskLen|wqe.MaskPD))
	require.Equal(t, "signatures (bsf)", umr.Unchangeable(wqe.MaskBSFEnable))
	require.Equal(t, "bits 0x8000000000000000", umr.Unchangeable(1<<63))
}

// A length that is the sum of 2 GiB in an int names the versions of rdma-core that have it so.
func TestTooLong(t *testing.T) {
	const sum = 1<<64 - 1<<31
	require.Contains(t, umr.TooLong(sum, 0, 1<<31), "rdma-core before 61")
	require.Equal(t, "it is longer than the entries of its list together: it has 8192 bytes, they have 4096",
		umr.TooLong(8192, 0, 4096))
	require.Contains(t, umr.TooLong(1, 1, 0), "2^64")
}
