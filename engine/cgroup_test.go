package engine

import (
	"os"
	"testing"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// Users other than the device's own cannot have regions of more bytes than there is memory.
func TestRegionsOfOthersFitIntoMemory(t *testing.T) {
	const most, behind = 3 << 18, "the memory of the device's control group is limited to 1048576 bytes"
	r := newRig(t, Config{})
	r.e.ledger.SetLimit(quota.RegionBytes, most, behind)
	own := uint32(os.Getuid())
	_, err := r.e.createMemory(own+1, "test", most/2+shm.PageSize, shm.Create)
	require.ErrorContains(t, err, "bytes of regions")
	require.ErrorContains(t, err, behind)
	for uid, size := range map[uint32]int{own: 2 * most, own + 1: most / 2} {
		m, err := r.e.createMemory(uid, "test", size, shm.Create)
		require.NoError(t, err)
		require.NoError(t, m.Seal())
		r.e.releaseMemory(uid, m)
	}
	r.until("charges are refunded", func() bool { return r.owed() == quota.Charge{} })
}
